"""Locks that outlive a fork."""

from __future__ import annotations

import os
import threading


class ForkSafeLock:
    """A lock that a forked child finds free, whoever held it in the parent. For modules."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_error: object) -> None:
        self._lock.release()

    def _renew(self) -> None:
        # The thread that held it does not exist here.
        self._lock = threading.Lock()
