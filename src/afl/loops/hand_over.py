"""Hand-over: a loop that stops leaves its turns to another one that is ready for them.

Who is ready says so in the store, again and again, and once more whenever somebody withdraws. Who
stops withdraws first, and believes only what was said after that. So two who stop together never
leave their turns to each other: the one that withdrew first says nothing more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from afl.clock import Clock
from afl.errors import StoreClosed, StoreUnavailable
from afl.ids import new_id
from afl.log import get_logger
from afl.loops.durable import DurableTurns

_log = get_logger(__name__)

#: How long the end of a run waits for the last word to the store.
_LAST_S = 1.0
_OUTAGE_S = 1.0


class HandOver:
    """Says in the store that a loop is ready; then tells its turns who is."""

    def __init__(self, turns: DurableTurns, loop: str, worker_id: str, clock: Clock) -> None:
        self._turns = turns
        self._store = turns.store
        self._loop = loop
        #: Of this loop alone: others in the process have the same worker.
        self._owner = f"{worker_id}/{new_id()[-8:]}"
        self._clock = clock
        self._is_leaving = False

    @contextmanager
    def going_on(self, stop: threading.Event, is_able: threading.Event) -> Iterator[None]:
        """As soon as the loop `is_able` to get work, until the end of the block."""
        over = threading.Event()
        self._is_leaving = False
        is_able.clear()
        thread = threading.Thread(
            target=self._attend,
            args=(stop, is_able, over),
            name=f"hand-over-{self._loop}",
            daemon=True,
        )
        thread.start()
        try:
            yield
        finally:
            self._is_leaving = True
            over.set()
            is_able.set()
            # What it says last only spares others a wait for the lease.
            thread.join(_LAST_S)

    def leave(self) -> None:
        """The time is over: this loop takes nothing more."""
        self._is_leaving = True
        self._trying(self._withdraw)

    def _attend(
        self, stop: threading.Event, is_able: threading.Event, over: threading.Event
    ) -> None:
        self._clock.wait(is_able)
        while not (stop.is_set() or self._is_leaving):
            if not self._trying(lambda: self._stay_ready(stop)):
                self._clock.wait(stop, _OUTAGE_S)
        while not over.is_set():
            if not self._trying(lambda: self._look_for_takers(over)):
                self._turns.successor = None
                self._clock.wait(over, _OUTAGE_S)
        # Who had nothing in hand has not said so yet.
        self._trying(self._withdraw)

    def _stay_ready(self, stop: threading.Event) -> None:
        lease_ms, is_news = self._turns.lease_ms, False
        while not (stop.is_set() or self._is_leaving):
            self._store.announce(self._loop, self._owner, lease_ms, is_news=is_news)
            known = self._store.takers(self._loop)
            # Whoever came or went may want to know who is here.
            is_news = self._store.wait_takers(self._loop, known, lease_ms / 3000, stop)

    def _withdraw(self) -> None:
        self._store.withdraw(self._loop, self._owner)

    def _look_for_takers(self, over: threading.Event) -> None:
        # Before it withdraws: answers to that come later.
        asked_at = self._store.now_ms()
        self._withdraw()
        while not over.is_set():
            takers = self._store.takers(self._loop, asked_at)
            self._turns.successor = takers[0] if takers else None
            self._store.wait_takers(self._loop, takers, None, over, asked_at)

    def _trying(self, act: Callable[[], None]) -> bool:
        try:
            act()
        except StoreClosed:
            return False
        except StoreUnavailable as problem:
            _log.warning("takers_unknown", loop=self._loop, error=str(problem))
            return False
        return True
