"""The listener: the one thread of a process that hears what others did to a database file.

It sleeps without any cost while nobody in the process waits. While somebody does, it reads the
wake-ups that come to its socket and, at long intervals, looks whether the file has changed
unannounced. Without a socket (no UNIX sockets here, no permission) it only looks.
"""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from afl.clock import SYSTEM_CLOCK
from afl.db.sockets import Inbox
from afl.log import get_logger

_log = get_logger(__name__)

_LONGEST_S = 86400.0  # epoll cannot count further than some weeks


class Listener:
    """Hears from its creation until `close`: what happens in between is not missed.

    `heard` is called with the topics that were rung, or None if any may have been.
    """

    def __init__(
        self,
        folder: str | None,
        version: Callable[[], int | None],
        poll_interval_s: float,
        *,
        heard: Callable[[tuple[str, ...] | None], None],
        is_attended: Callable[[], bool],
    ) -> None:
        self._folder = folder
        self._version = version
        self._poll_interval_s = poll_interval_s
        self._heard = heard
        self._is_attended = is_attended
        self._selector = selectors.DefaultSelector()
        self._hand, self._ear = socket.socketpair()  # to interrupt the thread's select
        self._selector.register(self._ear, selectors.EVENT_READ)
        self._inbox: Inbox | None = None
        self._open_inbox()
        # After the inbox is open: who changes the file from here on is heard or seen.
        self._seen_version = version()
        self._poll_at = SYSTEM_CLOCK.monotonic() + poll_interval_s
        self._attended = threading.Event()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="afl-sqlite-listener", daemon=True)
        self._thread.start()

    @property
    def name(self) -> str | None:
        """The name of our own socket, if there is one."""
        inbox = self._inbox
        return inbox.name if inbox else None

    def attend(self) -> None:
        """Somebody has begun to wait."""
        self._attended.set()

    def close(self) -> None:
        """Must not be called by `heard`, that is, on the listener's thread."""
        self._is_closed = True
        self._attended.set()
        self._hand.send(b"\0")
        self._thread.join()
        # Not by the thread itself: it may see that it is closed before we have sent the byte.
        self._release()

    def _run(self) -> None:
        while not self._is_closed:
            self._attended.wait()
            try:
                self._listen()
                self._poll()
            except Exception:
                # Announcements may be late from now on, but waiting goes on.
                _log.exception("sqlite_listener_failed", folder=self._folder)
                self._pause()
            self._rest_unless_attended()

    def _rest_unless_attended(self) -> None:
        self._attended.clear()
        # In this order: who began to wait before the clear is seen here, who does it later
        # sets it again.
        if self._is_attended() or self._is_closed:
            self._attended.set()

    def _listen(self) -> None:
        left_s = self._poll_at - SYSTEM_CLOCK.monotonic()
        for key, _ in self._selector.select(min(max(left_s, 0.0), _LONGEST_S)):
            if self._inbox is not None and key.fileobj is self._inbox.socket:
                self._heard(self._inbox.drain())

    def _poll(self) -> None:
        if SYSTEM_CLOCK.monotonic() < self._poll_at or self._is_closed:
            return
        self._poll_at = SYSTEM_CLOCK.monotonic() + self._poll_interval_s
        if self._inbox is not None and not self._inbox.is_there():
            _log.warning("sqlite_wake_socket_removed", folder=self._folder)
            self._close_inbox()
            self._open_inbox()
        version = self._version()
        if version is not None and version != self._seen_version:
            self._seen_version = version
            self._heard(None)

    def _pause(self) -> None:
        """Do not spin on an error that stays."""
        threading.Event().wait(min(self._poll_interval_s, 1.0))

    def _open_inbox(self) -> None:
        if self._folder is None:
            return
        try:
            self._inbox = Inbox(self._folder)
        except OSError as error:
            _log.warning("sqlite_wakes_by_polling", folder=self._folder, reason=str(error))
            return
        self._selector.register(self._inbox.socket, selectors.EVENT_READ)

    def _close_inbox(self) -> None:
        if self._inbox is not None:
            self._selector.unregister(self._inbox.socket)
            self._inbox.close()
            self._inbox = None

    def _release(self) -> None:
        with suppress(OSError):
            self._close_inbox()
        self._selector.close()
        self._hand.close()
        self._ear.close()
