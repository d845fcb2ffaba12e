"""Keeping claims: a thread of its own renews all leases, whatever else is busy or hangs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from afl.backoff import Backoff
from afl.clock import Clock
from afl.errors import StoreError
from afl.log import get_logger
from afl.work.attempts import Attempt
from afl.work.pool import PREFIX, join
from afl.work.source import Source

_log = get_logger(__name__)

#: A lease is renewed this often while it lasts.
_PARTS = 3


class LeaseKeeper:
    """Renews the leases of `held()` every third of a lease, all in one call.

    `lost` hears of each claim that is lost: the source said so, or the lease lapsed while the
    source could not be asked.
    """

    def __init__(
        self,
        source: Source[Any],
        held: Callable[[], Sequence[Attempt]],
        lost: Callable[[Attempt], object],
        clock: Clock,
    ) -> None:
        self._source = source
        self._held = held
        self._lost = lost
        self._clock = clock
        self._interval_s = source.lease_s / _PARTS
        # Quick at first: two thirds of the lease are left to get through.
        self._backoff = Backoff(self._interval_s / 20, 2.0, self._interval_s)
        self._failures = 0
        #: Since when the source is being asked; None if it is not.
        self._asks_since: float | None = None
        self._is_over = False
        #: Ends the pause between two rounds.
        self._is_due = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"{PREFIX}-leases", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Renew no more. The last thing to do: without it, others take the work."""
        self._is_over = True
        self._is_due.set()
        join(self._thread, timeout)

    def hold(self, asked_at: float) -> None:
        """Claims that were asked for at this time are held from now on. If that is long ago, they
        may not last until the next round."""
        if self._clock.monotonic() - asked_at >= self._interval_s:
            self._is_due.set()

    def _keep(self) -> None:
        pause = self._interval_s
        while True:
            self._clock.wait(self._is_due, pause)
            self._is_due.clear()  # before looking at what is held
            if self._is_over:
                return
            try:
                pause = self.renew()
            except Exception:  # a defect; without this thread, all leases would lapse
                _log.exception("renewal_disturbed")
                pause = self._interval_s

    def renew(self) -> float:
        """One round; seconds until the next one."""
        held = self._held()
        asked_at = self._asks_since = self._clock.monotonic()
        try:
            kept = self._source.extend([each.work for each in held]) if held else ()
            answers = list(zip(held, kept, strict=True))
        except Exception as error:  # nothing that the source does may end this thread
            return self._not_renewed(held, error)
        finally:
            self._asks_since = None
        self._failures = 0
        for attempt, is_kept in answers:
            if is_kept:
                attempt.renewed_at = asked_at
            else:
                self._lost(attempt)
        return self._interval_s

    def lapsed(self, held: Sequence[Attempt]) -> list[Attempt]:
        """Those whose lease lapsed while a renewal hangs. Not simply those whose time is over:
        after a long sleep of this process, the source may still keep their claims."""
        since, now = self._asks_since, self._clock.monotonic()
        if since is None or now - since < self._interval_s:
            return []
        return [each for each in held if self._has_lapsed(each, now)]

    def next_lapse(self, held: Sequence[Attempt]) -> float | None:
        """When `lapsed` may find one of them, at the earliest, by the monotonic clock."""
        renewals = [each.renewed_at for each in held if not each.is_over]
        if not renewals:
            return None
        since = self._asks_since
        hangs_from = (self._clock.monotonic() if since is None else since) + self._interval_s
        return max(min(renewals) + self._source.lease_s, hangs_from)

    def _not_renewed(self, held: Sequence[Attempt], error: Exception) -> float:
        self._failures += 1
        is_usual = isinstance(error, StoreError)
        _log.warning("leases_not_renewed", error=str(error), exc_info=not is_usual)
        now = self._clock.monotonic()
        for each in held:
            if self._has_lapsed(each, now):
                self._lost(each)
        return self._backoff.delay(self._failures)

    def _has_lapsed(self, attempt: Attempt, now: float) -> bool:
        return now - attempt.renewed_at >= self._source.lease_s
