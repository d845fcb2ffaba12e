from __future__ import annotations

import pytest

from afl.clock import Clock, FakeClock, SystemClock
from afl.testing.contracts.clock import ClockContract


class TestSystemClock(ClockContract):
    @pytest.fixture
    def clock(self) -> Clock:
        return SystemClock()


class TestFakeClock(ClockContract):
    @pytest.fixture
    def clock(self) -> Clock:
        return FakeClock()

    def pass_time(self, clock: FakeClock, seconds: float) -> None:
        clock.wait_for_waiters(1)
        clock.advance(seconds)
