"""What stores on servers share: how they are open, how they wait, and who may ask them."""

from __future__ import annotations

import math
import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol

from afl.clock import Clock
from afl.db.batching import Batching
from afl.db.remote_bell import RemoteBell
from afl.errors import StoreClosed, StoreMisused, StoreUnavailable
from afl.ids import new_id
from afl.log import get_logger
from afl.runtime.asking.access import R, Storing, W
from afl.runtime.persistence import DEFAULT_TASK_LIST, Wake

_log = get_logger(__name__)

#: How long a wait may sleep through an outage that it found by itself; the bell ends it earlier.
_OUTAGE_S = 1.0

#: How long to wait for the last writes when it is closed. A server that stands still may never
#: answer, and whoever closes wants to end.
_LAST_S = 5.0

#: Milliseconds since 1970 in place of the server's time. Only tests have one.
Told = Callable[[], int]


class RemoteDatabase(Protocol):
    @property
    def place(self) -> str: ...

    @property
    def bell(self) -> RemoteBell: ...

    def check(self) -> None:
        """Raises if this process cannot use it any more."""

    def close(self) -> None: ...


class RemoteAccess(Storing[R, W], Generic[R, W]):
    """An open database of the engine. Who inherits opens `database` and its `writer`."""

    #: A lease that was given meanwhile is nobody's news, and a connection that is dead may not know
    #: it yet.
    look_s = 5.0
    database: RemoteDatabase
    writer: Batching[Any]

    def __init__(self, owner: str | None, clock: Clock, told: Told | None) -> None:
        self.owner = new_id() if owner is None else owner
        self._clock = clock
        self._told: Callable[[], int | None] = _nothing if told is None else told
        self._closing = threading.Lock()
        self._is_closed = False

    def close(self) -> None:
        """Write what was submitted, and let go; others in this process may go on with it. What the
        server does not answer within some seconds is left behind, and named in the log."""
        self._forbid_in_decision("close")
        with self._closing:
            was_closed, self._is_closed = self._is_closed, True
        if was_closed:
            return
        try:
            if not self.writer.close(_LAST_S):
                _log.warning("writes_left_behind", place=self.database.place)
        finally:
            self.database.bell.nudge(None)  # who waits here waits for nothing
            self.database.close()

    @abstractmethod
    def _work(self, names: Sequence[str], task_list: str) -> tuple[str, Callable[[R], float]]:
        """What is rung for tasks of a list, and the question how long it is until one of these
        names can be claimed."""

    def wait_for_work(
        self,
        names: Sequence[str],
        timeout: float | None = None,
        *,
        task_list: str = DEFAULT_TASK_LIST,
        stop: threading.Event | None = None,
    ) -> bool:
        return self._wait(*self._work(names, task_list), timeout, stop)

    def wait_for_news(
        self,
        names: Sequence[str],
        timeout: float | None = None,
        *,
        task_list: str = DEFAULT_TASK_LIST,
        stop: threading.Event | None = None,
    ) -> Wake:
        return self._wake(*self._work(names, task_list), timeout, stop)

    def _wait(
        self,
        topic: str,
        seconds_left: Callable[[R], float],
        timeout: float | None,
        stop: threading.Event | None,
    ) -> bool:
        woken = self._wake(topic, seconds_left, timeout, stop, is_thorough=True)
        return woken is Wake.WORK

    def _wake(
        self,
        topic: str,
        seconds_left: Callable[[R], float],
        timeout: float | None,
        stop: threading.Event | None,
        *,
        is_thorough: bool = False,
    ) -> Wake:
        """Wait until nothing is left to wait for or, for who is not thorough, for any news.

        An outage during the wait does not end it: the bell rings when the server is back.
        """
        topic, bell = self._heard_as(topic), self.database.bell
        deadline = math.inf if timeout is None else self._clock.monotonic() + timeout
        is_patient = False
        while stop is None or not stop.is_set():
            seen = bell.count(topic)
            left = self._left(seconds_left, is_patient)
            patience = deadline - self._clock.monotonic()
            if left <= 0 or patience <= 0:
                return Wake.WORK if left <= 0 else Wake.NOTHING
            has_news = bell.wait(topic, seen, min(left, patience, self.look_s), stop)
            if has_news and not is_thorough:
                return Wake.NEWS
            is_patient = True
        return Wake.NOTHING

    def _left(self, seconds_left: Callable[[R], float], is_patient: bool) -> float:
        try:
            return self._read(seconds_left)
        except StoreUnavailable:
            if not is_patient:
                raise
            return _OUTAGE_S

    def _require_open(self) -> None:
        if self._is_closed:
            raise StoreClosed(
                f"the store on {self.database.place} was closed; whoever uses it must stop"
            )
        self.database.check()

    def _forbid_in_decision(self, verb: str) -> None:
        if self.writer.is_current_thread:
            raise StoreMisused(
                f"{verb} inside a decision on {self.database.place}: it would not see what is "
                "decided, or wait for itself. Use the view that the decision was given; a callback "
                "of a future must hand over to another thread"
            )


def _nothing() -> None:
    return None
