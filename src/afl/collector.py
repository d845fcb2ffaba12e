"""Pausing Python's garbage collector while many objects are made that will be wanted."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """For short work that makes very many objects and hardly any garbage, such as compiling.

    Looking for it would take a tenth of the time and more, and a larger share of larger work. Not
    for anything that waits: all threads are concerned.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
