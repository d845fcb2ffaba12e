"""The end of a group: one deadline, in order, with time kept to save what is unfinished."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from tests.lifecycle.loops import (
    DOUBT_S,
    PATIENCE_S,
    BusyLoop,
    CheckpointingLoop,
    IdleLoop,
    Running,
    eventually,
    is_caught,
)

from afl import telemetry
from afl.clock import FakeClock
from afl.runtime.lifecycle import LoopGroup, Phase, ShutdownCoordinator, Urgency
from afl.runtime.lifecycle.drain import Drain
from afl.runtime.lifecycle.group_run import GroupRun


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def events() -> Iterator[list[telemetry.Event]]:
    seen: list[telemetry.Event] = []
    end = telemetry.subscribe(seen.append)
    yield seen
    end()


@pytest.fixture
def coordinator() -> Iterator[ShutdownCoordinator]:
    """One that groups register with, and that no signal reaches."""
    made = ShutdownCoordinator()
    ShutdownCoordinator._instance = made
    yield made
    ShutdownCoordinator._instance = None


def started(group: LoopGroup) -> Running:
    run = Running(group.run)
    for loop in group.loops:
        assert isinstance(loop, IdleLoop)
        assert loop.is_working.wait(PATIENCE_S)
    return run


def let_pass(clock: FakeClock, seconds: float) -> None:
    """Time passes in small steps, as it does, so that everybody acts at their moment."""
    clock.wait_for_waiters(1)
    for _ in range(round(seconds * 4)):
        clock.advance(0.25)
        clock.wait_for_waiters(1)


def release(*loops: BusyLoop) -> None:
    for loop in loops:
        loop.finish.set()


# One deadline


def ask_all(clock: FakeClock, patience: float = PATIENCE_S) -> None:
    loops = [BusyLoop(str(number), clock=clock) for number in range(3)]
    run = started(group := LoopGroup(loops, clock=clock))
    group.request_stop()
    try:
        assert all(each.is_asked.wait(patience) for each in loops)
    finally:
        release(*loops)
        run.outcome()


def test_all_loops_are_asked_before_any_is_waited_for(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loops that are stopped one after the other take as many timeouts as there are loops."""
    ask_all(clock)
    ask = Drain._ask
    monkeypatch.setattr(Drain, "_ask", lambda self, members: ask(self, members[:1]))
    is_caught(lambda: ask_all(FakeClock(), DOUBT_S))


def end_in_time(clock: FakeClock, patience: float = PATIENCE_S) -> LoopGroup:
    loops = [BusyLoop(f"hung-{number}", clock=clock) for number in range(3)]
    group = LoopGroup([*loops, IdleLoop("idle", clock=clock)], 30.0, clock=clock)
    run = started(group)
    group.request_stop()
    eventually(lambda: group.phase is Phase.DRAIN)
    clock.wait_for_waiters(1)
    clock.advance(29.9)
    try:
        assert not run.ended(DOUBT_S)
        clock.wait_for_waiters(1)
        clock.advance(0.1)
        assert run.ended(patience)
    finally:
        release(*loops)
        assert run.ended()
    return group


