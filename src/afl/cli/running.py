"""How commands run a group of loops, and how they end."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from afl.cli.common import OK, PROBLEMS, WRONG_USE
from afl.collector import collector_rare
from afl.errors import ConfigurationError

if TYPE_CHECKING:
    from afl.runtime.lifecycle import LoopGroup

#: What closing gets, and the interpreter, to end by itself although somebody's threads still run.
_EXIT_S = 3.0


def run_group(group: LoopGroup) -> int:
    """Let the loops work until they are stopped; the exit code that says how that ended."""
    try:
        with collector_rare():
            group.run()
    except ExceptionGroup as failed:
        for each in failed.exceptions:
            typer.echo(f"Error: {str(each) or type(each).__name__}", err=True)
        # A port that is taken, for example: to be set right before it is started again.
        is_set_wrong = all(isinstance(each, ConfigurationError) for each in failed.exceptions)
        return WRONG_USE if is_set_wrong else PROBLEMS
    return OK


@contextmanager
def ending_in_time() -> Iterator[Callable[[LoopGroup, int], None]]:
    """Call what this gives when a group has ended, before anything is closed: whoever asked for the
    stop counts on the end of this process. A store may not let itself be closed while its server
    stands still, and Python would wait for threads of handlers without end."""
    timers: list[threading.Timer] = []

    def has_ended(group: LoopGroup, code: int) -> None:
        if group.abandoned:
            typer.echo(f"Left behind: {', '.join(group.abandoned)}", err=True)
            _exit_now(code)
        timer = threading.Timer(_EXIT_S, _exit_now, [code])
        timer.daemon = True
        timer.start()
        timers.append(timer)

    yield has_ended
    others = [each for each in threading.enumerate() if each is not threading.main_thread()]
    if all(each.daemon for each in others):
        for each in timers:
            each.cancel()


def _exit_now(code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
