"""Which runs wait for the code that is being done: there, nobody may wait for their end.

A run of a loop waits for its handlers, and that of a group for its loops. A thread does not know
for whom it works; so whoever starts one tells it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Runs = tuple[object, ...]

_runs: ContextVar[Runs] = ContextVar("afl_awaited_by", default=())


class _Here(threading.local):
    """What the current thread is."""

    is_shared = False


_here = _Here()


def awaited_by() -> Runs:
    """The runs that wait for what is done here; to be told to threads that do a part of it."""
    return _runs.get()


def work_for(runs: Runs) -> None:
    """What this thread or task does from now on is waited for by these."""
    _runs.set(runs)


def share_thread() -> None:
    """This thread does the work of many runs at once: nobody may wait on it for any of them."""
    _here.is_shared = True


@contextmanager
def awaiting(run: object) -> Iterator[None]:
    """`run` waits for what is done in this block."""
    token = _runs.set((*_runs.get(), run))
    try:
        yield
    finally:
        _runs.reset(token)


def is_awaited_by(run: object) -> bool:
    """Whether `run` cannot end before whoever calls this has returned."""
    return _here.is_shared or run in _runs.get()
