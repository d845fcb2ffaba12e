"""Processes: a database belongs to the process that opened it.

SQLite remembers in memory which file locks its process holds, but a fork inherits the memory and
not the locks. A child that used the file through what it inherited, or even opened the file anew
beside it, would write without locks and damage the file. So both are refused here.
"""

from __future__ import annotations

import os

from afl.db.forks import ForkSafeLock
from afl.errors import StoreMisused

_lock = ForkSafeLock()
#: Path of each open file → the process that opened it, and how often it is open there.
_files: dict[str, tuple[int, int]] = {}


class Claim:
    """That this process, and none forked from it, uses a file. Raises StoreMisused in a fork."""

    __slots__ = ("_path", "_pid")

    def __init__(self, path: str) -> None:
        self._path = path
        self._pid = os.getpid()
        with _lock:
            pid, count = _files.get(path, (self._pid, 0))
            if pid != self._pid:
                raise _inherited(path, pid)
            _files[path] = (pid, count + 1)

    @property
    def is_inherited(self) -> bool:
        """Whether this is a forked child looking at what its parent opened."""
        return os.getpid() != self._pid

    def check(self) -> None:
        if os.getpid() != self._pid:
            raise _inherited(self._path, self._pid)

    def release(self) -> None:
        """The file is closed: from now on a fork may open it."""
        with _lock:
            pid, count = _files.pop(self._path)
            if count > 1:
                _files[self._path] = (pid, count - 1)


def _inherited(path: str, pid: int) -> StoreMisused:
    return StoreMisused(
        f"{path} was open in process {pid} when this process ({os.getpid()}) was forked from it. "
        "A SQLite database cannot be used across a fork: start children with the multiprocessing "
        "method 'spawn' or 'forkserver' or with subprocess, or open the database only after the "
        "fork"
    )
