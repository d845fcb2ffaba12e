"""Telling systemd how this service is: ready, stopping, still alive.

systemd gives a service of `Type=notify` the address of a socket; the messages are lines of text:
`READY=1`, `STOPPING=1`, `STATUS=…`, `WATCHDOG=1`. Elsewhere there is no socket, and telling does
nothing.
"""

from __future__ import annotations

import os
import socket

from afl.log import get_logger

_log = get_logger(__name__)

READY = "READY=1"
STOPPING = "STOPPING=1"
WATCHDOG = "WATCHDOG=1"


def notify(state: str) -> bool:
    """Tell systemd; True if it was told. Never raises and never waits for a reader."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(state.encode(), _path_of(address))
    except OSError as error:
        # Not worth a failure: whoever supervises us acts on what it does not hear.
        _log.warning("systemd_not_told", state=state, address=address, reason=str(error))
        return False
    return True


def watchdog_interval_s() -> float | None:
    """How often to send `WATCHDOG`, which is half of the time systemd waits for it.

    None if systemd does not watch this process.
    """
    watched_pid = os.environ.get("WATCHDOG_PID")
    if watched_pid and watched_pid != str(os.getpid()):
        return None
    try:
        allowed_us = int(os.environ.get("WATCHDOG_USEC", ""))
    except ValueError:
        return None
    return allowed_us / 2_000_000 if allowed_us > 0 else None


def _path_of(address: str) -> str:
    # An @ stands for the null byte of Linux's abstract sockets, which no variable can hold.
    return f"\0{address[1:]}" if address.startswith("@") else address
