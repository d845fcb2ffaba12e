"""What is seen of an evaluation while it goes on: a bar on a terminal, plain lines elsewhere.

All of it is on stderr. `watch` is also where signals become a stop.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import typer

from afl.cli.bars import progress_bar
from afl.cli.common import counted

if TYPE_CHECKING:
    from afl.evals.requests import EvalResult
    from afl.operations.evals import LocalEvaluation

#: Seconds between two looks at what came, and at signals.
_REFRESH_S = 0.1


class Display(Protocol):
    def told(self, result: EvalResult) -> None: ...

    def refresh(self, local: LocalEvaluation) -> None: ...

    def note(self, text: str) -> None: ...


@contextmanager
def progress_of(local: LocalEvaluation) -> Iterator[Display]:
    """The display that fits where stderr goes."""
    if not sys.stderr.isatty():
        yield _Lines(local)
        return
    bar = _Bar(local)
    with bar:
        yield bar


class _Lines:
    """One line for each sample that ends."""

    def __init__(self, local: LocalEvaluation) -> None:
        if local.done:
            self.note(f"{local.done} of {counted(local.total, 'sample')} had a result before")

    def told(self, result: EvalResult) -> None:
        self.note(_line_of(result))

    def refresh(self, local: LocalEvaluation) -> None: ...

    def note(self, text: str) -> None:
        typer.echo(text, err=True)


class _Bar:
    """How many samples are done and passed, in place. Only what did not pass has a line."""

    def __init__(self, local: LocalEvaluation) -> None:
        from rich.console import Console

        self._console = Console(stderr=True)
        self._bar = progress_bar(self._console)
        self._task = self._bar.add_task("", total=local.total, completed=local.done)
        self._counts = {"passed": 0, "failed": 0, "error": 0}

    def __enter__(self) -> None:
        self._bar.start()

    def __exit__(self, *_error: object) -> None:
        self._bar.stop()

    def told(self, result: EvalResult) -> None:
        self._counts[_word_of(result)] += 1
        if not result.passed:
            self.note(_line_of(result))

    def refresh(self, local: LocalEvaluation) -> None:
        counts = ", ".join(f"{count} {word}" for word, count in self._counts.items())
        running = f"{local.in_flight} running"
        self._bar.update(self._task, completed=local.done, description=f"{counts}, {running}")

    def note(self, text: str) -> None:
        from rich.text import Text

        self._console.print(Text(text))


def _word_of(result: EvalResult) -> str:
    if not result.success:
        return "error"
    return "passed" if result.passed else "failed"


def _line_of(result: EvalResult) -> str:
    line = f"{_word_of(result)}: {result.sample_id} ({result.experiment_name})"
    reason = "" if result.passed else result.error or result.score.reason
    return f"{line}: {' '.join(reason.split())}" if reason else line


def watch(local: LocalEvaluation, display: Display) -> None:
    """Show results until there are no more. The first signal stops it, a second one at once."""
    with _signals() as received:
        noted = 0
        while not local.is_over:
            for each in local.next_results(_REFRESH_S):
                display.told(each)
            display.refresh(local)
            if len(received) > noted:
                noted = len(received)
                display.note(_stopped(noted, local))


def _stopped(signals: int, local: LocalEvaluation) -> str:
    if signals > 1:
        local.abort()
        return "Stopping now."
    local.request_stop()
    samples = counted(local.in_flight, "sample")
    return f"Stopping: waiting for {samples} at work; once more to stop now."


@contextmanager
def _signals() -> Iterator[list[int]]:
    received: list[int] = []

    def receive(number: int, _frame: object) -> None:
        received.append(number)

    before = {each: signal.signal(each, receive) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
