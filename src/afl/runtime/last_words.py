"""The end of a process that hangs: what it still says, and the end itself."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

from afl.log import get_logger
from afl.runtime.stacks import dump_stacks, thread_names
from afl.runtime.stalls import Stall

_log = get_logger(__name__)

_STDERR = 2


def write_stacks(stalls: Sequence[Stall]) -> None:
    """Who hangs, and where every thread is, to standard error."""
    lines = [f"afl watchdog: {stall}" for stall in stalls]
    text = "\n".join([*lines, "afl watchdog: killing this process; its threads were:\n"])
    # The descriptor, because sys.stderr may be replaced, closed, or locked by what hangs.
    with open(_STDERR, "w", closefd=False, errors="backslashreplace") as stderr:
        stderr.write(text + dump_stacks())
        stderr.flush()
        # Last, since they need a lock.
        stderr.write(thread_names())


def write_logs(stalls: Sequence[Stall]) -> None:
    """Who hangs, to the logs, and everything that they still hold."""
    for stall in stalls:
        _log.critical("watchdog_kills_process", **stall._asdict())
    flush_logs()


def flush_logs() -> None:
    """Write out what the handlers of the standard `logging` and the two streams still hold."""
    known = [logging.getLogger(), *logging.root.manager.loggerDict.values()]
    handlers = {handler for each in known for handler in getattr(each, "handlers", ())}
    for each in (*handlers, sys.stdout, sys.stderr):
        with suppress(Exception):
            each.flush()


def kill_process() -> None:
    """End this process now, whatever its threads do."""
    os.kill(os.getpid(), signal.SIGKILL)
    # The kernel spares the first process of a container, even from itself.
    os._exit(128 + signal.SIGKILL)
