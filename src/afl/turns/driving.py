"""Coroutines for threads: what never suspends needs no event loop."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar, cast

V = TypeVar("V")


def run_blocking(work: Coroutine[Any, Any, V]) -> V:
    """Run a coroutine whose calls all block the thread."""
    try:
        work.send(None)
    except StopIteration as end:
        return cast(V, end.value)
    work.close()
    raise RuntimeError("a blocking call has suspended: it waits for an event loop")
