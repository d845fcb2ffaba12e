"""The time at which work is given up."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from afl.clock import SYSTEM_CLOCK, Clock
from afl.errors import AflError, UsageError

#: Less is no time to do anything.
_SHORTEST = timedelta(seconds=1)


class DeadlineExceeded(AflError):  # noqa: N818 - what happened is what callers catch
    """The time is over. What was begun is given up."""


@dataclass(frozen=True)
class Deadline:
    """A moment in UTC. It travels with a request; `after` and `create` check what they make."""

    expires_at: datetime
    started_at: datetime | None = None

    @classmethod
    def create(
        cls,
        expires_at: datetime,
        started_at: datetime | None = None,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> Deadline:
        """Raises UsageError for a time without a zone, and for one that is over, or nearly."""
        if expires_at.tzinfo is None:
            raise UsageError(f"a deadline needs a time zone: {expires_at.isoformat()}")
        now = clock.now()
        if expires_at - now < _SHORTEST:
            raise UsageError(
                f"the deadline {expires_at.isoformat()} leaves less than a second: "
                f"it is {now.isoformat()}"
            )
        return cls(expires_at, started_at or now)

    @classmethod
    def after(cls, seconds: float, *, clock: Clock = SYSTEM_CLOCK) -> Deadline:
        """So many seconds from now. Raises UsageError for a moment that there is not."""
        now = clock.now()
        try:
            return cls(now + timedelta(seconds=seconds), now)
        except (OverflowError, ValueError):
            raise UsageError(
                f"{seconds:g} seconds from now is no deadline: it is beyond the year 9999, or no "
                "number"
            ) from None

    def remaining(self, clock: Clock = SYSTEM_CLOCK) -> float:
        """Seconds that are left; 0 if it is over."""
        return max(0.0, (self.expires_at - clock.now()).total_seconds())

    def elapsed(self, clock: Clock = SYSTEM_CLOCK) -> float:
        """Seconds since it was set; 0 if nobody knows when that was."""
        started = self.started_at or clock.now()
        return max(0.0, (clock.now() - started).total_seconds())

    def require_rest(self, clock: Clock = SYSTEM_CLOCK) -> float:
        """Seconds that are left. Raises DeadlineExceeded if none are."""
        left = self.remaining(clock)
        if left <= 0:
            raise DeadlineExceeded(f"the deadline {self.expires_at.isoformat()} is over")
        return left


def earliest(*deadlines: Deadline | None) -> Deadline | None:
    """The one that is over first; None if there is none."""
    given = [each for each in deadlines if each is not None]
    return min(given, key=lambda each: each.expires_at, default=None)
