"""What every `Clock` must do, whether its time is real or told."""

from __future__ import annotations

import threading
from datetime import UTC
from typing import Any

import pytest

from afl.clock import Clock

#: Long enough to be noticed, short enough for a clock whose time really passes.
SHORT = 0.02


class ClockContract:
    """Subclasses give a `clock` fixture, and `pass_time` if their time must be told to pass."""

    @pytest.fixture
    def clock(self) -> Clock:
        raise NotImplementedError("return the clock to examine")

    def pass_time(self, clock: Any, seconds: float) -> None:
        """Let `seconds` pass for whoever waits on `clock`. Real clocks do it by themselves."""

    def test_wall_time_is_aware_and_in_utc(self, clock: Clock) -> None:
        assert clock.now().tzinfo is UTC

    def test_monotonic_time_never_goes_back(self, clock: Clock) -> None:
        readings = [clock.monotonic() for _ in range(100)]
        assert readings == sorted(readings)

    def test_a_wait_for_nothing_returns_at_once(self, clock: Clock) -> None:
        clock.sleep(0)
        assert clock.wait(threading.Event(), 0) is False
        assert clock.wait(threading.Event(), -1) is False

    def test_an_event_that_is_set_needs_no_wait(self, clock: Clock) -> None:
        event = threading.Event()
        event.set()
        assert clock.wait(event) is True

    def test_setting_an_event_wakes_its_waiter(self, clock: Clock) -> None:
        event = threading.Event()
        answers = self._in_thread(lambda: clock.wait(event))
        event.set()
        assert answers() is True

    def test_a_wait_ends_with_its_timeout(self, clock: Clock) -> None:
        answers = self._in_thread(lambda: clock.wait(threading.Event(), SHORT))
        self.pass_time(clock, SHORT)
        assert answers() is False

    def test_a_sleep_takes_its_time(self, clock: Clock) -> None:
        started = clock.monotonic()
        answers = self._in_thread(lambda: clock.sleep(SHORT))
        self.pass_time(clock, SHORT)
        answers()
        assert clock.monotonic() - started >= SHORT

    def test_a_notified_condition_wakes_its_waiter_when_the_predicate_holds(
        self, clock: Clock
    ) -> None:
        condition = threading.Condition()
        state: list[str] = []

        def wait() -> bool:
            with condition:
                return clock.wait_for(condition, lambda: bool(state))

        answers = self._in_thread(wait)
        with condition:
            state.append("ready")
            condition.notify_all()
        assert answers() is True

    def test_a_condition_that_never_holds_ends_with_the_timeout(self, clock: Clock) -> None:
        condition = threading.Condition()

        def wait() -> bool:
            with condition:
                return clock.wait_for(condition, lambda: False, SHORT)

        answers = self._in_thread(wait)
        self.pass_time(clock, SHORT)
        assert answers() is False

    def _in_thread(self, action: Any) -> Any:
        """Start `action`; calling the result waits for its end and returns its value."""
        box: list[Any] = []
        thread = threading.Thread(target=lambda: box.append(action()), daemon=True)
        thread.start()

        def answers() -> Any:
            thread.join(10)
            assert box, "the waiter was never woken"
            return box[0]

        return answers
