"""Servers are listed by whether they are alive, and asked to drain."""

from __future__ import annotations

import pytest
from tests.unit.operations.stage import Stage

from afl.errors import NotFound, UsageError
from afl.operations import fleet
from afl.runtime.entities import HandledCount, MinuteCount, ServerState


def test_servers_that_are_alive_come_first(stage: Stage) -> None:
    stage.server("silent")
    stage.clock.advance(31)
    stage.server("gone", state=ServerState.SHUTDOWN)
    stage.clock.advance(5)
    stage.server("alive")
    listed = fleet.list_servers(stage.store)
    assert [each.server for each in listed] == ["alive", "gone", "silent"]
    assert [each.is_alive for each in listed] == [True, False, False]
    assert [each.beat_age_s for each in listed] == [0.0, 5.0, 36.0]
    assert [each.server for each in fleet.list_servers(stage.store, only_alive=True)] == ["alive"]


def test_a_server_says_what_it_does(stage: Stage) -> None:
    stage.server(
        handled=[HandledCount("t.Ask", 3, 1), HandledCount("t.Tell", 2)],
        in_flight=4,
        version="1.2",
        incidents=[{"kind": "lost", "message": "gone", "time": 1}],
    )
    [listed] = fleet.list_servers(stage.store)
    assert (listed.handled, listed.in_flight, listed.version) == (5, 4, "1.2")
    assert listed.handled_by_facet == {"t.Ask": 3, "t.Tell": 2}
    assert listed.incidents[0]["message"] == "gone"


def test_a_server_is_in_a_phase(stage: Stage) -> None:
    stage.server("begins", state=ServerState.STARTUP)
    stage.server("old", state=ServerState.RUNNING)
    stage.server("drains", state=ServerState.RUNNING, phase="drain")
    stage.server("lost", state=ServerState.ERROR, phase="ready")
    phases = {each.server: each.phase for each in fleet.list_servers(stage.store)}
    assert phases == {"begins": "init", "old": "ready", "drains": "drain", "lost": "terminate"}


def test_a_server_that_does_no_tasks_cannot_drain(stage: Stage) -> None:
    with pytest.raises(UsageError, match="does no tasks, so it cannot drain; stop its process"):
        fleet.drain(stage.store, stage.server(task_list=""))


def test_a_server_is_drained_and_let_work_again(stage: Stage) -> None:
    server = stage.server()
    fleet.drain(stage.store, server)
    assert fleet.list_servers(stage.store)[0].wanted == "drain"
    fleet.undrain(stage.store, server)
    assert fleet.list_servers(stage.store)[0].wanted == ""


def test_a_server_that_would_never_answer_is_not_asked(stage: Stage) -> None:
    over = stage.server("over", state=ServerState.SHUTDOWN)
    with pytest.raises(UsageError, match="in state shutdown; only a server that is alive"):
        fleet.drain(stage.store, over)
    silent = stage.server("silent")
    stage.clock.advance(60)
    with pytest.raises(UsageError, match="silent for 60 s"):
        fleet.drain(stage.store, silent)


def test_a_server_that_vanished_is_said(stage: Stage) -> None:
    server = stage.server()
    server.uuid = "nobody"
    with pytest.raises(NotFound, match="Server nobody not found"):
        fleet.undrain(stage.store, server)


def test_a_server_is_judged_by_how_often_it_says_that_it_beats(stage: Stage) -> None:
    stage.server("slow", beat_ms=60_000)
    stage.server("quick", beat_ms=1_000)
    stage.server("silent about it")
    stage.clock.advance(20)
    alive = fleet.list_servers(stage.store, only_alive=True)
    assert [each.server for each in alive] == ["silent about it", "slow"]
    assert [each.beat_s for each in alive] == [10.0, 60.0]


def test_throughput_is_what_all_servers_finished_minute_by_minute(stage: Stage) -> None:
    now = stage.store.now_ms()
    this = now - now % 60_000
    old = MinuteCount(this - 60 * 60_000, 99)
    stage.server("one", finished=[old, MinuteCount(this - 60_000, 3, 1), MinuteCount(this, 2)])
    stage.server("two", finished=[MinuteCount(this, 5)], in_flight=4)
    stage.server("over", state=ServerState.SHUTDOWN, finished=[MinuteCount(this, 1)], in_flight=9)
    seen = fleet.fleet(stage.store)
    assert (len(seen.servers), seen.alive, seen.in_flight) == (3, 2, 4)
    assert len(seen.throughput) == 60
    assert [(each.handled, each.failed) for each in seen.throughput[-3:]] == [
        (0, 0),
        (3, 1),
        (8, 0),
    ]
    assert sum(each.handled for each in seen.throughput) == 11


def test_servers_that_were_silent_for_long_are_forgotten(stage: Stage) -> None:
    for number in range(103):
        stage.server(f"old-{number}")
    stage.clock.advance(3601)
    stage.server("new")
    assert fleet.prune_servers(stage.store, "1h") == 103
    assert [each.server for each in fleet.list_servers(stage.store)] == ["new"]
    assert fleet.prune_servers(stage.store, "1h") == 0
