"""What is seen of a run while it goes on: a live panel on a terminal, plain lines elsewhere.

All of it is on stderr. `watch` is also where signals become a stop.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import typer

from afl.cli.common import counted
from afl.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from afl.operations.local_run import LocalRun, Progress
    from afl.telemetry import Event

#: Seconds between two looks at the run, for the panel and for signals.
_REFRESH_S = 0.1
#: Names that a panel shows; the others are counted.
_SHOWN = 5


class Display(Protocol):
    """Who shows a run. `told` comes from the threads that do the work."""

    def begin(self, local: LocalRun) -> None: ...

    def told(self, progress: Progress) -> None: ...

    def refresh(self, local: LocalRun) -> None: ...

    def note(self, text: str) -> None: ...


@contextmanager
def progress_of() -> Iterator[Display]:
    """The display that fits where stderr goes."""
    from afl import telemetry

    shown = _Panel() if sys.stderr.isatty() else _Lines()
    unsubscribe = telemetry.subscribe(shown.heard)
    try:
        with shown:
            yield shown
    finally:
        unsubscribe()


class _Lines:
    """One line for each step that ends."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_error: object) -> None: ...

    def heard(self, event: Event) -> None:
        line = _line_of(event)
        if line is not None:
            self.note(line)

    def begin(self, local: LocalRun) -> None: ...

    def told(self, progress: Progress) -> None: ...

    def refresh(self, local: LocalRun) -> None: ...

    def note(self, text: str) -> None:
        typer.echo(text, err=True)


def _line_of(event: Event) -> str | None:
    """What is worth a line."""
    from afl.telemetry import RunStarted, StepEnded, TaskRetried

    if isinstance(event, RunStarted):
        return f"run {event.run} of {event.workflow}"
    if isinstance(event, TaskRetried):
        return f"again: {event.facet} failed: {event.error}"
    # Blocks are steps, too, but nobody has named them.
    if not isinstance(event, StepEnded) or not event.facet:
        return None
    if event.error is None:
        return f"done: {event.step_name} ({event.facet})"
    return f"failed: {event.step_name} ({event.facet}): {event.error}"


class _Panel:
    """Counts, names and the time, in place."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(stderr=True)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._started = SYSTEM_CLOCK.monotonic()
        self._lock = threading.Lock()
        self._done = 0
        self._waiting = 0

    def __enter__(self) -> None:
        self._live.start()

    def __exit__(self, *_error: object) -> None:
        self._live.stop()

    def heard(self, event: Event) -> None:
        from afl.telemetry import StepEnded, TaskQueued, TaskRetried

        is_done = isinstance(event, StepEnded) and event.error is None
        with self._lock:
            if is_done:
                self._done += bool(event.facts()["facet"])
            elif isinstance(event, TaskQueued | TaskRetried):
                self._waiting += 1
        line = None if is_done else _line_of(event)
        if line is not None:
            self.note(line)

    def begin(self, local: LocalRun) -> None:
        # Counted anew: a run that goes on has tasks that this process never heard of.
        self._waiting = local.waiting()

    def told(self, progress: Progress) -> None:
        with self._lock:
            self._waiting -= not progress.is_over

    def refresh(self, local: LocalRun) -> None:
        from rich.text import Text

        running = local.running()
        with self._lock:
            counts = f"{self._done} done, {len(running)} running, {self._waiting} waiting"
        names = ", ".join(running[:_SHOWN]) + (" …" if len(running) > _SHOWN else "")
        elapsed = SYSTEM_CLOCK.monotonic() - self._started
        self._live.update(Text(f"{elapsed:6.1f} s  {counts}  {names}"), refresh=True)

    def note(self, text: str) -> None:
        from rich.text import Text

        self._console.print(Text(text))


def watch(local: LocalRun, display: Display) -> None:
    """Let the run be done, and show it. The first signal stops it, a second one at once."""
    ended = threading.Event()
    problems: list[BaseException] = []

    def work() -> None:
        try:
            local.work()
        except BaseException as problem:
            problems.append(problem)
        finally:
            ended.set()

    display.begin(local)
    # Not on this thread: a signal handler may set events only if its thread waits on none.
    threading.Thread(target=work, name="loop-worker-run", daemon=True).start()
    with _signals(local) as received:
        noted = 0
        while not ended.wait(_REFRESH_S):
            display.refresh(local)
            if len(received) > noted:
                noted = len(received)
                display.note(_answer(noted, local))
    if problems:
        raise problems[0]


def _answer(signals: int, local: LocalRun) -> str:
    if signals > 1:
        return "Stopping now."
    handlers = counted(len(local.running()), "handler")
    return f"Stopping: waiting for {handlers} at work; once more to stop now."


@contextmanager
def _signals(local: LocalRun) -> Iterator[list[int]]:
    received: list[int] = []

    def receive(number: int, _frame: object) -> None:
        received.append(number)
        if len(received) == 1:
            local.request_stop()
        else:
            local.abort()

    before = {each: signal.signal(each, receive) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
