"""What workers say about themselves and are told, and how they hear of registrations."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from afl.clock import FakeClock
from afl.runtime.entities import (
    HandledCount,
    HandlerRegistration,
    Isolation,
    MinuteCount,
    OnLost,
    ServerDefinition,
    ServerState,
)
from afl.runtime.persistence import PersistenceAPI
from afl.testing.contracts.store.exam import Background, StoreExam

INCIDENT = {"kind": "lost", "message": "it ended without a word", "time": 5}


def _server(uuid: str = "one", **fields: Any) -> ServerDefinition:
    given = {"state": ServerState.RUNNING, **fields}
    return ServerDefinition(uuid, "default", "afl-agent", "host", **given)


def _handled(handled: int, not_handled: int = 0) -> list[HandledCount]:
    """In all, of two handlers."""
    return [HandledCount("shop.Pay", handled - 1, not_handled), HandledCount("shop.Ship", 1)]


def _read(store: PersistenceAPI, uuid: str = "one") -> ServerDefinition:
    server = store.get_server(uuid)
    assert server is not None
    return server


class FleetContract(StoreExam):
    # Beats

    def test_a_beat_saves_how_a_server_stands_with_the_time_of_the_store(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        store.save_server(_server(ping_time=1))
        clock.advance(10)
        standing = _server(
            ping_time=7, handled=[HandledCount("shop.Pay", 3)], in_flight=2, http_port=8080
        )
        assert store.beat_server(standing) == ""
        now = store.now_ms()
        finished = [MinuteCount(now - now % 60_000, 3)]
        assert _read(store) == replace(standing, ping_time=now, finished=finished)

    def test_what_a_server_finished_is_counted_by_minutes(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        start = store.now_ms() - store.now_ms() % 60_000
        store.beat_server(_server(handled=_handled(2)))
        clock.advance(20)
        store.beat_server(_server(handled=_handled(5, 1)))
        clock.advance(60)
        store.beat_server(_server(handled=_handled(5, 1)))
        store.beat_server(_server(handled=_handled(9, 1)))
        assert _read(store).finished == [MinuteCount(start, 5, 1), MinuteCount(start + 60_000, 4)]

    def test_counts_that_begin_anew_are_counted_anew(self, store: PersistenceAPI) -> None:
        store.beat_server(_server(handled=_handled(7)))
        store.beat_server(_server(handled=_handled(2)))
        assert [each.handled for each in _read(store).finished] == [9]

    def test_minutes_of_more_than_an_hour_ago_are_forgotten(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        store.beat_server(_server(handled=_handled(1)))
        clock.advance(3540)
        store.beat_server(_server(handled=_handled(2)))
        assert len(_read(store).finished) == 2
        clock.advance(60)
        store.beat_server(_server(handled=_handled(2)))
        assert len(_read(store).finished) == 1

    # Pruning

    def test_servers_that_were_not_heard_of_for_long_are_removed(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        for name in ("old", "older"):
            store.beat_server(_server(name, state=ServerState.SHUTDOWN))
        store.beat_server(_server("silent"))
        clock.advance(10)
        store.beat_server(_server("new", state=ServerState.ERROR))
        assert store.prune_servers(10_000) == 0
        clock.advance(0.001)
        assert store.prune_servers(10_000, limit=2) == 2
        assert store.prune_servers(10_000) == 1
        assert [each.uuid for each in store.get_all_servers()] == ["new"]

    def test_a_beat_writes_a_record_that_vanished_again(self, store: PersistenceAPI) -> None:
        assert store.beat_server(_server(wanted="drain")) == "drain"
        assert _read(store) == _server(wanted="drain", ping_time=store.now_ms())

    def test_a_beat_tells_what_is_wanted_and_leaves_it(self, store: PersistenceAPI) -> None:
        store.save_server(_server())
        store.save_server(_server("two"))
        assert store.ask_server("one", "drain") is True
        assert store.beat_server(_server()) == "drain"
        assert store.beat_server(_server(wanted="drain")) == "drain"
        assert store.beat_server(_server("two")) == ""
        assert store.ask_server("one", "") is True
        assert store.beat_server(_server(wanted="drain")) == ""

    def test_nothing_is_asked_of_a_server_that_is_not_there(self, store: PersistenceAPI) -> None:
        assert store.ask_server("one", "drain") is False
        assert store.get_all_servers() == []

    # Being asked

    def test_who_attends_hears_of_what_is_asked(self, store: PersistenceAPI) -> None:
        store.save_server(_server())
        for wanted in ("drain", ""):
            told = threading.Event()
            end = store.attend_server("one", told.set)
            listener = self.begin(told.wait)
            assert store.ask_server("one", wanted) is True
            assert listener.answer() is True
            assert _read(store).wanted == wanted
            end()

    def test_who_attends_no_more_hears_nothing(self, store: PersistenceAPI) -> None:
        store.save_server(_server())
        heard: list[str] = []
        store.attend_server("one", lambda: heard.append("gone"))()
        told = threading.Event()
        end = store.attend_server("one", told.set)
        heard.clear()
        store.ask_server("one", "drain")
        assert self.begin(told.wait).answer() is True
        assert heard == []
        end()

    # Incidents

    def test_an_incident_ends_a_server_with_its_reason(self, store: PersistenceAPI) -> None:
        store.save_server(_server(in_flight=3))
        assert store.report_incident("one", INCIDENT) is True
        assert _read(store) == _server(
            in_flight=3, state=ServerState.ERROR, error=INCIDENT, incidents=[INCIDENT]
        )

    @pytest.mark.parametrize("state", [ServerState.SHUTDOWN, ServerState.ERROR])
    def test_an_end_that_is_known_is_not_reported(
        self, store: PersistenceAPI, state: ServerState
    ) -> None:
        store.save_server(_server(state=state))
        assert store.report_incident("one", INCIDENT) is False
        assert store.report_incident("nobody", INCIDENT) is False
        assert store.get_all_servers() == [_server(state=state)]

    def test_of_many_who_report_one_is_believed(self, store: PersistenceAPI) -> None:
        store.save_server(_server())
        reports = [self.begin(lambda: store.report_incident("one", INCIDENT)) for _ in range(4)]
        assert sorted(each.answer() for each in reports) == [False, False, False, True]
        assert _read(store).incidents == [INCIDENT]

    def test_incidents_outlive_the_beats_of_who_was_alive_after_all(
        self, store: PersistenceAPI
    ) -> None:
        own = {"kind": "hung", "message": "a handler hung", "time": 9}
        store.save_server(_server())
        store.report_incident("one", INCIDENT)
        for _ in range(2):
            store.beat_server(_server(incidents=[own]))
        found = _read(store)
        assert found.state == ServerState.RUNNING
        assert found.error is None
        assert found.incidents == [INCIDENT, own]

    # Registrations

    def test_a_registration_says_where_it_runs_and_what_if_it_is_lost(
        self, store: PersistenceAPI
    ) -> None:
        made = store.register_handler(
            "shop.Pay", "shop", isolation=Isolation.PROCESS, on_lost=OnLost.UNKNOWN
        )
        assert (made.isolation, made.on_lost) == ("process", "unknown")
        assert (made.is_enabled, made.load_error) == (True, None)
        assert store.get_handler_registration("shop.Pay") == made

    def test_how_loading_went_stays_with_the_registration(self, store: PersistenceAPI) -> None:
        made = store.register_handler("shop.Pay", "shop")
        error = {"message": "no module 'shop'", "server": "one", "time": 5}
        assert store.set_load_error(made, error) is True
        assert store.get_handler_registration("shop.Pay") == replace(made, load_error=error)
        assert store.set_load_error(made, None) is True
        assert store.get_handler_registration("shop.Pay") == made

    def test_how_loading_another_one_went_is_not_believed(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        old = store.register_handler("shop.Pay", "shop")
        clock.advance(1)
        new = store.register_handler("shop.Pay", "shop")
        assert store.set_load_error(old, {"message": "broken"}) is False
        assert store.get_handler_registration("shop.Pay") == new
        store.delete_handler_registration("shop.Pay")
        assert store.set_load_error(new, {"message": "broken"}) is False
        assert store.list_handler_registrations() == []

    def test_the_version_changes_with_what_is_saved_or_removed_and_nothing_else(
        self, store: PersistenceAPI
    ) -> None:
        seen = [store.registrations_version()]
        made = store.register_handler("shop.Pay", "shop")
        seen.append(store.registrations_version())
        store.save_handler_registration(made)
        seen.append(store.registrations_version())
        store.delete_handler_registration("shop.Pay")
        seen.append(store.registrations_version())
        assert len(set(seen)) == len(seen)
        kept = store.register_handler("Pay", "shop")
        last = store.registrations_version()
        assert not store.delete_handler_registration("nobody")
        assert store.set_load_error(kept, {"message": "broken"})
        assert store.registrations_version() == last

    # Waiting for registrations

    def attending(
        self, store: PersistenceAPI, clock: FakeClock, timeout: float | None = None
    ) -> Background[bool]:
        """Somebody who waits for registrations, and is asleep."""
        seen = store.registrations_version()
        waiter = self.begin(lambda: store.wait_for_registrations(seen, timeout))
        clock.wait_for_waiters(1)
        return waiter

    def test_what_changed_before_needs_no_wait(self, store: PersistenceAPI) -> None:
        seen = store.registrations_version()
        assert store.wait_for_registrations(seen, 0) is False
        store.register_handler("shop.Pay", "shop")
        assert store.wait_for_registrations(seen) is True
        assert store.wait_for_registrations(seen, 0) is True

    def test_a_registration_that_is_saved_wakes(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        waiter = self.attending(store, clock)
        store.save_handler_registration(HandlerRegistration("shop.Pay", "shop"))
        assert waiter.answer() is True

    def test_a_registration_that_is_removed_wakes(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        store.register_handler("shop.Pay", "shop")
        waiter = self.attending(store, clock)
        store.delete_handler_registration("shop.Pay")
        assert waiter.answer() is True

    def test_how_loading_went_wakes_nobody(self, store: PersistenceAPI, clock: FakeClock) -> None:
        made = store.register_handler("shop.Pay", "shop")
        waiter = self.attending(store, clock, 30)
        store.set_load_error(made, {"message": "broken"})
        clock.advance(30)
        assert waiter.answer() is False

    def test_the_wait_for_registrations_ends_when_it_is_told(
        self, store: PersistenceAPI, clock: FakeClock
    ) -> None:
        stop, seen = threading.Event(), store.registrations_version()
        waiter = self.begin(lambda: store.wait_for_registrations(seen, stop=stop))
        clock.wait_for_waiters(1)
        stop.set()
        assert waiter.answer() is False
        assert store.wait_for_registrations(seen, stop=stop) is False
