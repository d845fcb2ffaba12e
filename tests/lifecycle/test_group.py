"""Groups: loops that start, fail and end together, and start clean the next time."""

from __future__ import annotations

import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.lifecycle.loops import (
    DOUBT_S,
    PATIENCE_S,
    BusyLoop,
    EndingLoop,
    FailingLoop,
    IdleLoop,
    PlainLoop,
    Running,
    eventually,
    is_caught,
    running,
)

from afl import telemetry
from afl.clock import FakeClock
from afl.errors import ConfigurationError, UsageError
from afl.runtime import FileTrigger
from afl.runtime.lifecycle import (
    LoopGroup,
    LoopState,
    Phase,
    ShutdownCoordinator,
    group_run,
    members,
    reports,
    wait_until,
)
from afl.runtime.lifecycle.group_run import GroupRun
from afl.runtime.lifecycle.members import Member
from afl.runtime.lifecycle.reports import Reports


def working(*loops: IdleLoop) -> None:
    for loop in loops:
        assert loop.is_working.wait(PATIENCE_S)


# Running


def test_every_loop_runs_on_a_thread_of_its_own() -> None:
    names: set[str] = set()

    class Named(IdleLoop):
        def wait(self, stop: threading.Event) -> None:
            names.add(threading.current_thread().name)
            super().wait(stop)

    loops = [Named("one"), Named("two")]
    with running(LoopGroup(loops)):
        working(*loops)
    assert names == {"loop-worker-one", "loop-worker-two"}


def test_loops_get_the_options_that_they_take() -> None:
    loop = IdleLoop()
    plain: Any = PlainLoop()
    with running(LoopGroup([loop, plain]), visibility_timeout=900, wait_time_seconds=7):
        working(loop)
        assert plain.is_working.wait(PATIENCE_S)
        assert loop.options["visibility_timeout"] == 900
        assert loop.options["wait_time_seconds"] == 7


def test_a_group_has_its_own_defaults() -> None:
    loop = IdleLoop()
    with running(LoopGroup([loop])):
        working(loop)
        assert loop.options["visibility_timeout"] == 1800
        assert loop.options["wait_time_seconds"] == 30


class Late(LoopGroup):
    """The mistake: that there is nothing to run is seen when the signals are taken already."""

    def __init__(self, loops: Any) -> None:
        self.loops = tuple(loops)

    def run(self, **_options: Any) -> None:
        ShutdownCoordinator.install()
        raise UsageError("give it at least one loop")


