"""When Python's garbage collector looks: seldom where it finds little, else not at all."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: New objects between two looks; Python's own number is 700, fewer than one commit makes.
_NEW_OBJECTS = 20_000


@contextmanager
def collector_rare() -> Iterator[None]:
    """For a process that does nothing but serve, for as long as it does.

    What it has loaded is never garbage, and nearly all of what it makes is let go of without the
    collector's help. Looking at Python's own pace took 8 % of the time of a busy worker. Whoever
    has switched the collector off, or made it look even less often, keeps that.
    """
    before = gc.get_threshold()
    gc.freeze()
    if 0 < before[0] < _NEW_OBJECTS:
        gc.set_threshold(_NEW_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


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
