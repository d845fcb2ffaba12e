"""Signals of the operating system: our handlers, and what was there before them.

Python runs handlers on the main thread, and only that thread may set them. Ours only record.
What they replace is kept and put back. Libraries that replace ours later can be found out, since
every thread may look.

A main thread that waits, or computes in C, may run its handlers late or never: a signal that comes
just before a wait does not end it. So a thread of ours hears of signals as well, from a socket
that Python's own handler writes to at once.

A fork copies handlers and socket into a child that has none of those who act on them. The child
lets go of both, and hears its signals as if we had never been there.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from afl.clock import Clock
from afl.errors import UsageError
from afl.runtime.aside import on_main_thread

#: Ignored by default and used by nobody: it only calls the main thread out of its wait.
_CALL = signal.SIGURG
#: Somebody who replaced a handler is noticed within a second.
LOOK_INTERVAL_S = 0.5

Handler = Any


@dataclass(frozen=True, slots=True)
class Replaced:
    """A handler of ours is not in place any more."""

    signum: signal.Signals
    #: Who holds the signal now, for people: a function with its file and line.
    holder: str


def take_back(_replaced: Replaced) -> bool:
    """For `on_replaced`: whoever took a signal from us loses it again."""
    return True


class SignalHandlers:
    """Our handlers of some signals. `receive` is called in them, so it may only record."""

    def __init__(self, receive: Callable[[int], None]) -> None:
        self._receive = receive
        # One object for ever: a bound method is a new one each time it is looked up.
        self._handler = self._handle
        self._previous: dict[signal.Signals, Handler] = {}
        self._previous_call: Handler = None
        self._is_retired = False
        self._chains = False
        self._wants_back = False

    @property
    def signals(self) -> tuple[signal.Signals, ...]:
        return tuple(self._previous)

    def install(
        self,
        signals: Iterable[signal.Signals],
        *,
        chain: bool = False,
    ) -> None:
        """Take these signals as well, all of them or none. A signal that is ours stays so.

        With `chain`, handlers that somebody set before us are called as well, after ours.
        Raises UsageError off the main thread, where handlers cannot be set.
        """
        if not on_main_thread():
            raise UsageError(
                "signal handlers can be installed on the main thread only; install them there "
                "before other threads start, or hand signals over with coordinator.delegate()"
            )
        before = dict(self._previous)
        _hold(self.restore)
        try:
            for each in map(signal.Signals, signals):
                if each not in self._previous:
                    self._previous[each] = signal.signal(each, self._handler)
        except BaseException:
            self._put_back(each for each in self._previous if each not in before)
            self._previous = before
            if not before:
                _drop(self.restore)
            raise
        self._chains = self._chains or chain
        if self._previous_call is None:
            self._previous_call = signal.signal(_CALL, self._called) or signal.SIG_DFL

    def restore(self) -> None:
        """Put back what was there before us, where nobody has replaced us meanwhile.

        Off the main thread this waits for the next signal, which then goes to who was before us.
        """
        if not on_main_thread():
            self._is_retired = True
            return
        self._put_back(self._previous)
        self._previous = {}
        if self._previous_call is not None:
            signal.signal(_CALL, self._previous_call)
            self._previous_call = None
        _drop(self.restore)

    def holds(self, signum: int) -> bool:
        """Whether this signal comes to us now."""
        return not self._is_retired and signal.getsignal(signum) is self._handler

    def replaced(self) -> list[Replaced]:
        """The signals that somebody has taken from us."""
        holders = ((each, signal.getsignal(each)) for each in self.signals)
        return [
            Replaced(each, describe(holder))
            for each, holder in holders
            if holder is not self._handler
        ]

    def take_back(self) -> None:
        """Be the handler again, as soon as the main thread can."""
        self._wants_back = True
        self.call_main_thread()

    def call_main_thread(self) -> None:
        """Have the main thread run its handlers now, if it waits for something."""
        main = threading.main_thread().ident
        if self._previous_call is not None and main is not None:
            signal.pthread_kill(main, _CALL)

    def _called(self, _signum: int, _frame: FrameType | None) -> None:
        wants_back, self._wants_back = self._wants_back, False
        for each in self.signals if wants_back else ():
            signal.signal(each, self._handler)

    def _put_back(self, signals: Iterable[signal.Signals]) -> None:
        for each in list(signals):
            if signal.getsignal(each) is self._handler:
                # None stands for a handler that was not set from Python, which we cannot set.
                previous = self._previous[each]
                signal.signal(each, signal.SIG_DFL if previous is None else previous)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if self._is_retired:
            self.pass_on(signum)
            return
        # Before ours, which may put it back and forget it.
        previous = self._previous.get(signal.Signals(signum))
        self._receive(signum)
        # Python's own handler of SIGINT raises KeyboardInterrupt in the middle of anything.
        if self._chains and callable(previous) and previous is not signal.default_int_handler:
            previous(signum, frame)

    def pass_on(self, signum: int) -> None:
        """Leave the stage and let who was there before us have this signal. In handlers only."""
        self.restore()
        os.kill(os.getpid(), signum)


class SignalSocket:
    """Tells of signals on a thread of its own, whatever the main thread does."""

    def __init__(self, hear: Callable[[int], None]) -> None:
        self._hear = hear
        self._writer: socket.socket | None = None

    def open(self) -> None:
        """Begin to tell, unless somebody else has asked Python for the same. Main thread only."""
        if self._writer is not None:
            return
        reader, writer = socket.socketpair()
        # Whatever limit the application sets for all sockets: the next signal may take hours.
        reader.settimeout(None)
        writer.setblocking(False)
        previous = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        if previous != -1:
            # An event loop has it, and wakes the main thread with it: that serves as well.
            signal.set_wakeup_fd(previous)
            reader.close()
            writer.close()
            return
        self._writer = writer
        _hold(self.close)
        threading.Thread(
            target=self._listen, args=(reader,), name="afl-signals", daemon=True
        ).start()

    def close(self) -> None:
        """Tell no more. Off the main thread the thread stays until the process ends."""
        if self._writer is not None and on_main_thread():
            previous = signal.set_wakeup_fd(-1)
            if previous not in (-1, self._writer.fileno()):
                signal.set_wakeup_fd(previous)
            # The reader sees the end of it, and closes its own.
            self._writer.close()
            self._writer = None
            _drop(self.close)

    def _listen(self, reader: socket.socket) -> None:
        with reader:
            while numbers := reader.recv(64):
                for signum in numbers:
                    self._hear(signum)


class _Fork(threading.local):
    """A fork that this thread makes."""

    #: The signals that it had blocked before.
    blocked: Iterable[int] | None = None


_fork = _Fork()
#: How to let go of what we have taken. Replaced as a whole, never changed: whoever forks looks
#: without a lock.
_held: tuple[Callable[[], None], ...] = ()


def _hold(let_go: Callable[[], None]) -> None:
    global _held
    if let_go not in _held:
        _held = (*_held, let_go)


def _drop(let_go: Callable[[], None]) -> None:
    global _held
    _held = tuple(each for each in _held if each != let_go)


def _begin_fork() -> None:
    """Signals for the child wait until it has let go: earlier, it would swallow them, and write to
    a socket that its parent reads."""
    if _held:
        _fork.blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


def _end_fork() -> None:
    if _fork.blocked is not None:
        blocked, _fork.blocked = _fork.blocked, None
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _let_go_in_child() -> None:
    try:
        for let_go in reversed(_held):  # what was taken last had found what was taken before
            let_go()
    finally:
        _end_fork()


os.register_at_fork(before=_begin_fork, after_in_parent=_end_fork, after_in_child=_let_go_in_child)


class HandlerWatch:
    """Looks twice a second whether our handlers are in place, on a thread of its own."""

    def __init__(
        self,
        handlers: SignalHandlers,
        clock: Clock,
        *,
        on_replaced: Callable[[Replaced], None],
        on_look: Callable[[], None],
    ) -> None:
        self._handlers = handlers
        self._clock = clock
        self._on_replaced = on_replaced
        self._on_look = on_look
        self._stop = threading.Event()
        self._known: set[Replaced] = set()

    def start(self) -> None:
        threading.Thread(target=self._watch, name="afl-signal-watch", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    def _watch(self) -> None:
        while not self._clock.wait(self._stop, LOOK_INTERVAL_S):
            found = set(self._handlers.replaced())
            # Who comes back after they had left is news again.
            news, self._known = found - self._known, found
            for each in sorted(news, key=lambda one: one.signum):
                self._on_replaced(each)
            self._on_look()


def describe(handler: Handler) -> str:
    """Who this handler is, for people."""
    if handler is None:
        return "a handler that was not set from Python"
    if handler in (signal.SIG_DFL, signal.SIG_IGN):
        return signal.Handlers(handler).name
    function = getattr(handler, "__func__", handler)
    name = getattr(function, "__qualname__", repr(handler))
    module = getattr(function, "__module__", None)
    code = getattr(function, "__code__", None)
    place = f" ({code.co_filename}:{code.co_firstlineno})" if isinstance(code, CodeType) else ""
    return f"{module}.{name}{place}" if module else f"{name}{place}"
