"""A loop of a group, with the thread it runs on.

The threads are daemons: one that hangs is left behind when its process ends.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from afl.clock import SYSTEM_CLOCK
from afl.log import get_logger
from afl.runtime.awaited import Runs, awaited_by, work_for
from afl.runtime.heartbeat import Heartbeat
from afl.runtime.lifecycle.runnable import Runnable
from afl.runtime.lifecycle.runs import LoopState
from afl.runtime.watchdog import StallStage

_log = get_logger(__name__)

#: How soon a loop that lost its stop while it started is asked again.
_ASK_AGAIN_S = 0.1


def _nothing() -> None:
    """For who does not want to know."""


class Member:
    """Runs one loop and knows how that stands. Safe from any thread."""

    def __init__(self, loop: Runnable, name: str, on_end: Callable[[Member], None]) -> None:
        self.name = name
        self.loop = loop
        self.stop_order: float = getattr(loop, "stop_order", 0)
        self.error: BaseException | None = None
        self._on_end = on_end
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        self._is_asked = False
        self._is_being_asked = False
        self._is_checkpointing = False

    # Running

    def start(self, options: Mapping[str, Any]) -> None:
        """Run the loop on a new thread, with those options that its `run` takes."""
        self._ended, self._is_asked = threading.Event(), False
        _call_if_there(self.loop, "expect_run")
        if self.heartbeat is not None:
            # Loops may be made long before they run: their age begins here.
            self.heartbeat.beat()
        thread = threading.Thread(
            target=self._run,
            args=(_accepted(self.loop.run, options), self._ended, awaited_by()),
            name=f"loop-worker-{self.name}",
            daemon=True,
        )
        self._thread = thread
        try:
            thread.start()
        except RuntimeError:  # no more threads: what never ran has ended
            self._ended.set()
            raise

    def _run(self, options: Mapping[str, Any], ended: threading.Event, runs: Runs) -> None:
        work_for(runs)
        try:
            self.loop.run(**options)
        except BaseException as error:  # also of a loop that wants to exit
            self.error = error
        finally:
            ended.set()
            self._on_end(self)

    # Ending: on threads of their own, since what others wrote may hang, and must not hang us.

    def ask(self, timeout: float, when_over: Callable[[], object] = _nothing) -> None:
        """Ask the loop to stop, until it has; `timeout` is the time it has for that.

        `when_over` hears, on another thread, that nobody asks any more.
        """
        if self.is_alive and not self._is_asked:
            self._is_asked = self._is_being_asked = True
            self._aside("stop", partial(self._keep_asking, self._ended, timeout, when_over))

    def ask_checkpoint(self) -> bool:
        """Ask the loop to save what is unfinished, once; whether it can and was asked now."""
        checkpoint = getattr(self.loop, "checkpoint", None)
        if not self.is_alive or self._is_checkpointing or checkpoint is None:
            return False
        self._is_checkpointing = True
        self._aside("checkpoint", partial(self._isolated, checkpoint))
        return True

    def _keep_asking(
        self, ended: threading.Event, timeout: float, when_over: Callable[[], object]
    ) -> None:
        # Real time, whatever our clock: it is others that are waited for.
        deadline = SYSTEM_CLOCK.monotonic() + timeout
        try:
            while not ended.is_set():
                left = max(deadline - SYSTEM_CLOCK.monotonic(), 0.0)
                ask = getattr(self.loop, "request_stop", partial(self.loop.shutdown, timeout=left))
                self._isolated(ask)
                # Again: a loop that forgets, as it starts, what was asked has lost the first one.
                SYSTEM_CLOCK.wait(ended, _ASK_AGAIN_S)
        finally:
            self._is_being_asked = False
            when_over()

    def _aside(self, purpose: str, action: Callable[[], None]) -> None:
        threading.Thread(target=action, name=f"afl-{purpose}-{self.name}", daemon=True).start()

    def _isolated(self, request: Callable[[], object]) -> None:
        try:
            request()
        except Exception:
            _log.exception("loop_request_failed", loop=self.name, request=repr(request))

    # How it stands

    @property
    def is_alive(self) -> bool:
        return self._thread is not None and not self._ended.is_set()

    @property
    def is_at_rest(self) -> bool:
        """Whether it may run again: it has ended, and no late request can end its next run."""
        return not self.is_alive and not self._is_being_asked

    @property
    def thread(self) -> threading.Thread | None:
        return self._thread

    @property
    def state(self) -> LoopState:
        if self._thread is None:
            return LoopState.NEW
        if not self.is_alive:
            return LoopState.STOPPED
        if self._is_asked:
            return LoopState.DRAINING
        return LoopState.RUNNING if self.loop.running else LoopState.STARTING

    @property
    def heartbeat(self) -> Heartbeat | None:
        return getattr(self.loop, "heartbeat", None)

    @property
    def in_flight(self) -> int | None:
        return getattr(self.loop, "in_flight", None)

    @property
    def leases_lost(self) -> int | None:
        return getattr(self.loop, "leases_lost", None)

    @property
    def handled(self) -> Iterable[tuple[str, int, int]]:
        return getattr(self.loop, "handled", ())

    @property
    def unready_reason(self) -> str | None:
        return getattr(self.loop, "unready_reason", None)

    def probed_at(self, port: int) -> None:
        _call_if_there(self.loop, "probed_at", port)

    # For the watchdog

    def is_watched(self) -> bool:
        """Neither before it runs, nor while it drains, nor after its end."""
        return self.is_alive and not self._is_asked

    def progress(self) -> int:
        return getattr(self.loop, "progress", 0)

    def longest_turn_s(self) -> float | None:
        return getattr(self.loop, "longest_turn_s", None)

    def rescue(self, stage: StallStage) -> None:
        rescue = getattr(self.loop, "rescue", None)
        if rescue is not None:
            rescue(stage)


def members_of(loops: Sequence[Runnable], on_end: Callable[[Member], None]) -> list[Member]:
    """A member for each loop, under the loop's name or its number, no two the same."""
    members: list[Member] = []
    taken: set[str] = set()
    for index, loop in enumerate(loops):
        name = str(getattr(loop, "name", None) or f"loop-{index}")
        if name in taken:
            name = f"{name}-{index}"
        taken.add(name)
        members.append(Member(loop, name, on_end))
    return members


def _call_if_there(loop: Runnable, method: str, *arguments: object) -> None:
    found = getattr(loop, method, None)
    if found is not None:
        found(*arguments)


def _accepted(run: Callable[..., object], options: Mapping[str, Any]) -> dict[str, Any]:
    """Those options that `run` takes: a loop without a mailbox has no use for a visibility."""
    parameters = inspect.signature(run).parameters
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()):
        return dict(options)
    return {name: value for name, value in options.items() if name in parameters}