def test_a_group_ends_at_its_deadline_whoever_hangs_and_names_them(
    clock: FakeClock, events: list[telemetry.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A timeout after which the threads are waited for all the same is none."""
    group = end_in_time(clock)
    assert group.abandoned == ("hung-0", "hung-1", "hung-2")
    left = [each for each in events if isinstance(each, telemetry.LoopAbandoned)]
    assert [each.loop for each in left] == ["hung-0", "hung-1", "hung-2"]
    assert all(each.handler.startswith("tests.lifecycle.loops.") for each in left)
    assert group.shutdown(timeout=0) is False, "it did not end cleanly"
    monkeypatch.setattr(Drain, "_is_over", lambda self: not self._alive())
    is_caught(lambda: end_in_time(FakeClock(), DOUBT_S))


class Polling(IdleLoop):
    """The mistake: its wait for work does not end with its stop."""

    def wait(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self._runs._clock.wait(threading.Event(), 20)


def stop_idle_loops(kind: type[IdleLoop], patience: float = PATIENCE_S) -> None:
    clock = FakeClock()
    group = LoopGroup([kind(clock=clock) for _ in range(8)], clock=clock)
    run = started(group)
    group.request_stop()
    try:
        assert run.ended(patience), "time stands still, and somebody waits for it"
    finally:
        clock.advance(30)
        run.ended()
    assert group.abandoned == ()


def test_idle_loops_end_without_any_time_passing() -> None:
    """A loop that looks at its stop only after its long poll needs all of the drain to end."""
    stop_idle_loops(IdleLoop)
    is_caught(lambda: stop_idle_loops(Polling, DOUBT_S))


def test_a_drain_deadline_is_what_the_timeout_is_otherwise(clock: FakeClock) -> None:
    busy = BusyLoop(clock=clock)
    group = LoopGroup([busy], 1.0, drain_deadline_seconds=100.0, clock=clock)
    run = started(group)
    group.request_stop()
    assert busy.is_asked.wait(PATIENCE_S)
    let_pass(clock, 50)
    release(busy)
    run.outcome()
    assert group.abandoned == ()


def test_shutdown_waits_no_longer_than_told_and_the_drain_goes_on(clock: FakeClock) -> None:
    busy = BusyLoop(clock=clock)
    group = LoopGroup([busy], 100.0, clock=clock)
    run = started(group)
    stopping = Running(lambda: group.shutdown(timeout=2))
    assert busy.is_asked.wait(PATIENCE_S)
    clock.wait_for_waiters(2)
    clock.advance(2)
    assert stopping.outcome() is False
    assert group.running
    release(busy)
    run.outcome()
    assert busy.has_finished
    assert group.shutdown(timeout=0) is True


def test_shutdown_with_more_time_than_configured_gets_it(clock: FakeClock) -> None:
    busy = BusyLoop(clock=clock)
    group = LoopGroup([busy], 10.0, clock=clock)
    run = started(group)
    stopping = Running(lambda: group.shutdown(timeout=100))
    assert busy.is_asked.wait(PATIENCE_S)
    let_pass(clock, 50)
    release(busy)
    run.outcome()
    assert stopping.outcome() is True
    assert group.abandoned == ()


def test_a_drain_that_goes_on_is_not_prolonged(clock: FakeClock) -> None:
    busy = BusyLoop(clock=clock)
    group = LoopGroup([busy], 10.0, clock=clock)
    run = started(group)
    group.request_stop()
    assert busy.is_asked.wait(PATIENCE_S)
    stopping = Running(lambda: group.shutdown(timeout=1000))
    let_pass(clock, 9.75)
    clock.advance(0.25)
    run.outcome()
    assert stopping.outcome() is False
    release(busy)


def test_loops_end_although_the_supervisor_is_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ctrl-C where nobody handles signals comes as an exception in the middle of the wait."""
    loop = IdleLoop()

    def interrupt(self: GroupRun) -> None:
        assert loop.is_working.wait(PATIENCE_S)
        raise KeyboardInterrupt

    monkeypatch.setattr(GroupRun, "_wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        Running(LoopGroup([loop]).run).outcome()
    assert not loop.running


# Order


def test_a_later_loop_goes_on_until_the_earlier_ones_are_done(clock: FakeClock) -> None:
    first = BusyLoop("first", clock=clock)
    second = IdleLoop("second", stop_order=1, clock=clock)
    last = IdleLoop("last", stop_order=2, clock=clock)
    run = started(group := LoopGroup([last, second, first], clock=clock))
    group.request_stop()
    assert first.is_asked.wait(PATIENCE_S)
    let_pass(clock, 2)
    assert second.running
    assert last.running
    release(first)
    run.outcome()
    assert group.abandoned == ()


def test_a_later_loop_gets_its_time_even_if_an_earlier_one_hangs(clock: FakeClock) -> None:
    first = BusyLoop("first", clock=clock)
    last = IdleLoop("last", stop_order=1, clock=clock)
    group = LoopGroup([first, last], 10.0, checkpoint_reserve_seconds=3.0, clock=clock)
    run = started(group)
    group.request_stop()
    assert first.is_asked.wait(PATIENCE_S)
    let_pass(clock, 6.75)
    assert last.running
    let_pass(clock, 0.25)
    eventually(lambda: not last.running)
    let_pass(clock, 2.75)
    clock.advance(0.25)
    run.outcome()
    assert group.abandoned == ("first",)
    release(first)


# Checkpoints


def test_unfinished_work_is_saved_while_there_is_time_for_it(
    clock: FakeClock, events: list[telemetry.Event]
) -> None:
    loop = CheckpointingLoop("loop", clock=clock)
    group = LoopGroup([loop], 20.0, checkpoint_reserve_seconds=5.0, clock=clock)
    run = started(group)
    group.request_stop()
    assert loop.is_asked.wait(PATIENCE_S)
    let_pass(clock, 14.75)
    assert loop.checkpoints == 0, "work may still finish by itself"
    clock.advance(0.25)
    run.outcome()
    assert (loop.checkpoints, group.abandoned) == (1, ())
    (asked,) = [each for each in events if isinstance(each, telemetry.CheckpointRequested)]
    assert (asked.loop, asked.reason) == ("loop", "the deadline is near")


def test_work_that_finishes_is_not_saved(clock: FakeClock) -> None:
    loop = CheckpointingLoop(clock=clock)
    run = started(group := LoopGroup([loop], 20.0, clock=clock))
    group.request_stop()
    assert loop.is_asked.wait(PATIENCE_S)
    let_pass(clock, 10)
    release(loop)
    run.outcome()
    assert loop.checkpoints == 0


def test_a_checkpoint_that_fails_is_not_the_end_of_the_drain(clock: FakeClock) -> None:
    class Broken(BusyLoop):
        def checkpoint(self) -> None:
            raise RuntimeError("no space left")

    broken, other = Broken("broken", clock=clock), CheckpointingLoop("other", clock=clock)
    group = LoopGroup([broken, other], 10.0, checkpoint_reserve_seconds=5.0, clock=clock)
    run = started(group)
    group.request_stop()
    assert broken.is_asked.wait(PATIENCE_S)
    let_pass(clock, 5)
    eventually(lambda: not other.running)
    let_pass(clock, 4.75)
    clock.advance(0.25)
    run.outcome()
    assert group.abandoned == ("broken",)
    release(broken)


def test_a_checkpoint_or_a_stop_that_hangs_does_not_move_the_deadline(clock: FakeClock) -> None:
    class Stubborn(BusyLoop):
        def request_stop(self) -> None:
            self.is_asked.set()
            self.finish.wait(PATIENCE_S)

        checkpoint = request_stop

    loop = Stubborn("stubborn", clock=clock)
    group = LoopGroup([loop], 10.0, clock=clock)
    run = started(group)
    group.request_stop()
    assert loop.is_asked.wait(PATIENCE_S)
    let_pass(clock, 9.75)
    clock.advance(0.25)
    run.outcome()
    assert group.abandoned == ("stubborn",)
    release(loop)


# More signals


def test_the_second_signal_saves_at_once(
    clock: FakeClock, coordinator: ShutdownCoordinator, events: list[telemetry.Event]
) -> None:
    loop = CheckpointingLoop("loop", clock=clock)
    run = started(LoopGroup([loop], 1000.0, clock=clock))
    coordinator.trigger()
    assert loop.is_asked.wait(PATIENCE_S)
    assert loop.checkpoints == 0
    coordinator.trigger(Urgency.CHECKPOINT)
    run.outcome()
    assert loop.checkpoints == 1
    assert clock.monotonic() == 0
    (asked,) = [each for each in events if isinstance(each, telemetry.CheckpointRequested)]
    assert asked.reason == "second signal"


def test_the_second_signal_leaves_the_time_of_a_checkpoint_and_no_more(
    clock: FakeClock, coordinator: ShutdownCoordinator
) -> None:
    class Stubborn(BusyLoop):
        def checkpoint(self) -> None:
            is_hurried.set()

    is_hurried = threading.Event()
    busy = Stubborn(clock=clock)
    group = LoopGroup([busy], 1000.0, checkpoint_reserve_seconds=2.0, clock=clock)
    run = started(group)
    coordinator.trigger()
    assert busy.is_asked.wait(PATIENCE_S)
    let_pass(clock, 3)
    coordinator.trigger(Urgency.CHECKPOINT)
    assert is_hurried.wait(PATIENCE_S)
    let_pass(clock, 1.75)
    assert not run.ended(0)
    clock.advance(0.25)
    run.outcome()
    assert len(group.abandoned) == 1
    release(busy)


def test_the_third_signal_waits_for_nobody(
    clock: FakeClock, coordinator: ShutdownCoordinator
) -> None:
    busy = BusyLoop("busy", clock=clock)
    run = started(group := LoopGroup([busy], 1000.0, clock=clock))
    coordinator.trigger(Urgency.CHECKPOINT)
    assert busy.is_asked.wait(PATIENCE_S)
    coordinator.trigger(Urgency.EXIT)
    run.outcome()
    assert group.abandoned == ("busy",)
    assert clock.monotonic() == 0
    release(busy)


# Settling


def test_a_group_answers_for_its_settle_time_although_all_is_done(clock: FakeClock) -> None:
    loop = IdleLoop(clock=clock)
    run = started(group := LoopGroup([loop], settle_seconds=5.0, clock=clock))
    group.request_stop()
    eventually(lambda: not loop.running)
    let_pass(clock, 4.75)
    assert not run.ended(0)
    assert not group.ready().ok
    clock.advance(0.25)
    run.outcome()


def test_a_later_loop_is_not_stopped_before_the_settle_time_is_over(clock: FakeClock) -> None:
    first = IdleLoop("first", clock=clock)
    face = IdleLoop("face", stop_order=1, clock=clock)
    run = started(group := LoopGroup([first, face], settle_seconds=5.0, clock=clock))
    group.request_stop()
    eventually(lambda: not first.running)
    let_pass(clock, 4.75)
    assert face.running
    clock.advance(0.25)
    run.outcome()


def test_a_second_signal_ends_the_settle_time(
    clock: FakeClock, coordinator: ShutdownCoordinator
) -> None:
    run = started(LoopGroup([IdleLoop(clock=clock)], settle_seconds=500.0, clock=clock))
    coordinator.trigger(Urgency.CHECKPOINT)
    run.outcome()
    assert clock.monotonic() == 0


# What probes see


def asked(group: LoopGroup, path: str) -> tuple[int, Any]:
    address = group.health_address
    assert address is not None
    url = f"http://127.0.0.1:{address[1]}{path}"
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def probe_a_drain() -> None:
    busy = BusyLoop("busy")
    group = LoopGroup([busy], health_port=0, health_host="127.0.0.1")
    run = started(group)
    try:
        eventually(lambda: asked(group, "/health/ready")[0] == 200)
        group.request_stop()
        assert busy.is_asked.wait(PATIENCE_S)
        assert asked(group, "/health/live") == (200, {"status": "healthy"})
        assert asked(group, "/health/startup")[0] == 200
        status, body = asked(group, "/health/ready")
        assert (status, body["status"]) == (503, "unhealthy")
        assert body["reasons"] == ["drain: asked to stop"]
        assert asked(group, "/status")[1]["phase"] == "drain"
    finally:
        group.request_stop()
        release(busy)
        run.outcome()


def test_a_process_is_live_and_not_ready_while_it_drains(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A probe that is not answered during a drain makes the platform kill what still works."""
    probe_a_drain()
    drain = GroupRun._drain

    def close_first(self: GroupRun) -> None:
        assert self.health is not None
        self.health.stop()
        drain(self)

    monkeypatch.setattr(GroupRun, "_drain", close_first)
    is_caught(probe_a_drain)


def test_health_is_closed_when_the_group_has_ended() -> None:
    group = LoopGroup([IdleLoop()], health_port=0, health_host="127.0.0.1")
    run = started(group)
    group.request_stop()
    run.outcome()
    assert group.health_address is None


def test_metrics_tell_of_the_group() -> None:
    class Counting(BusyLoop):
        in_flight = 4
        leases_lost = 2
        handled = (("shop.Weigh", 5, 1),)

    loop = Counting("loop")
    group = LoopGroup([loop], health_port=0, health_host="127.0.0.1")
    run = started(group)
    address = group.health_address
    assert address is not None

    def metrics() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{address[1]}/metrics") as answer:
            return str(answer.read().decode())

    assert 'afl_phase{phase="ready"} 1' in metrics()
    assert 'afl_in_flight{loop="loop"} 4' in metrics()
    assert 'afl_leases_lost_total{loop="loop"} 2' in metrics()
    assert 'afl_handled_total{loop="loop",work="shop.Weigh",outcome="done"} 5' in metrics()
    assert 'afl_handled_total{loop="loop",work="shop.Weigh",outcome="failed"} 1' in metrics()
    assert 'afl_heartbeat_age_seconds{loop="loop"}' in metrics()
    assert "afl_drain_seconds 0\n" in metrics()
    group.request_stop()
    assert loop.is_asked.wait(PATIENCE_S)
    assert 'afl_phase{phase="drain"} 1' in metrics()
    assert "afl_ready 0" in metrics()
    assert "afl_drain_seconds 0\n" not in metrics()
    release(loop)
    run.outcome()


def test_nobody_hears_of_a_group_that_has_ended() -> None:
    before = telemetry.TELEMETRY.statistics().subscribers
    run = started(group := LoopGroup([IdleLoop()], health_port=0, health_host="127.0.0.1"))
    group.request_stop()
    run.outcome()
    assert telemetry.TELEMETRY.statistics().subscribers == before
