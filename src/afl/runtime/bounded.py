"""Calling what may hang, without hanging with it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import NamedTuple

from afl.clock import SYSTEM_CLOCK
from afl.log import get_logger

_log = get_logger(__name__)

Action = Callable[[], object]


class _Request(NamedTuple):
    action: Action
    done: threading.Event


class BoundedCalls:
    """Has things done on another thread, and waits for each of them for a limited time.

    One that hangs is left behind with its thread, and the next one gets a new thread. All methods
    are for one thread; `close` may be followed by `call`.
    """

    def __init__(self, name: str, timeout_s: float) -> None:
        self._name = name
        self._timeout_s = timeout_s
        self._requests: SimpleQueue[_Request | None] | None = None

    def open(self) -> None:
        """Have a thread ready: when it is needed there may be none to be had, because the process
        has too many or is about to exit."""
        self._opened()

    def close(self) -> None:
        """Let the thread go."""
        if self._requests is not None:
            self._requests.put(None)
            self._requests = None

    def call(self, action: Action) -> bool:
        """Do it; False if it took too long or there was no thread for it. What it raises is
        logged."""
        try:
            requests = self._opened()
        except RuntimeError as error:
            _log.error("no_thread_to_be_had", action=repr(action), reason=str(error))
            return False
        request = _Request(action, threading.Event())
        requests.put(request)
        # Real time, whatever clock others have: what is called is not ours.
        if SYSTEM_CLOCK.wait(request.done, self._timeout_s):
            return True
        self.close()
        return False

    def _opened(self) -> SimpleQueue[_Request | None]:
        if self._requests is None:
            requests: SimpleQueue[_Request | None] = SimpleQueue()
            thread = threading.Thread(target=_serve, args=(requests,), name=self._name, daemon=True)
            thread.start()
            self._requests = requests
        return self._requests


def _serve(requests: SimpleQueue[_Request | None]) -> None:
    while (request := requests.get()) is not None:
        try:
            request.action()
        except Exception:
            _log.exception("call_failed", action=repr(request.action))
        finally:
            request.done.set()
