"""How a group stands: loops that ended or hang, readiness, status, notices, drain mode."""

from __future__ import annotations

import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.lifecycle.loops import (
    DOUBT_S,
    PATIENCE_S,
    BusyLoop,
    EndingLoop,
    IdleLoop,
    Running,
    eventually,
    is_caught,
    running,
    working,
)

from afl.clock import FakeClock
from afl.errors import UsageError
from afl.runtime import FileTrigger
from afl.runtime.lifecycle import (
    LoopGroup,
    LoopState,
    Phase,
    reports,
    wait_until,
)
from afl.runtime.lifecycle.members import Member
from afl.runtime.lifecycle.reports import Reports

# Loops that ended, loops that hang


def end_one_of_two() -> None:
    ending, healthy = EndingLoop("ending"), IdleLoop("healthy")
    group = LoopGroup([ending, healthy])
    with running(group):
        working(ending, healthy)
        eventually(lambda: group.ready().ok)
        ending.end.set()
        eventually(lambda: group.status()["loops"][0]["state"] == LoopState.STOPPED)
        assert group.ready().ok, group.ready().reasons
        assert not is_watched(group, "ending")
        assert is_watched(group, "healthy")


def is_watched(group: LoopGroup, name: str) -> bool:
    assert group._run is not None
    return next(each for each in group._run.members if each.name == name).is_watched()


def test_a_loop_that_ended_is_neither_watched_nor_in_the_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A loop that has no more to do goes stale, and must not take the healthy ones with it."""
    end_one_of_two()
    monkeypatch.setattr(Member, "is_watched", lambda self: True)
    is_caught(end_one_of_two)


class Silent(IdleLoop):
    """Does not beat when it begins to run."""

    def run(self, **options: Any) -> None:
        self.work(threading.Event())

    def wait(self, stop: threading.Event) -> None:
        self.age = self.heartbeat.elapsed()


def start_a_loop_that_was_made_long_ago() -> None:
    clock = FakeClock()
    loop = Silent("loop", clock=clock)
    clock.advance(1000)
    Running(LoopGroup([loop], clock=clock).run).outcome()
    assert loop.age == 0


def test_a_loop_that_was_made_long_ago_is_not_stale_when_it_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A slow start must not be taken for a stall."""
    start_a_loop_that_was_made_long_ago()
    monkeypatch.setattr(Member, "heartbeat", None)
    is_caught(start_a_loop_that_was_made_long_ago)


def test_a_loop_that_does_not_beat_makes_the_group_unready_and_is_named() -> None:
    clock = FakeClock()
    loops = [IdleLoop("fresh", clock=clock), IdleLoop("stale", clock=clock)]
    group = LoopGroup(loops, watchdog_threshold=100, watchdog_interval=30, clock=clock)
    with running(group):
        working(*loops)
        eventually(lambda: group.ready().ok)
        clock.advance(101)
        loops[0].heartbeat.beat()
        (reason,) = group.ready().reasons
        assert "stale" in reason
        loops[1].heartbeat.beat()
        assert group.ready().ok


def take_a_declared_long_turn() -> None:
    clock = FakeClock()
    loop = IdleLoop("loop", clock=clock)
    group = LoopGroup([loop], watchdog_threshold=100, watchdog_interval=30, clock=clock)
    with running(group):
        working(loop)
        eventually(lambda: group.ready().ok)
        loop.longest_turn_s = 500.0  # type: ignore[attr-defined]
        clock.advance(400)
        assert group.ready().ok, group.ready().reasons
        clock.advance(200)
        assert not group.ready().ok


def test_a_loop_that_declared_a_longer_turn_is_given_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """One long tool call without a beat is not a stall if it was announced."""
    take_a_declared_long_turn()
    monkeypatch.setattr(Member, "longest_turn_s", lambda self: None)
    is_caught(take_a_declared_long_turn)


def test_a_loop_can_say_that_it_cannot_take_work() -> None:
    loop = IdleLoop("loop")
    group = LoopGroup([loop])
    with running(group):
        eventually(lambda: group.ready().ok)
        loop.unready_reason = "the broker is away"  # type: ignore[attr-defined]
        assert group.ready().reasons == ("loop: the broker is away",)


