"""Wake-up datagrams: sockets in a folder beside a database file, one for each waiting process.

- Sending never blocks and never fails: a full inbox belongs to somebody who is being woken.
- A datagram names the topics; one that is empty, broken or might follow lost ones means any.
- The socket of a process that died is removed by the next who sends.

Only processes of the same user take part: the folder is closed to others, and one that is not
ours alone is not used.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import stat
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from afl.clock import SYSTEM_CLOCK, now_ms

_SUFFIX = ".sock"
_NAME_BYTES = 16
_LONGEST_PATH = 100  # bytes; the operating systems allow 103 to 107
_LONGEST_PAYLOAD = 512
#: Fewer than any system keeps for an inbox (Linux 11 datagrams, macOS 4 KiB): who reads this many
#: at once must assume that more did not fit.
_LOSSY = 8
_ENOUGH = 64  # to read at once
_ATTEMPTS = 100


def wake_folder(path: str) -> str | None:
    """Where the sockets for a database file are; None if there cannot be any."""
    if not hasattr(socket, "AF_UNIX"):
        return None
    beside = f"{path}.wake"
    if _fits(beside):
        return beside
    from tempfile import gettempdir  # rarely needed, and not cheap to import

    digest = sha256(os.fsencode(f"{path}\0{os.geteuid()}")).hexdigest()[:24]
    elsewhere = str(Path(gettempdir(), f"afl-{digest}.wake"))
    return elsewhere if _fits(elsewhere) else None


def _fits(folder: str) -> bool:
    return len(os.fsencode(folder)) + 1 + _NAME_BYTES + len(_SUFFIX) <= _LONGEST_PATH


class Inbox:
    """A socket that others find and send to. Raises OSError if it cannot be made."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self.name = secrets.token_hex(_NAME_BYTES // 2) + _SUFFIX
        self._path = self._folder / self.name
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        try:
            self._bind()
        except BaseException:
            self.socket.close()
            raise

    def _bind(self) -> None:
        # Between the birth of its file and the end of bind a socket refuses what is sent to it,
        # as a dead one does, and would be removed. So it gets its real name only afterwards.
        draft = self._path.with_suffix(".new")
        for attempt in range(_ATTEMPTS):
            try:
                _make_folder(self._folder)
                self.socket.bind(str(draft))
                break
            except FileNotFoundError:
                # The last process before us has just left and taken the folder along.
                if attempt + 1 == _ATTEMPTS:
                    raise
        draft.rename(self._path)

    def is_there(self) -> bool:
        return self._path.exists()

    def drain(self) -> tuple[str, ...] | None:
        """All topics that were sent since the last call; None: any may have been."""
        topics: set[str] = set()
        for count in range(_ENOUGH):
            try:
                received = _decoded(self.socket.recv(_LONGEST_PAYLOAD))
            except BlockingIOError:
                return tuple(topics) if count < _LOSSY else None
            if received is None:
                return None  # the rest can wait: it says less than we know now
            topics.update(received)
        return None

    def close(self) -> None:
        with suppress(OSError):
            self._path.unlink()
        self.socket.close()
        with suppress(OSError):  # others still use it
            self._folder.rmdir()


def send(folder: str, topics: Sequence[str], skip: str | None = None) -> None:
    """Wake every process with an inbox in `folder`, except the owner of `skip`."""
    names = [name for name in _inboxes(folder) if name != skip]
    if not names:
        return
    payload = _encoded(topics)
    # A new socket each time: what one sender has in the inboxes of stuck processes is limited,
    # and would keep it from reaching the others.
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        for name in names:
            _send_to(sender, payload, f"{folder}/{name}")


def _send_to(sender: socket.socket, payload: bytes, path: str) -> None:
    try:
        sender.sendto(payload, path)
    except (ConnectionRefusedError, FileNotFoundError):
        with suppress(OSError):
            Path(path).unlink()
    except OSError:
        # EAGAIN or, on macOS, ENOBUFS: the inbox is full, so its owner is being woken. Whatever
        # else it is, the owner also looks at the file from time to time.
        return


def _encoded(topics: Sequence[str]) -> bytes:
    payload = json.dumps(topics, separators=(",", ":")).encode()
    return payload if len(payload) <= _LONGEST_PAYLOAD else b""


def _decoded(payload: bytes) -> list[str] | None:
    try:
        topics = json.loads(payload)
    except ValueError:
        return None
    is_list = isinstance(topics, list) and all(isinstance(each, str) for each in topics)
    return topics if is_list else None


def _make_folder(folder: Path) -> None:
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if not _is_private(os.lstat(folder)):
        raise PermissionError(f"{folder} must be a folder of this user, closed to others (0700)")


#: What was found in each folder, by the time of its last change, of its owner and mode as well.
#: Listing one takes longer than asking for that time, and every commit that is announced comes
#: here.
_known: dict[str, tuple[int, list[str]]] = {}
#: A listing this soon after the change may have missed what came in the same tick of the clock.
_SETTLED_NS = 1_000_000_000


def _inboxes(folder: str) -> list[str]:
    """The inboxes in a folder; none if it is not there, or not ours."""
    if not os.access(folder, os.F_OK):
        return []  # and no exception, which would take longer: every commit comes here
    try:
        status = os.lstat(folder)
    except OSError:
        return []
    changed, names = _known.get(folder, (-1, []))
    if changed == status.st_ctime_ns:
        return names
    is_private = _is_private(status)
    names = [name for name in _listed(folder) if name.endswith(_SUFFIX)] if is_private else []
    if 0 <= status.st_ctime_ns <= now_ms(SYSTEM_CLOCK) * 1_000_000 - _SETTLED_NS:
        _known[folder] = (status.st_ctime_ns, names)
    return names


def _is_private(status: os.stat_result) -> bool:
    is_closed = stat.S_IMODE(status.st_mode) & 0o077 == 0
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and is_closed


def _listed(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries]
    except OSError:
        return []
