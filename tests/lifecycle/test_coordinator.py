"""The coordinator: everybody is called once, outside its lock, and whoever fails fails alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from tests.lifecycle.loops import (
    DOUBT_S,
    PATIENCE_S,
    BusyLoop,
    IdleLoop,
    Running,
    eventually,
    is_caught,
)

from afl.runtime.lifecycle import ShutdownCoordinator, Urgency, coordinator


@pytest.fixture(autouse=True)
def nobody_is_installed() -> Iterator[None]:
    ShutdownCoordinator.reset()
    yield
    ShutdownCoordinator.reset()


def test_callbacks_are_called_in_the_order_of_registration() -> None:
    coordinator, calls = ShutdownCoordinator(), list[int]()
    for number in range(5):
        coordinator.register(partial(calls.append, number))
    assert not coordinator.triggered
    coordinator.trigger()
    assert coordinator.triggered
    assert calls == [0, 1, 2, 3, 4]


def test_a_callback_that_was_unregistered_is_not_called() -> None:
    coordinator, calls = ShutdownCoordinator(), list[str]()

    def first() -> None:
        calls.append("first")

    coordinator.register(first)
    coordinator.unregister(first)
    coordinator.unregister(first)
    coordinator.trigger()
    assert calls == []


def test_whoever_registers_too_late_is_called_at_once() -> None:
    coordinator, calls = ShutdownCoordinator(), list[str]()
    coordinator.trigger()
    coordinator.register(lambda: calls.append("late"))
    assert calls == ["late"]


# Once


class Repeating(ShutdownCoordinator):
    """The mistake: nobody remembers who was called."""

    def _due(self) -> Any:
        return [each for each in self._entries if each.urgency <= self._reached]


def trigger_again(coordinator: ShutdownCoordinator) -> None:
    calls: list[str] = []
    coordinator.register(lambda: calls.append("called"))
    coordinator.trigger()
    coordinator.trigger()
    coordinator.register(lambda: None)
    assert calls == ["called"]


def test_a_callback_is_called_once_however_often_it_is_triggered() -> None:
    """A trigger between registering and looking must not call twice, nor must the next one."""
    trigger_again(ShutdownCoordinator())
    is_caught(lambda: trigger_again(Repeating()))


def test_registering_and_triggering_at_the_same_time_calls_each_once() -> None:
    for _ in range(50):
        coordinator, calls = ShutdownCoordinator(), list[int]()
        barrier = threading.Barrier(5)

        def register(number: int) -> None:
            barrier.wait()  # noqa: B023 - joined below
            coordinator.register(partial(calls.append, number))  # noqa: B023

        def trigger() -> None:
            barrier.wait()  # noqa: B023
            coordinator.trigger()  # noqa: B023

        threads = [Running(partial(register, number)) for number in range(4)]
        threads.append(Running(trigger))
        for each in threads:
            each.outcome()
        assert sorted(calls) == [0, 1, 2, 3]


# Locks


class Locked(ShutdownCoordinator):
    """The mistake: whoever registers too late is called under the lock."""

    def register(self, callback: Any, *, urgency: Urgency = Urgency.DRAIN) -> None:
        with self._lock:
            callback()


def register_in_a_callback(coordinator: ShutdownCoordinator, patience: float = PATIENCE_S) -> None:
    calls: list[str] = []

    def outer() -> None:
        coordinator.register(lambda: calls.append("inner"))

    coordinator.trigger()
    assert Running(lambda: coordinator.register(outer)).ended(patience)
    assert calls == ["inner"]


def test_a_callback_may_register_and_unregister() -> None:
    """A callback under the lock of the coordinator waits for itself."""
    register_in_a_callback(ShutdownCoordinator())
    is_caught(lambda: register_in_a_callback(Locked(), DOUBT_S))


# Failures


def fail_and_go_on() -> None:
    coordinator, calls = ShutdownCoordinator(), list[str]()

    def fail() -> None:
        raise RuntimeError("no")

    coordinator.register(fail)
    coordinator.register(lambda: calls.append("second"))
    coordinator.trigger()
    coordinator.register(fail)
    assert calls == ["second"]


def test_a_callback_that_fails_disturbs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """One callback that raises must not cancel the rest."""
    fail_and_go_on()
    monkeypatch.setattr(coordinator, "_isolated", lambda callback: callback())
    is_caught(fail_and_go_on)


# Order of asking


def test_all_loops_are_asked_before_anybody_is_waited_for() -> None:
    coordinator = ShutdownCoordinator()
    busy, idle = BusyLoop("busy"), IdleLoop("idle")
    for loop in (busy, idle):
        coordinator.register(loop.shutdown)
        Running(loop.run)
        assert loop.is_working.wait(PATIENCE_S)
    triggering = Running(coordinator.trigger)
    eventually(lambda: not idle.running)
    assert busy.running, "the first one still has work to finish"
    busy.finish.set()
    triggering.outcome()


# Urgency


def test_callbacks_for_more_urgent_times_wait_for_them() -> None:
    coordinator, calls = ShutdownCoordinator(), list[str]()
    for urgency in Urgency:
        coordinator.register(partial(calls.append, urgency.name), urgency=urgency)
    coordinator.trigger()
    assert calls == ["DRAIN"]
    coordinator.trigger()
    assert calls == ["DRAIN"]
    coordinator.trigger(Urgency.CHECKPOINT)
    assert calls == ["DRAIN", "CHECKPOINT"]


def test_what_is_urgent_includes_what_is_less_so() -> None:
    coordinator, calls = ShutdownCoordinator(), list[str]()
    for urgency in Urgency:
        coordinator.register(partial(calls.append, urgency.name), urgency=urgency)
    coordinator.trigger(Urgency.EXIT)
    assert calls == ["DRAIN", "CHECKPOINT", "EXIT"]


class Calm(ShutdownCoordinator):
    """The mistake: a signal is a signal, however many there were."""

    def _act(self) -> None:
        self.trigger()


def climb(coordinator: ShutdownCoordinator, patience: float = PATIENCE_S) -> None:
    hand_over = coordinator.delegate()
    for urgency in Urgency:
        called = threading.Event()
        coordinator.register(called.set, urgency=urgency)
        assert not called.is_set()
        hand_over()
        assert called.wait(patience)


def test_each_further_signal_is_more_urgent() -> None:
    """The second signal must not be a repetition of the first."""
    climb(ShutdownCoordinator())
    is_caught(lambda: climb(Calm(), DOUBT_S))


def test_the_next_signal_does_not_wait_for_the_callbacks_of_the_first() -> None:
    coordinator, release = ShutdownCoordinator(), threading.Event()
    urgent = threading.Event()
    coordinator.register(lambda: release.wait(PATIENCE_S))
    coordinator.register(urgent.set, urgency=Urgency.CHECKPOINT)
    hand_over = coordinator.delegate()
    hand_over()
    hand_over()
    assert urgent.wait(PATIENCE_S)
    release.set()


# Frameworks


def test_a_delegate_takes_what_a_signal_handler_gets_or_less() -> None:
    for arguments in [(), (2,), (2, None)]:
        coordinator, called = ShutdownCoordinator(), threading.Event()
        coordinator.register(called.set)
        coordinator.delegate()(*arguments)
        assert coordinator.triggered, "known before anybody has been called"
        assert called.wait(PATIENCE_S)
        assert coordinator.reason == ("SIGINT" if arguments else "SIGTERM")


def test_callbacks_of_a_delegate_run_on_an_ordinary_thread() -> None:
    coordinator, threads = ShutdownCoordinator(), list[int]()
    called = threading.Event()

    def note() -> None:
        threads.append(threading.get_ident())
        called.set()

    coordinator.register(note)
    coordinator.delegate()()
    assert called.wait(PATIENCE_S)
    assert threads != [threading.get_ident()]