def drain_is_not_watched() -> None:
    busy = BusyLoop("busy")
    group = LoopGroup([busy])
    run = Running(group.run)
    working(busy)
    assert is_watched(group, "busy")
    group.request_stop()
    assert busy.is_asked.wait(PATIENCE_S)
    try:
        assert not is_watched(group, "busy")
    finally:
        busy.finish.set()
        run.outcome()


def test_a_loop_that_drains_is_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long last piece of work must not be killed by the watchdog."""
    drain_is_not_watched()
    monkeypatch.setattr(Member, "is_watched", lambda self: self.is_alive)
    is_caught(drain_is_not_watched)


def test_the_watchdog_is_off_during_the_drain() -> None:
    clock = FakeClock()
    busy = BusyLoop("busy", clock=clock)
    stalls: list[Any] = []
    group = LoopGroup(
        [busy],
        drain_deadline_seconds=10_000,
        watchdog_threshold=10,
        watchdog_interval=1,
        on_stall=stalls.append,
        clock=clock,
    )
    run = Running(group.run)
    working(busy)
    group.request_stop()
    assert busy.is_asked.wait(PATIENCE_S)
    for _ in range(30):
        clock.advance(1)
    busy.finish.set()
    run.outcome()
    assert stalls == []


# How it stands


class Slow(IdleLoop):
    """Takes its time between the start of its thread and its run."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.is_entered = threading.Event()
        self.may_run = threading.Event()

    def run(self, **options: Any) -> None:
        self.is_entered.set()
        self.may_run.wait(PATIENCE_S)
        super().run(**options)


def start_slowly() -> None:
    loop = Slow("slow")
    group = LoopGroup([loop])
    with running(group):
        try:
            assert loop.is_entered.wait(PATIENCE_S)
            eventually(lambda: "not all loops run yet" not in group.ready().reasons)
            assert group.ready().reasons == ("slow: does not run yet",)
            assert group.phase is Phase.READY
        finally:
            loop.may_run.set()
        eventually(lambda: group.ready().ok)


def test_a_group_is_not_ready_before_its_loops_run_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thread that exists is not yet a loop that takes work."""
    start_slowly()
    monkeypatch.setattr(reports, "_loop_problems", lambda member: [])
    is_caught(start_slowly)


def test_the_status_tells_of_phase_and_loops_and_no_payloads() -> None:
    class Counting(IdleLoop):
        in_flight = 3

    group = LoopGroup([Counting("loop", stop_order=2)])
    assert group.status() == {}
    with running(group):
        eventually(lambda: group.ready().ok)
        status = group.status()
    assert (status["phase"], status["ready"], status["reasons"]) == ("ready", True, [])
    (loop,) = status["loops"]
    assert loop.pop("beat_age_s") >= 0
    assert loop == {"name": "loop", "state": "running", "in_flight": 3, "stop_order": 2}


def test_a_group_that_does_not_run_is_not_ready() -> None:
    assert LoopGroup([IdleLoop()]).ready().reasons == ("the group does not run",)


def test_a_supervisor_that_does_not_look_around_is_not_live(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = FakeClock()
    loop = IdleLoop(clock=clock)
    group = LoopGroup([loop], clock=clock)
    with running(group):
        working(loop)
        assert group._run is not None
        reports = group._run.reports
        clock.wait_for_waiters(1)
        clock.advance(1)
        eventually(lambda: reports.live().ok)
        monkeypatch.setattr(Reports, "tick", lambda self: None)
        clock.advance(31)
        assert "supervisor" in reports.live().reasons[0]


def test_a_notice_begins_the_drain(tmp_path: Any) -> None:
    loop = IdleLoop()
    path = tmp_path / "leave"
    group = LoopGroup([loop], notices=[FileTrigger(path, interval_s=0.01)])
    run = Running(group.run)
    working(loop)
    path.write_text("")
    run.outcome()


@pytest.fixture
def systemd(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The end of systemd, which wants a sign of life every 0.1 s."""
    folder = tempfile.mkdtemp(prefix="afl-")
    path = f"{folder}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind(path)
        end.settimeout(PATIENCE_S)
        monkeypatch.setenv("NOTIFY_SOCKET", path)
        monkeypatch.setenv("WATCHDOG_USEC", "100000")
        monkeypatch.delenv("WATCHDOG_PID", raising=False)
        yield end
    shutil.rmtree(folder)


