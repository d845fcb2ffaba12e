"""What systemd is told of a group; elsewhere nobody listens."""

from __future__ import annotations

import math

from afl.clock import Clock
from afl.runtime import sd_notify


class Systemd:
    """Tells systemd when the group is ready, stops, and is alive."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: Seconds between signs of life; infinite if nobody waits for them.
        self.interval_s = sd_notify.watchdog_interval_s() or math.inf
        self._told_at = -math.inf

    def started(self) -> None:
        sd_notify.notify(sd_notify.READY)

    def stopping(self) -> None:
        sd_notify.notify(sd_notify.STOPPING)

    def tick(self) -> None:
        """Give a sign of life if it is time for one."""
        now = self._clock.monotonic()
        # Half of the interval early: the next tick may come too late.
        if now - self._told_at >= self.interval_s / 2:
            self._told_at = now
            sd_notify.notify(sd_notify.WATCHDOG)
