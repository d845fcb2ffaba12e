"""Phases: in order, each told once, and no work before ready."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import pytest
from tests.lifecycle.loops import (
    DOUBT_S,
    PATIENCE_S,
    IdleLoop,
    Running,
    eventually,
    is_caught,
    running,
)

from afl import telemetry
from afl.backoff import Backoff
from afl.clock import FakeClock
from afl.runtime.dependencies import Dependency, WarmupStep
from afl.runtime.lifecycle import LoopGroup, Phase
from afl.runtime.lifecycle.group_run import GroupRun
from afl.runtime.phases import Phases

#: Tries again at once, so that nothing waits for a clock.
AT_ONCE = Backoff(initial=0.01, maximum=0.01)


@pytest.fixture
def changes() -> Iterator[list[telemetry.PhaseChanged]]:
    seen: list[telemetry.PhaseChanged] = []

    def hear(event: telemetry.Event) -> None:
        if isinstance(event, telemetry.PhaseChanged):
            seen.append(event)

    end = telemetry.subscribe(hear)
    yield seen
    end()


class Switch:
    """A dependency that is there when the switch is on."""

    def __init__(self, is_on: bool = False) -> None:
        self.is_on = is_on
        self.checks = 0

    def check(self) -> None:
        self.checks += 1
        if not self.is_on:
            raise ConnectionRefusedError("nobody listens")

    def as_dependency(self, name: str = "database") -> Dependency:
        return Dependency(name, self.check, retry=AT_ONCE, interval=0.01)


def answer(group: LoopGroup, path: str) -> tuple[int, Any]:
    address = group.health_address
    assert address is not None
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{address[1]}{path}", timeout=20) as found:
            return found.status, json.loads(found.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


# The walk


def test_phases_go_forward_only_and_tell_once(changes: list[telemetry.PhaseChanged]) -> None:
    clock = FakeClock()
    phases = Phases(clock)
    clock.advance(2)
    assert phases.enter(Phase.READY, "warm") is True
    assert phases.enter(Phase.READY, "again") is False
    assert phases.enter(Phase.WARMUP, "back") is False
    assert (phases.phase, phases.now.reason) == (Phase.READY, "warm")
    (change,) = changes
    assert (change.previous, change.phase) == ("init", "ready")
    assert (change.duration_s, change.reason) == (2.0, "warm")


def test_a_group_walks_through_all_phases(changes: list[telemetry.PhaseChanged]) -> None:
    loop = IdleLoop()
    group = LoopGroup([loop])
    assert group.phase is Phase.INIT
    with running(group):
        assert loop.is_working.wait(PATIENCE_S)
    assert [each.previous for each in changes] == ["init", "warmup", "ready", "drain"]
    assert [each.phase for each in changes] == ["warmup", "ready", "drain", "terminate"]
    assert all(each.reason and each.duration_s >= 0 for each in changes)


# Dependencies


class Receiving(IdleLoop):
    """Takes what waits for it as soon as it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: SimpleQueue[str] = SimpleQueue()
        self.received: list[str] = []

    def wait(self, stop: threading.Event) -> None:
        self.received.append(self.waiting.get())
        super().wait(stop)


def boot_without_its_database() -> None:
    database, loop = Switch(), Receiving()
    loop.waiting.put("work")
    group = LoopGroup(
        [loop],
        dependencies=[database.as_dependency()],
        health_port=0,
        health_host="127.0.0.1",
    )
    with running(group):
        eventually(lambda: database.checks > 3)
        status, body = answer(group, "/health/ready")
        assert (loop.received, loop.waiting.qsize()) == ([], 1), "nothing was received"
        assert (status, body["status"]) == (503, "unhealthy")
        assert body["reasons"] == ["init: database: ConnectionRefusedError: nobody listens"]
        assert answer(group, "/health/startup") == (status, body)
        assert answer(group, "/health/live")[0] == 200
        database.is_on = True
        eventually(lambda: answer(group, "/health/ready")[0] == 200)
        assert answer(group, "/health/startup")[0] == 200
        eventually(lambda: loop.received == ["work"])


