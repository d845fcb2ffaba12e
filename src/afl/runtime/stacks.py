"""Where threads are: the line at which one hangs, and the stacks of all of them."""

from __future__ import annotations

import faulthandler
import sys
import tempfile
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NamedTuple

#: Packages that stand between the start of a thread and the code that it is for.
_MACHINERY = ("afl", "threading", "concurrent", "asyncio", "contextlib", "contextvars")


class Place(NamedTuple):
    """Where a thread is."""

    #: The outermost function that is neither ours nor Python's: what we were asked to run.
    handler: str
    #: File, line and function of the innermost one.
    line: str


UNKNOWN_PLACE = Place("unknown", "unknown")


def place_of(thread: int | None) -> Place:
    """Where the thread of this ident is now; `UNKNOWN_PLACE` if it has ended."""
    frame = sys._current_frames().get(thread) if thread is not None else None
    if frame is None:
        return UNKNOWN_PLACE
    code = frame.f_code
    handler = next((each for each in _from_outside(frame) if not _is_machinery(each)), frame)
    return Place(_name(handler), f"{code.co_filename}:{frame.f_lineno} in {code.co_qualname}")


def dump_stacks() -> str:
    """The stacks of all threads as text, made without any of their locks."""
    # Not written to its destination at once: faulthandler holds the interpreter while it writes,
    # so a pipe that nobody reads would stop everything, also the one who is to kill us.
    with tempfile.TemporaryFile() as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        return file.read().decode(errors="replace")


def thread_names() -> str:
    """Which thread of `dump_stacks` has which name."""
    threads = threading.enumerate()
    return "".join(f"Thread 0x{each.ident or 0:016x} is {each.name}\n" for each in threads)


def _from_outside(frame: FrameType) -> list[FrameType]:
    return list(_outwards(frame))[::-1]


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_machinery(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _MACHINERY


def _name(frame: FrameType) -> str:
    return f"{frame.f_globals.get('__name__')}.{frame.f_code.co_qualname}"