def run_an_empty_group(kind: type[LoopGroup]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(UsageError, match="at least one"):
            kind(loops=[]).run()
        assert signal.getsignal(signal.SIGTERM) is before
    finally:
        ShutdownCoordinator.reset()


def test_a_group_needs_a_loop() -> None:
    """An empty group must fail before it has taken a signal or a port."""
    run_an_empty_group(LoopGroup)
    is_caught(lambda: run_an_empty_group(Late))


def test_a_group_ends_when_all_its_loops_have() -> None:
    loops = [EndingLoop("one"), EndingLoop("two")]
    group = LoopGroup(loops)
    run = Running(group.run)
    working(*loops)
    loops[0].end.set()
    assert not run.ended(DOUBT_S)
    loops[1].end.set()
    run.outcome()
    assert group.phase is Phase.TERMINATE


def test_a_group_runs_once_at_a_time() -> None:
    loop = IdleLoop()
    group = LoopGroup([loop])
    with running(group):
        working(loop)
        with pytest.raises(UsageError, match="running already"):
            group.run()


def test_two_loops_of_one_name_are_told_apart() -> None:
    group = LoopGroup([IdleLoop("same"), IdleLoop("same")])
    with running(group):
        eventually(lambda: group.ready().ok)
        assert [each["name"] for each in group.status()["loops"]] == ["same", "same-1"]


# Stopping


def test_a_stop_reaches_all_loops() -> None:
    loops = [IdleLoop(str(number)) for number in range(8)]
    group = LoopGroup(loops)
    run = Running(group.run)
    working(*loops)
    assert group.shutdown(timeout=PATIENCE_S) is True
    run.outcome()
    assert not any(each.running for each in loops)
    assert group.abandoned == ()


def test_a_loop_with_no_more_than_the_protocol_can_be_stopped() -> None:
    plain: Any = PlainLoop()
    group = LoopGroup([plain])
    run = Running(group.run)
    assert plain.is_working.wait(PATIENCE_S)
    assert group.shutdown(timeout=PATIENCE_S) is True
    run.outcome()


def test_loops_that_were_started_without_the_group_are_stopped_too() -> None:
    loops: list[Any] = [IdleLoop(), PlainLoop()]
    runs = [Running(each.run) for each in loops]
    for each in loops:
        assert each.is_working.wait(PATIENCE_S)
    with LoopGroup(loops):
        pass
    for run in runs:
        run.outcome()
    assert not any(each.running for each in loops)


def test_a_loop_that_does_not_end_is_no_success_whoever_started_it() -> None:
    busy, idle = BusyLoop(), IdleLoop()
    runs = [Running(busy.run), Running(idle.run)]
    working(busy, idle)
    group = LoopGroup([busy, idle])
    assert group.shutdown(timeout=0) is False
    busy.finish.set()
    assert group.shutdown(timeout=PATIENCE_S) is True
    for run in runs:
        run.outcome()


class Clearing(PlainLoop):
    """Clears what was asked before it began, as loops of others do."""

    def __init__(self) -> None:
        super().__init__()
        self.may_clear = threading.Event()
        self.is_entered = threading.Event()

    def run(self, *, max_iterations: int | None = None) -> None:
        self.is_entered.set()
        assert self.may_clear.wait(PATIENCE_S)
        self._stop.clear()
        super().run()


def test_a_loop_that_loses_its_stop_while_it_starts_is_asked_again() -> None:
    loop: Any = Clearing()
    group = LoopGroup([loop])
    run = Running(group.run)
    assert loop.is_entered.wait(PATIENCE_S)
    stopping = Running(lambda: group.shutdown(timeout=PATIENCE_S))
    assert not stopping.ended(DOUBT_S)
    loop.may_clear.set()
    assert stopping.outcome() is True
    run.outcome()


def test_a_stop_before_the_start_is_honoured() -> None:
    loop = IdleLoop()
    group = LoopGroup([loop])
    assert group.shutdown(timeout=0) is True
    run = Running(group.run)
    run.outcome()
    assert loop.runs == 0


class Recovering(IdleLoop):
    """Fails in its first run and is fine in the next."""

    def wait(self, stop: threading.Event) -> None:
        if self.runs == 1:
            raise RuntimeError("not yet")


def run_again_after_a_failure() -> None:
    loop = Recovering()
    group = LoopGroup([loop])
    with pytest.raises(ExceptionGroup):
        Running(group.run).outcome()
    Running(group.run).outcome()
    assert loop.runs == 2


def test_what_one_run_left_behind_does_not_come_up_in_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An old failure that is raised again makes a group that can run only once."""
    run_again_after_a_failure()
    kept: list[Member] = []

    def keep(loops: Any, on_end: Any) -> list[Member]:
        kept.extend([] if kept else members.members_of(loops, on_end))
        return kept

    monkeypatch.setattr(group_run, "members_of", keep)
    is_caught(run_again_after_a_failure)


def test_a_loop_may_stop_its_group() -> None:
    class Ending(IdleLoop):
        answer: bool | None = None

        def wait(self, stop: threading.Event) -> None:
            self.answer = group.shutdown(timeout=PATIENCE_S)
            super().wait(stop)

    loop = Ending()
    group = LoopGroup([loop, IdleLoop()])
    Running(group.run).outcome()
    assert loop.answer is False, "asked, without waiting for itself"


def test_leaving_the_block_stops_the_group() -> None:
    loop = IdleLoop()
    with LoopGroup([loop]) as group:
        run = Running(group.run)
        working(loop)
    run.outcome()
    assert not group.running


# Failing


def fail_one_of_two(stops_others: bool = True) -> None:
    failing, healthy = FailingLoop("failing"), IdleLoop("healthy")
    group = LoopGroup([healthy, failing])
    run = Running(group.run)
    working(failing, healthy)
    failing.fail.set()
    try:
        assert run.ended(PATIENCE_S if stops_others else DOUBT_S)
    finally:
        group.shutdown(timeout=PATIENCE_S)
    assert isinstance(run.error, ExceptionGroup)
    assert run.error.exceptions == (failing.error,)
    assert failing.error.__notes__ == ["in the loop failing"]


def test_a_loop_that_dies_stops_the_others_and_is_raised() -> None:
    """Whichever loop it is, and however healthy the others are."""
    fail_one_of_two()


def test_a_group_that_looks_only_at_its_first_loop_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def first_only(self: GroupRun) -> bool:
        return not self.members[0].is_alive

    monkeypatch.setattr(GroupRun, "_has_reason_to_stop", first_only)
    is_caught(lambda: fail_one_of_two(stops_others=False))


def test_all_failures_come_out_together() -> None:
    first = FailingLoop("first", error=ValueError("one"))
    second = FailingLoop("second", error=KeyError("two"))
    run = Running(LoopGroup([first, second]).run)
    working(first, second)
    first.fail.set()
    second.fail.set()
    with pytest.raises(ExceptionGroup, match="2 of 2 loops failed") as caught:
        run.outcome()
    assert set(caught.value.exceptions) == {first.error, second.error}


def test_a_loop_that_wants_to_exit_is_a_failure_too() -> None:
    failing = FailingLoop(error=SystemExit(3))
    run = Running(LoopGroup([failing, IdleLoop()]).run)
    working(failing)
    failing.fail.set()
    with pytest.raises(BaseExceptionGroup) as caught:
        run.outcome()
    assert caught.value.exceptions == (failing.error,)


def test_a_failure_is_an_event_and_the_reason_of_the_drain() -> None:
    events: list[telemetry.Event] = []
    end = telemetry.subscribe(events.append)
    failing = FailingLoop("failing")
    run = Running(LoopGroup([failing]).run)
    failing.fail.set()
    run.ended()
    end()
    (failed,) = [each for each in events if isinstance(each, telemetry.LoopFailed)]
    assert (failed.loop, failed.error) == ("failing", "RuntimeError('out of luck')")
    (drain,) = [
        each
        for each in events
        if isinstance(each, telemetry.PhaseChanged) and each.phase == Phase.DRAIN
    ]
    assert "failing failed" in drain.reason


# What is opened is closed


@pytest.fixture
def taken_port() -> Any:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def start_without_a_port(taken_port: int) -> None:
    before = set(threading.enumerate())
    loop = IdleLoop()
    group = LoopGroup([loop], health_port=taken_port, health_host="127.0.0.1")
    handler = signal.getsignal(signal.SIGTERM)
    with pytest.raises(ConfigurationError, match=str(taken_port)):
        group.run()
    assert loop.runs == 0
    assert signal.getsignal(signal.SIGTERM) is handler
    left = {each.name for each in set(threading.enumerate()) - before if each.is_alive()}
    assert "watchdog" not in left


def test_a_port_that_is_taken_leaves_nothing_behind(
    taken_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watchdog that outlives a failed start would kill the process minutes later."""
    start_without_a_port(taken_port)
    make = GroupRun._make_watchdog
    started: list[Any] = []

    def start_early(self: GroupRun) -> Any:
        watchdog = make(self)
        assert watchdog is not None
        watchdog.start()
        started.append(watchdog)
        return watchdog

    monkeypatch.setattr(GroupRun, "_make_watchdog", start_early)
    is_caught(lambda: start_without_a_port(taken_port))
    started[0].stop()


class Unwatchable:
    """A notice that cannot be watched for."""

    def start(self, on_notice: Callable[[str], None]) -> None:
        raise RuntimeError("no such service")

    def stop(self) -> None:
        pass


def fail_half_way_through_the_start(file: Path) -> None:
    loop = IdleLoop()
    group = LoopGroup(
        [loop],
        notices=[FileTrigger(file), Unwatchable()],
        health_port=0,
        health_host="127.0.0.1",
    )
    handler = signal.getsignal(signal.SIGTERM)
    with pytest.raises(RuntimeError, match="no such service"):
        group.run()
    assert loop.runs == 0
    assert signal.getsignal(signal.SIGTERM) is handler
    assert group.health_address is None
    assert not group.running


def test_a_start_that_fails_half_way_closes_what_it_had_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Probes that are still answered would tell of a process that does nothing."""
    fail_half_way_through_the_start(tmp_path / "stop")
    serve = GroupRun._serve_health
    with ExitStack() as later:
        monkeypatch.setattr(GroupRun, "_serve_health", lambda self, _stack: serve(self, later))
        is_caught(lambda: fail_half_way_through_the_start(tmp_path / "stop"))


def run_three_times() -> None:
    coordinator = ShutdownCoordinator()
    loop = EndingLoop()
    loop.end.set()
    group = LoopGroup([loop])
    ShutdownCoordinator._instance = coordinator
    try:
        for _ in range(3):
            Running(group.run).outcome()
        assert coordinator._entries == ()
    finally:
        ShutdownCoordinator._instance = None


def test_a_group_leaves_the_coordinator_as_it_found_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that stays registered would be stopped again with the next one."""
    run_three_times()
    monkeypatch.setattr(ShutdownCoordinator, "unregister", lambda self, callback: None)
    is_caught(run_three_times)


def test_a_coordinator_that_was_triggered_before_keeps_loops_from_starting() -> None:
    coordinator = ShutdownCoordinator()
    coordinator.trigger()
    loop = IdleLoop()
    ShutdownCoordinator._instance = coordinator
    try:
        Running(LoopGroup([loop]).run).outcome()
    finally:
        ShutdownCoordinator._instance = None
    assert loop.runs == 0


def run_off_the_main_thread() -> None:
    loop = IdleLoop()
    group = LoopGroup([loop])
    run = Running(lambda: group.run(install_signals=True))
    working(loop)
    assert ShutdownCoordinator.get() is None
    assert group.shutdown(timeout=PATIENCE_S)
    run.outcome()


def test_a_group_runs_off_the_main_thread_without_signals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Handlers cannot be set there, and that is no reason not to run."""
    run_off_the_main_thread()

    def insist(_on_replaced: Any, _clock: Any) -> Any:
        return ShutdownCoordinator.install()

    monkeypatch.setattr(ShutdownCoordinator, "borrow", insist)
    is_caught(lambda: Running(LoopGroup([IdleLoop()]).run).outcome())


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