def test_systemd_is_told_how_the_group_is(systemd: socket.socket) -> None:
    busy = BusyLoop()
    group = LoopGroup([busy])
    run = Running(group.run)
    assert heard_until(systemd, b"READY=1")
    assert heard_until(systemd, b"WATCHDOG=1")
    group.request_stop()
    assert heard_until(systemd, b"STOPPING=1")
    assert heard_until(systemd, b"WATCHDOG=1"), "a long drain is not a hang"
    busy.finish.set()
    run.outcome()


def heard_until(end: socket.socket, message: bytes) -> bool:
    while end.recv(100) != message:
        pass
    return True


# Drain mode


def test_drain_mode_takes_no_work_and_stays_up() -> None:
    loops = [IdleLoop("one"), IdleLoop("two")]
    group = LoopGroup(loops)
    with running(group) as run:
        eventually(lambda: group.ready().ok)
        group.drain()
        eventually(lambda: not any(each.running for each in loops))
        assert group.ready().reasons == ("drain mode: no work is taken",)
        assert (group.phase, group.running) == (Phase.READY, True)
        group.undrain()
        eventually(lambda: group.ready().ok)
        assert all(each.running for each in loops)
        assert [each.runs for each in loops] == [2, 2]
        assert not run.ended(0)


def test_a_group_that_starts_in_drain_mode_starts_no_loop() -> None:
    may_start = threading.Event()
    loop = IdleLoop("loop")
    group = LoopGroup([loop], warmup=[lambda: may_start.wait(PATIENCE_S)])
    with running(group):
        eventually(lambda: group.phase is Phase.WARMUP)
        group.drain()
        may_start.set()
        eventually(lambda: group.phase is Phase.READY)
        assert group.ready().reasons[0] == "drain mode: no work is taken"
        assert loop.runs == 0
        group.undrain()
        eventually(lambda: group.ready().ok)


def test_work_in_hand_is_finished_in_drain_mode_before_work_is_taken_again() -> None:
    busy = BusyLoop()
    group = LoopGroup([busy])
    with running(group):
        working(busy)
        group.drain()
        assert busy.is_asked.wait(PATIENCE_S)
        group.undrain()
        busy.finish.set()
        eventually(lambda: busy.runs == 2)
        assert busy.has_finished


class Slowly(EndingLoop):
    """Tells others before it stops, and may have ended by itself meanwhile."""

    def __init__(self) -> None:
        super().__init__("slowly")
        self.is_asked = threading.Event()
        self.may_stop = threading.Event()
        self.has_stopped = threading.Event()

    def wait(self, stop: threading.Event) -> None:
        if self.runs == 1:
            super().wait(stop)
        else:
            stop.wait(PATIENCE_S)

    def request_stop(self) -> None:
        self.is_asked.set()
        assert self.may_stop.wait(PATIENCE_S)
        super().request_stop()
        self.has_stopped.set()


def ask_too_late() -> None:
    loop = Slowly()
    group = LoopGroup([loop, IdleLoop("other")])
    with running(group):
        working(loop)
        group.drain()
        assert loop.is_asked.wait(PATIENCE_S)
        loop.end.set()
        eventually(lambda: loop.state is LoopState.STOPPED)
        group.undrain()
        is_early = wait_until(lambda: loop.runs == 2, timeout=DOUBT_S)
        loop.may_stop.set()
        assert not is_early, "it rests as long as it is being asked"
        assert loop.has_stopped.wait(PATIENCE_S)
        eventually(lambda: loop.runs == 2)
        assert loop.state is LoopState.RUNNING
        eventually(lambda: group.ready().ok)


def test_a_late_request_of_drain_mode_does_not_end_the_run_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request belongs to the run that it was made for."""
    ask_too_late()
    monkeypatch.setattr(Member, "is_at_rest", property(lambda self: not self.is_alive))
    is_caught(ask_too_late)


def test_a_group_in_drain_mode_can_be_stopped() -> None:
    loop = IdleLoop()
    group = LoopGroup([loop])
    run = Running(group.run)
    working(loop)
    group.drain()
    eventually(lambda: not loop.running)
    assert group.shutdown(timeout=PATIENCE_S) is True
    run.outcome()


@pytest.mark.parametrize("call", [LoopGroup.drain, LoopGroup.undrain])
def test_drain_mode_is_for_groups_that_run(call: Callable[[LoopGroup], None]) -> None:
    with pytest.raises(UsageError, match="does not run"):
        call(LoopGroup([IdleLoop()]))
