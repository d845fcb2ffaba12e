"""Where threads are: the line at which one hangs, and the stacks of all of them; and where what
was raised comes from."""

from __future__ import annotations

import faulthandler
import sys
import tempfile
import threading
import traceback
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
    handler = next((each for each in _from_outside(frame) if not _is_machinery(each)), frame)
    return Place(_name(handler), _line(frame, frame.f_lineno))


def raised_at(error: BaseException) -> str | None:
    """File, line and function of the code that we were asked to run, where it raised this or
    called what did; None if no such code is known."""
    known: str | None = getattr(error, "raised_at", None)
    frames = [each for each in traceback.walk_tb(error.__traceback__) if not _is_machinery(each[0])]
    if known is not None or not frames:
        return known
    # Not the innermost one: that is often deep in a library, which is not to blame.
    file = frames[0][0].f_code.co_filename
    return [_line(*each) for each in frames if each[0].f_code.co_filename == file][-1]


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
    # What Python was started with is called `__main__`, and only its spec knows its name.
    module = getattr(frame.f_globals.get("__spec__"), "name", None) or frame.f_globals.get(
        "__name__"
    )
    return str(module).partition(".")[0] in _MACHINERY


def _line(frame: FrameType, line: int) -> str:
    return f"{frame.f_code.co_filename}:{line} in {frame.f_code.co_qualname}"


def _name(frame: FrameType) -> str:
    return f"{frame.f_globals.get('__name__')}.{frame.f_code.co_qualname}"
