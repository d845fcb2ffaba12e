"""What others see of a worker process, from its start to its end, and after one that had none."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from afl import telemetry
from afl.clock import FakeClock
from afl.errors import StoreUnavailable
from afl.runtime.entities import HandledCount, ServerDefinition, ServerState
from afl.runtime.fleet import (
    HandledCounts,
    ServerRecord,
    is_alive,
    new_server,
    own_addresses,
)
from afl.runtime.lifecycle import wait_until
from afl.runtime.memory_store import MemoryStore
from afl.runtime.metrics import SERVERS_LOST, Metrics
from afl.telemetry import ServerLost

INTERVAL_S = 10.0
PATIENCE_S = 20.0


class Port(MemoryStore):
    """A store that can be out of reach, and tells which states were written."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.is_out = False
        self.states: list[str] = []
        self.beats = 0

    def beat_server(self, server: ServerDefinition) -> str:
        if self.is_out:
            raise StoreUnavailable("the store is out of reach")
        wanted = super().beat_server(server)
        self.beats += 1
        if self.states[-1:] != [server.state]:
            self.states.append(server.state)
        return wanted


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> Iterator[Port]:
    store = Port(clock)
    yield store
    store.close()


def server_of(uuid: str = "s1", **changes: Any) -> ServerDefinition:
    made = new_server(
        uuid, group="g", service="packer", name="host-1", task_list="default", topics=["a.*"]
    )
    return replace(made, **changes)


def record_of(
    store: MemoryStore, clock: FakeClock, interval_s: float = INTERVAL_S, **options: Any
) -> ServerRecord:
    server = options.pop("server", None) or server_of()
    options.setdefault("measure", lambda server: None)
    options.setdefault("on_wanted", lambda wanted: None)
    return ServerRecord(store, server, interval_s, clock=clock, **options)


@contextmanager
def heard() -> Iterator[list[ServerLost]]:
    found: list[ServerLost] = []

    def hear(event: telemetry.Event) -> None:
        if isinstance(event, ServerLost):
            found.append(event)

    unsubscribe = telemetry.subscribe(hear)
    try:
        yield found
    finally:
        unsubscribe()


def eventually(condition: Any) -> None:
    assert wait_until(condition, timeout=PATIENCE_S, poll_interval=0.005)


def stored(store: MemoryStore, server_id: str = "s1") -> ServerDefinition:
    server = store.get_server(server_id)
    assert server is not None
    return server


def test_a_server_goes_from_startup_over_running_to_shutdown(store: Port, clock: FakeClock) -> None:
    record = record_of(store, clock)
    with record.on_duty():
        record.is_running()
        assert stored(store).state == ServerState.RUNNING
        assert stored(store).start_time == store.now_ms()
    assert store.states == [ServerState.STARTUP, ServerState.RUNNING, ServerState.SHUTDOWN]


def test_a_server_that_fails_says_why(store: Port, clock: FakeClock) -> None:
    with pytest.raises(ValueError, match="out of paper"), record_of(store, clock).on_duty():
        raise ValueError("out of paper")
    server = stored(store)
    assert server.state == ServerState.ERROR
    assert server.error == {"message": "out of paper", "type": "ValueError"}


def test_a_stop_from_the_keyboard_is_no_failure(store: Port, clock: FakeClock) -> None:
    with pytest.raises(KeyboardInterrupt), record_of(store, clock).on_duty():
        raise KeyboardInterrupt
    assert stored(store).state == ServerState.SHUTDOWN


def test_a_server_can_begin_again(store: Port, clock: FakeClock) -> None:
    record = record_of(store, clock)
    with pytest.raises(ValueError, match="first"), record.on_duty():
        raise ValueError("first")
    with record.on_duty():
        assert stored(store).error is None
        assert stored(store).state == ServerState.STARTUP
    assert stored(store).state == ServerState.SHUTDOWN


def test_it_says_where_it_is(store: Port, clock: FakeClock) -> None:
    with record_of(store, clock).on_duty():
        server = stored(store)
    assert server.pid == os.getpid()
    assert server.host
    assert server.version
    assert server.server_ips == own_addresses() != []
    assert server.topics == ["a.*"]


def test_each_beat_tells_how_it_stands_and_hears_what_is_wanted(
    store: Port, clock: FakeClock
) -> None:
    wanted: list[str] = []
    counts = HandledCounts()

    def measure(server: ServerDefinition) -> None:
        server.handled = counts.all()

    record = record_of(store, clock, measure=measure, on_wanted=wanted.append)
    with record.on_duty():
        counts.add("a.B", is_handled=True)
        assert store.ask_server("s1", "drain")
        eventually(lambda: "drain" in wanted)
        clock.wait_for_waiters(1)
        clock.advance(INTERVAL_S)
        eventually(lambda: stored(store).ping_time == store.now_ms())
        server = stored(store)
        assert server.handled == [HandledCount("a.B", 1, 0)]
        assert server.wanted == "drain"