def test_a_process_without_its_dependency_is_not_ready_and_takes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An unhealthy dependency at boot: probes fail, no traffic comes, and nothing is received."""
    boot_without_its_database()
    monkeypatch.setattr(GroupRun, "_wait_for_checks", lambda self: None)
    is_caught(boot_without_its_database)


def test_all_missing_dependencies_are_named() -> None:
    one, two = Switch(), Switch()
    group = LoopGroup(
        [IdleLoop()], dependencies=[one.as_dependency("one"), two.as_dependency("two")]
    )
    with running(group):
        eventually(lambda: bool(one.checks and two.checks))
        eventually(lambda: len(group.ready().reasons) == 2)
        assert {each.split(":")[1].strip() for each in group.ready().reasons} == {"one", "two"}


def test_a_dependency_that_is_lost_makes_the_process_unready_until_it_is_back() -> None:
    database, loop = Switch(is_on=True), IdleLoop()
    group = LoopGroup([loop], dependencies=[database.as_dependency()])
    with running(group):
        eventually(lambda: group.ready().ok)
        database.is_on = False
        eventually(lambda: not group.ready().ok)
        assert group.ready().reasons == ("database: ConnectionRefusedError: nobody listens",)
        assert (group.phase, loop.running) == (Phase.READY, True)
        database.is_on = True
        eventually(lambda: group.ready().ok)


def test_the_status_tells_of_dependencies() -> None:
    group = LoopGroup([IdleLoop()], dependencies=[Switch(is_on=True).as_dependency()])
    with running(group):
        eventually(lambda: group.ready().ok)
        assert group.status()["dependencies"] == [{"name": "database", "ok": True, "problem": None}]


def test_a_stop_ends_the_wait_for_a_dependency() -> None:
    database, loop = Switch(), IdleLoop()
    group = LoopGroup([loop], dependencies=[database.as_dependency()])
    run = Running(group.run)
    eventually(lambda: database.checks > 0)
    assert group.shutdown(timeout=PATIENCE_S) is True
    run.outcome()
    assert loop.runs == 0


def test_a_check_that_hangs_does_not_keep_the_process_from_ending() -> None:
    hung = threading.Event()
    is_checking = threading.Event()

    def check() -> None:
        is_checking.set()
        hung.wait(PATIENCE_S)

    group = LoopGroup([IdleLoop()], dependencies=[check])
    run = Running(group.run)
    assert is_checking.wait(PATIENCE_S)
    assert group.shutdown(timeout=PATIENCE_S) is True
    run.outcome()
    hung.set()


# Warmup


def test_warmup_steps_are_done_in_order_after_the_dependencies_and_before_any_loop() -> None:
    done: list[str] = []
    loop = IdleLoop()

    def prefetch_tools() -> None:
        assert loop.runs == 0
        done.append("tools")

    def ping_model() -> None:
        done.append("model")

    def database() -> None:
        if "database" not in done:
            done.append("database")

    group = LoopGroup([loop], dependencies=[database], warmup=[prefetch_tools, ping_model])
    with running(group):
        eventually(lambda: group.ready().ok)
    assert done == ["database", "tools", "model"]


def test_a_warmup_step_that_fails_is_named_and_tried_again() -> None:
    failures = threading.Semaphore(0)
    may_pass = threading.Event()

    def fill_cache() -> None:
        if not may_pass.is_set():
            failures.release()
            raise TimeoutError("too cold")

    loop = IdleLoop()
    group = LoopGroup([loop], warmup=[WarmupStep("cache", fill_cache, retry=AT_ONCE)])
    with running(group):
        for _ in range(3):
            assert failures.acquire(timeout=PATIENCE_S)
        # While it is tried again, it is only not done yet.
        eventually(lambda: group.ready().reasons == ("warmup: cache: TimeoutError: too cold",))
        assert (group.phase, loop.runs) == (Phase.WARMUP, 0)
        may_pass.set()
        eventually(lambda: group.ready().ok)


def test_a_warmup_step_that_passed_is_not_done_again() -> None:
    done: list[int] = []
    clock = FakeClock()
    group = LoopGroup([IdleLoop(clock=clock)], warmup=[lambda: done.append(1)], clock=clock)
    with running(group):
        eventually(lambda: group.ready().ok)
        clock.advance(1000)
        assert not Running(lambda: eventually(lambda: len(done) > 1)).ended(DOUBT_S)
    assert done == [1]


def test_a_dependency_that_is_lost_during_warmup_delays_ready() -> None:
    database, loop = Switch(is_on=True), IdleLoop()

    def warm_up() -> None:
        database.is_on = False
        checks = database.checks
        eventually(lambda: database.checks > checks + 2)

    group = LoopGroup([loop], dependencies=[database.as_dependency()], warmup=[warm_up])
    with running(group):
        eventually(lambda: not database.is_on)
        eventually(lambda: "database" in str(group.ready().reasons))
        assert loop.runs == 0
        database.is_on = True
        eventually(lambda: group.ready().ok)
