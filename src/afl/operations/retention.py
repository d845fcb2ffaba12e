"""Old runs go by themselves: what workers and services do beside their work."""

from __future__ import annotations

import threading

from afl.clock import SYSTEM_CLOCK, Clock
from afl.errors import StoreClosed, StoreError
from afl.log import get_logger
from afl.operations import runs
from afl.runtime.lifecycle import BaseLoop
from afl.runtime.persistence import PersistenceAPI

_log = get_logger(__name__)

#: Whoever has it looks for old runs until it is over: one process of all that share a store.
LOCK = "afl.retention"
INTERVAL_S = 3600.0
#: A stop waits for so many at most.
_AT_ONCE = 10
#: Signs of life while there is nothing to do.
_BEAT_S = 10.0


class RetentionLoop(BaseLoop):
    """Removes runs that ended longer ago than `keep` says (`30d`, `never`), once in an hour. Of
    several at one store, one does it. An outage ends nothing: the next hour comes."""

    def __init__(self, store: PersistenceAPI, keep: str, *, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__("retention", clock=clock)
        self._store = store
        self._keep = keep
        self._clock = clock

    def work(
        self,
        stop: threading.Event,
        *,
        max_iterations: int | None,
        visibility_timeout: int,  # noqa: ARG002 - nothing is received
        wait_time_seconds: int,  # noqa: ARG002
    ) -> None:
        rounds = 0
        while not stop.is_set() and rounds != max_iterations:
            try:
                self._look(stop)
            except StoreClosed:
                return
            except StoreError as error:
                _log.warning("runs_not_pruned", error=str(error))
            rounds += 1
            if rounds != max_iterations:
                self._rest(stop)

    def _look(self, stop: threading.Event) -> None:
        if not self._store.acquire_lock(LOCK, round(INTERVAL_S * 1000)):
            return
        removed = _AT_ONCE
        while removed == _AT_ONCE and not stop.is_set():
            removed = runs.prune(self._store, self._keep, limit=_AT_ONCE).runs
            self._heartbeat.beat()

    def _rest(self, stop: threading.Event) -> None:
        until = self._clock.monotonic() + INTERVAL_S
        while (left := until - self._clock.monotonic()) > 0:
            self._heartbeat.beat()
            if self._clock.wait(stop, min(left, _BEAT_S)):
                return
