"""Telling everybody who wants to know that this process is to stop.

A handler only records the signal. An ordinary thread then asks everything that runs to stop, and
calls the callbacks. The second signal says that it is urgent, the third that nobody waits.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import ClassVar

from afl import telemetry
from afl.clock import SYSTEM_CLOCK, Clock
from afl.errors import UsageError
from afl.log import get_logger
from afl.runtime.aside import do_aside, start_aside
from afl.runtime.lifecycle.received import Received
from afl.runtime.signals import HandlerWatch, Replaced, SignalHandlers, SignalSocket

_log = get_logger(__name__)

#: How long the exit of the interpreter waits for callbacks that have begun.
_LAST_CALLS_S = 5.0

Callback = Callable[[], object]
OnReplaced = Callable[[Replaced], object]

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Urgency(IntEnum):
    """How much time there is; signals climb from one to the next."""

    #: The first signal: finish what is in hand, and end.
    DRAIN = 1
    #: The second: save what is unfinished now, and end.
    CHECKPOINT = 2
    #: The third: out.
    EXIT = 3


@dataclass(eq=False, slots=True)
class _Entry:
    callback: Callback
    urgency: Urgency
    is_called: bool = False


class ShutdownCoordinator:
    """Calls back when this process is to stop, each callback once. Safe from any thread.

    `install()` makes the one of the process, which hears of signals; an instance made directly
    hears only of `trigger` and `delegate`.
    """

    _instance: ClassVar[ShutdownCoordinator | None] = None
    _instance_lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # Replaced as a whole, never changed: a signal handler looks without the lock.
        self._entries: tuple[_Entry, ...] = ()
        self._reached = 0
        self._received = Received()
        self._handlers = SignalHandlers(self._receive_signal)
        self._socket = SignalSocket(self._hear_socket)
        self._watch: HandlerWatch | None = None
        #: Threads on which callbacks are called.
        self._calling: list[threading.Thread] = []
        #: How many groups use it, and whether it was made for them: then the last one resets it.
        self._borrowers = 0
        self._is_for_groups = False
        start_aside()

    # The one of the process

    @classmethod
    def install(
        cls,
        *,
        signals: Sequence[signal.Signals] = _SIGNALS,
        on_replaced: OnReplaced | None = None,
        chain: bool = False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> ShutdownCoordinator:
        """The coordinator of this process, with handlers for these signals.

        Calling again gives the same one; signals that are new are added. `on_replaced` is called,
        on a thread of ours and within a second, when somebody replaces a handler of ours; if it
        returns True the signal is taken back. With `chain`, handlers found here are called too.
        Raises UsageError off the main thread, unless all signals are handled already.
        """
        with cls._instance_lock:
            return cls._install(signals, on_replaced, chain, clock)

    @classmethod
    def get(cls) -> ShutdownCoordinator | None:
        """The coordinator of this process, or None if none is installed."""
        with cls._instance_lock:
            return cls._instance

    @classmethod
    def reset(cls) -> None:
        """Forget the coordinator of this process and put back the handlers it had found."""
        with cls._instance_lock:
            coordinator, cls._instance = cls._instance, None
        if coordinator is not None:
            coordinator._leave()

    # The same, as long as groups run

    @classmethod
    def borrow(cls, on_replaced: OnReplaced | None, clock: Clock) -> ShutdownCoordinator | None:
        """The coordinator of this process, to be given back. If nobody has installed it, it is
        installed until the last who borrowed it gives it back.

        None where handlers cannot be installed, off the main thread, and nobody has done it before.
        """
        with cls._instance_lock:
            coordinator = found = cls._instance
            if found is None or on_replaced is not None:
                try:
                    coordinator = cls._install(_SIGNALS, on_replaced, False, clock)
                except UsageError as error:
                    _log.warning("signals_not_handled", reason=str(error))
            if coordinator is not None:
                coordinator._borrowers += 1
                coordinator._is_for_groups = coordinator._is_for_groups or found is None
            return coordinator

    def give_back(self) -> None:
        """Once for each `borrow`."""
        cls = type(self)
        with cls._instance_lock:
            self._borrowers -= 1
            is_last = self._is_for_groups and not self._borrowers and cls._instance is self
            if is_last:
                cls._instance = None
        if is_last:
            self._leave()

    # For those who want to know

    def register(self, callback: Callback, *, urgency: Urgency = Urgency.DRAIN) -> None:
        """Call `callback` once, when it becomes this urgent; at once if it already is.

        Callbacks run in the order of registration on an ordinary thread. One that fails is logged
        and disturbs no other.
        """
        entry = _Entry(callback, urgency)
        with self._lock:
            self._entries = (*self._entries, entry)
            due = self._due()
        self._call(due)

    def unregister(self, callback: Callback) -> None:
        """Do not call `callback` any more; nothing happens if it is not registered."""
        with self._lock:
            found = next((each for each in self._entries if each.callback == callback), None)
            self._entries = tuple(each for each in self._entries if each is not found)

    def trigger(self, urgency: Urgency = Urgency.DRAIN) -> None:
        """Call everybody for whom it is time now, and return when they have returned.

        Doing it again calls nobody again. Not for signal handlers: those use `delegate()`.
        """
        with self._lock:
            self._reached = max(self._reached, urgency)
            due = self._due()
        self._call(due)

    @property
    def triggered(self) -> bool:
        """Whether the process is to stop."""
        return bool(self._reached or self._received)

    @property
    def reason(self) -> str:
        """What it was triggered by: the name of the first signal, or a word."""
        first = self._received.first()
        return "trigger" if first is None else signal.Signals(first).name

    def delegate(self) -> Callable[..., None]:
        """What a framework with signal handlers of its own must call in them.

        The callable takes what a handler gets, or less; it only records, as our own handlers do.
        """

        def receive(signum: int = signal.SIGTERM, _frame: object = None) -> None:
            self._received.delegated.append(signum)
            do_aside(self._act)

        return receive

    # Signals

    @classmethod
    def _install(
        cls,
        signals: Iterable[signal.Signals],
        on_replaced: OnReplaced | None,
        chain: bool,
        clock: Clock,
    ) -> ShutdownCoordinator:
        """With the lock of the instance held."""
        coordinator = cls._instance or cls(clock=clock)
        coordinator._take(signals, on_replaced, chain)
        if cls._instance is None:
            atexit.register(coordinator._let_callbacks_end)
        # Last: whoever finds it finds it with its handlers.
        cls._instance = coordinator
        return coordinator

    def _take(
        self, signals: Iterable[signal.Signals], on_replaced: OnReplaced | None, chain: bool
    ) -> None:
        wanted = [each for each in signals if each not in self._handlers.signals]
        if wanted or chain:
            self._handlers.install(wanted, chain=chain)
            self._socket.open()
        if self._watch is None or on_replaced is not None:
            self._stop_watch()
            note = partial(self._note_replaced, on_replaced)
            self._watch = HandlerWatch(
                self._handlers, self._clock, on_replaced=note, on_look=self._look_for_late_handlers
            )
            self._watch.start()

    def _leave(self) -> None:
        atexit.unregister(self._let_callbacks_end)
        self._stop_watch()
        self._socket.close()
        self._handlers.restore()
        with self._lock:
            self._entries = ()

    def _stop_watch(self) -> None:
        if self._watch is not None:
            self._watch.stop()

    def _note_replaced(self, on_replaced: OnReplaced | None, replaced: Replaced) -> None:
        telemetry.emit(
            telemetry.SignalHandlerReplaced(
                at=self._clock.now(), signal=replaced.signum.name, holder=replaced.holder
            )
        )
        _log.warning("signal_handler_replaced", signal=replaced.signum.name, now=replaced.holder)
        try:
            if on_replaced is not None and on_replaced(replaced) is True:
                self._handlers.take_back()
        except Exception:
            _log.exception("on_replaced_failed", callback=repr(on_replaced))

    def _receive_signal(self, signum: int) -> None:
        """In a handler of ours: no lock, no wait."""
        self._received.handled.append(signum)
        do_aside(self._act)
        if len(self._received) < Urgency.EXIT:
            return
        if any(each.urgency is Urgency.EXIT for each in self._entries):
            self._handlers.restore()
        else:
            # Nobody here can end the process, but who had the signal before us can.
            self._handlers.pass_on(signum)

    def _hear_socket(self, signum: int) -> None:
        # The socket tells of all signals, also of those that others handle.
        if self._handlers.holds(signum):
            self._received.told.append(signum)
            do_aside(self._act)

    def _look_for_late_handlers(self) -> None:
        if self._received.is_waiting_for_handlers():
            self._handlers.call_main_thread()

    def _act(self) -> None:
        """A thread for each step of urgency: callbacks may wait, and the next signal may not."""
        urgency = Urgency(min(len(self._received), Urgency.EXIT))
        with self._lock:
            self._reached = max(self._reached, urgency)
            due = self._due()
        for step in sorted({each.urgency for each in due}):
            group = [each for each in due if each.urgency is step]
            name = f"afl-shutdown-{step.name.lower()}"
            thread = threading.Thread(target=self._call, args=(group,), name=name, daemon=True)
            # Before it starts, since the first callback may already lead to the exit.
            self._calling.append(thread)
            thread.start()

    def _let_callbacks_end(self) -> None:
        """At the exit of the interpreter, which would cut off what is being closed."""
        deadline = self._clock.monotonic() + _LAST_CALLS_S
        for thread in self._calling:
            if thread.is_alive():
                thread.join(max(deadline - self._clock.monotonic(), 0.0))

    # Calling

    def _due(self) -> list[_Entry]:
        """Those to call now, and never again. With the lock held."""
        due = [e for e in self._entries if e.urgency <= self._reached and not e.is_called]
        for each in due:
            each.is_called = True
        return due

    def _call(self, due: Sequence[_Entry]) -> None:
        """First ask all, then call, so that nobody waits for one who has not been asked yet."""
        for each in due:
            ask = getattr(getattr(each.callback, "__self__", None), "request_stop", None)
            if ask is not None:
                _isolated(ask)
        for each in due:
            _isolated(each.callback)

    # Forks

    @classmethod
    def _forget_in_child(cls) -> None:
        """A forked child is another process: who is to be told of its stop is yet to register. Its
        locks are new, since nobody there releases those that were held."""
        cls._instance_lock = threading.Lock()
        coordinator, cls._instance = cls._instance, None
        if coordinator is not None:
            coordinator._lock = threading.Lock()
            coordinator._entries = ()


os.register_at_fork(after_in_child=ShutdownCoordinator._forget_in_child)


def _isolated(callback: Callback) -> None:
    try:
        callback()
    except Exception:
        _log.exception("shutdown_callback_failed", callback=repr(callback))
