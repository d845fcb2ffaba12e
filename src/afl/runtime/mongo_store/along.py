"""Claims along with results: what waits is claimed in the transaction of a result.

A worker that is alone with its queue pays one commit for each task and not two. Where others claim
from the same queue, of two transactions that want the same task one is refused, and its result with
it. So such a claim is an attempt: if it fails, the result is written without it, and for a while
workers of this process claim by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

from afl.clock import Clock
from afl.db.mongo import Transaction
from afl.db.mongo.errors import OF_DRIVER
from afl.db.mongo.transaction import Hindered
from afl.errors import StoreUnavailable
from afl.runtime.mongo_store import queue
from afl.runtime.mongo_store.times import Now
from afl.runtime.persistence import Claiming

#: How long others are believed to be at the queue. An attempt in vain costs a result some
#: milliseconds, and each process makes one in this time; who is alone again waits for its end.
_STAND_BACK_S = 5.0
#: Once in this time a result brings nothing along, so that its worker looks for itself: only so are
#: retries found that have become due, and they go before what is new.
_LOOK_S = 1.0


class Along:
    """What results of one process may bring along. Used by one thread at a time, the writer's."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._not_before = float("-inf")
        self._look_at = float("inf")

    def fill(self, tx: Transaction, claimings: Sequence[Claiming], now: Now) -> None:
        """The last thing before the commit: until then nobody else can have these tasks. Raises
        Hindered if they cannot be claimed here."""
        for each in claimings:
            each.fill(())  # an attempt before this one may have claimed some
        if not claimings or not tx.may_try or not self._is_time():
            return
        tx.write()
        try:
            for each in claimings:
                each.fill(queue.claim_along(tx, each, now))
        except (*OF_DRIVER, StoreUnavailable) as error:
            self._stand_back()
            raise Hindered from error

    def _stand_back(self) -> None:
        self._not_before = self._clock.monotonic() + _STAND_BACK_S
        self._look_at = self._not_before + _LOOK_S  # until then workers look all the time

    def _is_time(self) -> bool:
        now = self._clock.monotonic()
        if now < self._not_before:
            return False
        is_look, next_look = now >= self._look_at, now + _LOOK_S
        self._look_at = next_look if is_look else min(self._look_at, next_look)
        return not is_look
