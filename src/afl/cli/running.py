"""How commands run a group of loops, and how they end."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING

import typer

from afl.cli.common import OK, PROBLEMS, WRONG_USE
from afl.clock import SYSTEM_CLOCK
from afl.collector import collector_rare
from afl.errors import ConfigurationError

if TYPE_CHECKING:
    from afl.runtime.lifecycle import LoopGroup

#: What the interpreter gets to end by itself, although somebody's threads still run.
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


def leave(group: LoopGroup, code: int) -> None:
    """Let nothing keep this process: whoever asked for the stop counts on its end."""
    if group.abandoned:
        typer.echo(f"Left behind: {', '.join(group.abandoned)}", err=True)
        _exit_now(code)
    others = [each for each in threading.enumerate() if each is not threading.main_thread()]
    if any(not each.daemon for each in others):
        # Threads of handlers, which Python would wait for without end.
        threading.Thread(target=_exit_later, args=(code,), daemon=True).start()


def _exit_later(code: int) -> None:
    SYSTEM_CLOCK.sleep(_EXIT_S)
    _exit_now(code)


def _exit_now(code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