def test_what_is_asked_is_heard_before_the_next_beat(store: Port, clock: FakeClock) -> None:
    wanted: list[str] = []
    with record_of(store, clock, on_wanted=wanted.append).on_duty():
        clock.wait_for_waiters(1)
        before = store.beats
        assert store.ask_server("s1", "")  # as it is wanted already: no reason to beat
        assert store.ask_server("s1", "drain")
        eventually(lambda: wanted[-1] == "drain")
        assert store.ask_server("s1", "")
        eventually(lambda: wanted[-1] == "")
        assert store.beats == before + 2


def test_who_cannot_hear_what_is_asked_hears_of_it_with_the_next_beat(
    store: Port, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Any:
        raise StoreUnavailable("the store is out of reach")

    wanted: list[str] = []
    monkeypatch.setattr(store, "attend_server", refuse)
    with record_of(store, clock, on_wanted=wanted.append).on_duty():
        assert store.ask_server("s1", "drain")
        clock.wait_for_waiters(1)
        assert "drain" not in wanted
        clock.advance(INTERVAL_S)
        eventually(lambda: wanted[-1] == "drain")


def test_news_are_told_before_the_next_beat(store: Port, clock: FakeClock) -> None:
    record = record_of(store, clock)
    with record.on_duty():
        before = store.beats
        record.tell_soon()
        eventually(lambda: store.beats > before)


def test_an_outage_ends_nothing_and_what_was_not_told_is_told_later(
    store: Port, clock: FakeClock
) -> None:
    store.is_out = True
    record = record_of(store, clock)
    with record.on_duty():
        record.is_running()
        assert store.get_server("s1") is None
        store.is_out = False
        clock.wait_for_waiters(1)
        clock.advance(INTERVAL_S)
        eventually(lambda: store.get_server("s1") is not None)
        assert stored(store).state == ServerState.RUNNING


def test_a_mistake_in_what_is_measured_ends_no_beats(store: Port, clock: FakeClock) -> None:
    is_broken = True

    def measure(server: ServerDefinition) -> None:
        if is_broken:
            raise ValueError("a defect")

    record = record_of(store, clock, measure=measure)
    with record.on_duty():
        clock.wait_for_waiters(1)
        is_broken = False
        clock.advance(INTERVAL_S)
        eventually(lambda: store.get_server("s1") is not None)


def test_counts_are_exact_whoever_counts() -> None:
    counts = HandledCounts()

    def count() -> None:
        for _ in range(500):
            counts.add("a.B", is_handled=True)
            counts.add("a.B", is_handled=False)

    threads = [threading.Thread(target=count) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert counts.all() == [HandledCount("a.B", 4000, 4000)]


# Predecessors


@pytest.fixture
def gone() -> int:
    """The id of a process that has ended."""
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


def begin_beside(store: Port, clock: FakeClock, lost: ServerDefinition) -> list[ServerLost]:
    """What is reported when a server begins where `lost` is."""
    store.save_server(lost)
    with heard() as found, record_of(store, clock).on_duty():
        clock.wait_for_waiters(1)
    return found


def test_a_predecessor_whose_process_is_gone_is_reported_once(
    store: Port, clock: FakeClock, gone: int
) -> None:
    lost = server_of("s0", pid=gone, state=ServerState.RUNNING, ping_time=store.now_ms())
    [event] = begin_beside(store, clock, lost)
    assert (event.server, event.service, event.pid) == ("s0", "packer", gone)
    server = stored(store, "s0")
    assert server.state == ServerState.ERROR
    [incident] = server.incidents
    assert incident["kind"] == "lost"
    assert f"its process {gone} on {server.host} is gone" in incident["message"]

    with heard() as again, record_of(store, clock, server=server_of("s2")).on_duty():
        clock.wait_for_waiters(1)
    assert again == []


def test_a_predecessor_that_is_silent_is_reported(store: Port, clock: FakeClock) -> None:
    lost = server_of("s0", host="elsewhere", state=ServerState.RUNNING, ping_time=store.now_ms())
    clock.advance(3 * INTERVAL_S + 1)
    [event] = begin_beside(store, clock, lost)
    assert event.reason == "it has been silent for 31s"


def test_a_predecessor_that_falls_silent_later_is_reported_then(
    store: Port, clock: FakeClock
) -> None:
    lost = server_of("s0", host="elsewhere", state=ServerState.RUNNING, ping_time=store.now_ms())
    store.save_server(lost)
    with heard() as found, record_of(store, clock).on_duty():
        for _ in range(4):
            clock.wait_for_waiters(1)
            assert not found
            before = store.beats
            clock.advance(INTERVAL_S)
            eventually(lambda before=before: store.beats > before)
        eventually(lambda: bool(found))


def test_a_server_that_beats_seldom_is_not_silent_before_it_says_so(
    store: Port, clock: FakeClock
) -> None:
    """Neither at the first look, nor at the second one."""
    seldom = server_of("s0", host="elsewhere", state=ServerState.RUNNING, beat_ms=60_000)
    store.save_server(replace(seldom, ping_time=store.now_ms()))
    clock.advance(100)
    with heard() as found, record_of(store, clock, interval_s=20.0).on_duty():
        for beat in range(1, 11):
            assert found == [], f"before beat {beat}"
            clock.wait_for_waiters(1)
            before = store.beats
            clock.advance(20.0)
            eventually(lambda before=before: store.beats > before)
        eventually(lambda: bool(found))
    assert found[0].reason == "it has been silent for 5m"


def test_a_server_that_beats_often_is_missed_soon(store: Port, clock: FakeClock) -> None:
    often = server_of("s0", host="elsewhere", state=ServerState.RUNNING, beat_ms=1_000)
    store.save_server(replace(often, ping_time=store.now_ms()))
    clock.advance(4)
    with heard() as found, record_of(store, clock).on_duty():
        clock.wait_for_waiters(1)
    assert [each.reason for each in found] == ["it has been silent for 4s"]


def test_news_do_not_bring_the_second_look_forward(store: Port, clock: FakeClock) -> None:
    lost = server_of("s0", host="elsewhere", state=ServerState.RUNNING, ping_time=store.now_ms())
    store.save_server(lost)
    record = record_of(store, clock)
    with heard() as found, record.on_duty():
        for _ in range(5):
            clock.wait_for_waiters(1)
            before = store.beats
            record.tell_soon()
            eventually(lambda before=before: store.beats > before)
        clock.wait_for_waiters(1)
        clock.advance(4 * INTERVAL_S)
        eventually(lambda: bool(found))


@pytest.mark.parametrize(
    "changes",
    [
        {"state": ServerState.SHUTDOWN},
        {"state": ServerState.ERROR},
        {"service_name": "another"},
        {"server_name": "host-2"},
        {"server_group": "another"},
        {"pid": os.getppid()},
        {"host": "elsewhere"},
        {"manager": "another container"},
        {"manager": "another container", "pid": os.getpid()},
        {"manager": "", "pid": os.getpid()},
    ],
    ids=" ".join,
)
def test_others_are_left_alone(
    store: Port, clock: FakeClock, gone: int, changes: dict[str, Any]
) -> None:
    standing = {"pid": gone, "state": ServerState.RUNNING, "ping_time": store.now_ms()}
    lost = server_of("s0", **{**standing, **changes})
    assert begin_beside(store, clock, lost) == []
    assert stored(store, "s0") == lost


def test_two_servers_of_one_process_do_not_report_each_other(store: Port, clock: FakeClock) -> None:
    other = record_of(store, clock, server=server_of("s0"))
    with heard() as found, other.on_duty(), record_of(store, clock).on_duty():
        clock.wait_for_waiters(2)
    assert found == []


def test_a_process_with_the_id_of_its_predecessor_reports_it(store: Port, clock: FakeClock) -> None:
    """As ids come round."""
    lost = server_of("s0", state=ServerState.RUNNING, ping_time=store.now_ms())
    assert len(begin_beside(store, clock, lost)) == 1


def test_servers_that_were_lost_are_counted() -> None:
    metrics = Metrics()
    event = ServerLost(
        at=FakeClock().now(), server="s0", service="packer", host="h", pid=1, reason="gone"
    )
    metrics.hear(event)
    assert f'{SERVERS_LOST.name}{{service="packer"}} 1' in metrics.render()


def test_who_is_alive() -> None:
    server = server_of(state=ServerState.RUNNING, ping_time=1000)
    assert is_alive(server, 31_000, INTERVAL_S)
    assert not is_alive(server, 31_001, INTERVAL_S)
    assert not is_alive(replace(server, state=ServerState.SHUTDOWN), 1000, INTERVAL_S)
