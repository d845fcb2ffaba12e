"""Groups: loops that start, fail and end together, and start clean the next time."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable
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
    working,
)

from afl import telemetry
from afl.errors import ConfigurationError, UsageError
from afl.runtime import FileTrigger
from afl.runtime.lifecycle import (
    LoopGroup,
    Phase,
    ShutdownCoordinator,
    group_run,
    members,
)
from afl.runtime.lifecycle.group_run import GroupRun
from afl.runtime.lifecycle.members import Member

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
