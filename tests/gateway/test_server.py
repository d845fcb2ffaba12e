"""The turn API as a loop of a group: it starts, drains and ends with the others."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import httpx
import pytest
from tests.gateway.scene import LOOPS, PATIENCE_S, Agent, in_thread, running
from tests.gateway.test_routes import refused

from afl.clock import SYSTEM_CLOCK
from afl.errors import ConfigurationError
from afl.gateway import TurnApi
from afl.gateway.sse import EventReader, StreamEvent
from afl.runtime import LoopGroup
from afl.runtime.health import Report
from afl.runtime.lifecycle import BaseLoop
from afl.testing.servers import free_port
from afl.turns import MemoryTurns, NewTurn

NEW = {"loop": "support", "request": "x"}


class Working(BaseLoop):
    """A loop that has work in hand for as long as the test says."""

    def __init__(self) -> None:
        super().__init__("working")
        self.drains = threading.Event()
        self.may_end = threading.Event()

    def work(self, stop: threading.Event, **options: int | None) -> None:
        SYSTEM_CLOCK.wait(stop)
        self.drains.set()
        SYSTEM_CLOCK.wait(self.may_end, PATIENCE_S)


class Deployed:
    """A group of an agent and the API."""

    def __init__(self, store: MemoryTurns) -> None:
        self.store = store
        self.loop = Working()
        self.api = TurnApi(store, loops=LOOPS, ready=lambda: self.group.ready())
        self.group = LoopGroup([self.api, self.loop], shutdown_timeout=PATIENCE_S)
        self.thread = in_thread(lambda: self.group.run(install_signals=False))
        assert self.api.wait_until_listening(PATIENCE_S)
        self.url = str(self.api.url)


@contextmanager
def deployed() -> Iterator[Deployed]:
    with closing(MemoryTurns()) as store:
        found = Deployed(store)
        try:
            yield found
        finally:
            found.loop.may_end.set()
            found.group.shutdown(timeout=PATIENCE_S)
            found.thread.join(PATIENCE_S)
            assert not found.thread.is_alive()


def ready(deployment: Deployed) -> None:
    """All loops run: the first turn is taken."""
    never = threading.Event()
    while httpx.post(f"{deployment.url}/turns", json=NEW).status_code == 503:
        SYSTEM_CLOCK.wait(never, 0.01)


def test_in_a_drain_new_turns_are_refused_and_streams_go_on_until_the_loops_have_ended() -> None:
    with deployed() as it:
        ready(it)
        turn = it.store.accept(NewTurn("support", b"{}"))
        other = it.store.accept(NewTurn("support", b"{}"))
        agent = Agent(it.store, turn.id)
        with (
            httpx.stream("GET", f"{it.url}/turns/{turn.id}/events", timeout=PATIENCE_S) as one,
            httpx.stream("GET", f"{it.url}/turns/{other.id}/events", timeout=PATIENCE_S) as two,
        ):
            pieces = one.iter_raw()
            next(pieces)
            it.group.request_stop()
            assert SYSTEM_CLOCK.wait(it.loop.drains, PATIENCE_S)
            answer = httpx.post(f"{it.url}/turns", json=NEW)
            assert "drain" in refused(answer, 503, "not-ready")["detail"]
            assert httpx.get(f"{it.url}/turns/{turn.id}").status_code == 200
            agent.says("during the drain", whole=False)
            assert b"during the drain" in next(pieces)
            assert it.api.in_flight == 2
            agent.finishes("in time")
            it.loop.may_end.set()
            # In good order: not cut in the middle, which httpx would raise for.
            assert b"in time" in b"".join(pieces)
            assert b"event" not in b"".join(two.iter_raw())
        it.thread.join(PATIENCE_S)
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{it.url}/turns")


def test_what_was_written_before_the_stop_is_sent_before_the_end() -> None:
    with closing(MemoryTurns()) as store:
        turn = store.accept(NewTurn("support", b"{}"))
        agent = Agent(store, turn.id)
        with running(TurnApi(store, loops=LOOPS)) as api:
            events: list[StreamEvent] = []
            with httpx.stream(
                "GET", f"{api.url}/turns/{turn.id}/events", timeout=PATIENCE_S
            ) as answer:
                pieces = answer.iter_raw()
                next(pieces)
                for index in range(20):
                    agent.turn.note(index)
                api.request_stop()
                reader = EventReader()
                for piece in pieces:
                    events += reader.read(piece)
    assert [each.data["value"] for each in events] == list(range(20))


def test_an_idle_server_stops_at_once_and_can_run_again() -> None:
    with closing(MemoryTurns()) as store:
        api = TurnApi(store, loops=LOOPS)
        for _ in range(2):
            with running(api):
                assert httpx.get(f"{api.url}/turns").status_code == 200
                assert api.unready_reason is None
            assert (api.address, api.url) == (None, None)
            assert api.unready_reason is not None


def test_a_stop_before_the_start_is_honoured() -> None:
    with closing(MemoryTurns()) as store:
        api = TurnApi(store, loops=LOOPS)
        api.request_stop()
        api.run()
        assert not api.running


def test_it_leaves_signals_to_their_owner() -> None:
    """Also on the main thread, where its server would take them."""
    before = signal.getsignal(signal.SIGTERM)
    seen: list[object] = []
    with closing(MemoryTurns()) as store:
        api = TurnApi(store, loops=LOOPS)

        def look() -> None:
            api.wait_until_listening(PATIENCE_S)
            seen.append(signal.getsignal(signal.SIGTERM))
            api.request_stop()

        thread = in_thread(look)
        api.run()
        thread.join(PATIENCE_S)
    assert seen == [before]


def test_it_beats_while_it_serves() -> None:
    beaten = threading.Event()
    with closing(MemoryTurns()) as store, running(TurnApi(store, loops=LOOPS)) as api:
        api.heartbeat.add_callback(beaten.set)
        assert SYSTEM_CLOCK.wait(beaten, PATIENCE_S)


def test_a_port_that_is_taken_is_a_configuration_error() -> None:
    with closing(MemoryTurns()) as store, running(TurnApi(store, loops=LOOPS)) as api:
        assert api.address is not None
        with pytest.raises(ConfigurationError, match="free the port, or choose another"):
            TurnApi(store, loops=LOOPS, port=api.address[1]).run()


def test_a_chosen_port_is_used() -> None:
    port = free_port()
    with closing(MemoryTurns()) as store, running(TurnApi(store, loops=LOOPS, port=port)) as api:
        assert api.url == f"http://127.0.0.1:{port}"


def test_a_store_that_closes_ends_its_streams_in_good_order() -> None:
    store = MemoryTurns()
    with running(TurnApi(store, loops=LOOPS, ready=lambda: Report(ok=True))) as api:
        turn = store.accept(NewTurn("support", b"{}"))
        with httpx.stream("GET", f"{api.url}/turns/{turn.id}/events", timeout=PATIENCE_S) as answer:
            pieces = answer.iter_raw()
            next(pieces)
            store.close()
            assert b"".join(pieces) == b""
        refused(httpx.get(f"{api.url}/turns/{turn.id}"), 503, "store-unavailable")


def test_without_loops_there_is_nothing_to_serve() -> None:
    with pytest.raises(ConfigurationError, match="name at least one"):
        TurnApi(MemoryTurns(), loops=[])
