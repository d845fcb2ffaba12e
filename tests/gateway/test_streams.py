"""Streams: every event once, from any place, at any server, whoever else reads."""

from __future__ import annotations

import asyncio
import socket
import threading
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gateway.scene import LOOPS, PATIENCE_S, TOKENS, Agent, Scene, in_thread, running
from tests.gateway.test_routes import refused

from afl.clock import SYSTEM_CLOCK
from afl.gateway import Limits, TurnApi, make_app
from afl.gateway import events as shown
from afl.gateway.events import View
from afl.gateway.places import START
from afl.gateway.reading import read_page
from afl.gateway.sse import EventReader, StreamEvent
from afl.gateway.streams import encoded
from afl.telemetry import TELEMETRY, Event
from afl.turns import Entry, MemoryTurns, NewTurn, SqliteTurns, TurnStore, TurnSuspended
from afl.turns.api import Delta, Kind, NewEntry
from afl.turns.tokens import Tokens
from afl.turns.values import encode


@contextmanager
def following(scene: Scene, turn_id: str, name: str = "alice") -> Iterator[Iterator[StreamEvent]]:
    """Events as they come."""
    with scene.http(name).stream("GET", f"/turns/{turn_id}/events") as answer:
        assert answer.status_code == 200
        reader = EventReader()
        yield (event for piece in answer.iter_raw() for event in reader.read(piece))


def names(events: list[StreamEvent]) -> list[tuple[str, str]]:
    return [(each.id, each.name) for each in events]


# What is shown


def test_events_come_while_the_turn_goes_on(scene: Scene) -> None:
    turn_id = scene.submit()
    with following(scene, turn_id) as events:
        agent = scene.agent(turn_id)
        record = agent.record
        scene.store.stream(record.claim, 0, "model", "Hel")
        assert next(events) == StreamEvent("delta", "0.1", {"call_id": "model", "text": "Hel"})
        scene.store.stream(record.claim, 0, "model", "lo")
        assert next(events).data["text"] == "lo"
        agent.says("Hel", "lo", whole=False)
        agent.turn.model(lambda: "Hello")
        assert [next(events).name for _ in range(3)] == ["delta", "delta", "model"]
        agent.finishes("bye")
        end = next(events)
        assert (end.name, end.id, end.data["result"]) == ("done", "end", "bye")
        assert next(events, None) is None


def test_an_answer_is_shown_as_text_tools_and_tokens(scene: Scene) -> None:
    turn_id = scene.submit()
    agent = scene.agent(turn_id)
    call = ["tool_call", {"id": "c1", "name": "charge", "arguments": {"secret": 1}}]
    answer = {
        "parts": [
            ["text", {"text": "I will "}],
            ["opaque", {"data": {}}],
            call,
            ["text", {"text": "charge"}],
        ],
        "stop": "tool_use",
        "usage": {"input_tokens": 1},
        "model": "m",
    }
    agent.turn.model(lambda: answer, name="m")
    agent.turn.model(lambda: "just text")
    agent.turn.model(lambda: {"other": "form"})
    agent.finishes()
    first, second, third, _ = scene.events(turn_id)
    assert first.data | {"at": 0} == {
        "at": 0,
        "call_id": "model",
        "model": "m",
        "text": "I will charge",
        "tools": [{"call_id": "c1", "name": "charge"}],
        "stop": "tool_use",
        "usage": {"input_tokens": 1},
    }
    assert (second.data["text"], third.data["text"]) == ("just text", None)
    assert scene.events(turn_id, "admin")[2].data["answer"] == {"other": "form"}


def test_words_of_somebody_who_was_replaced_are_superseded(scene: Scene) -> None:
    turn_id = scene.submit()
    first = Agent(scene.store, turn_id)
    first.says("I thi", "nk", whole=False)
    first.turn.note("a remark in between")
    scene.store.stream(first.record.claim, 1, "model", " so")
    second = Agent(scene.store, turn_id)
    second.says("No.", whole=True)
    second.finishes()
    events = scene.events(turn_id)
    assert names(events) == [
        ("0.1", "delta"),
        ("0.2", "delta"),
        ("1.3", "delta"),
        ("1.4", "superseded"),
        ("1.5", "delta"),
        ("2", "model"),
        ("end", "done"),
    ]
    assert events[3].data == {"call_id": "model", "from": "0.1"}


def test_a_second_mark_is_about_what_was_said_after_the_first(scene: Scene) -> None:
    turn_id = scene.submit()
    for words in ("one", "two"):
        Agent(scene.store, turn_id).says(words, whole=False)
    Agent(scene.store, turn_id).finishes()
    marks = [each for each in scene.events(turn_id) if each.name == "superseded"]
    assert [each.data["from"] for each in marks] == ["0.1", "0.3"]


def test_waiting_is_shown_with_what_it_is_for(scene: Scene) -> None:
    turn_id = scene.submit()
    agent = scene.agent(turn_id)
    with pytest.raises(TurnSuspended):
        agent.turn.wait_for_input("which?", timeout_s=60)
    scene.store.give_input(turn_id, "", b'"this"')
    agent = scene.agent(turn_id)
    assert agent.turn.wait_for_input("which?", timeout_s=60) == "this"
    agent.turn.sleep(0.001)
    agent.seals("is suspended: a deploy")
    with following(scene, turn_id) as events:
        asked, given_, slept, sealed = (next(events) for _ in range(4))
    assert (asked.data["for"], asked.data["question"]) == ("answer", "which?")
    assert asked.data["until"] > asked.data["at"]
    assert given_.data | {"at": 0} == {"at": 0, "call_id": asked.data["call_id"], "is_given": True}
    assert slept.data["for"] == "time"
    assert sealed.data["reason"] == "is suspended: a deploy"
    assert (
        scene.http().post("/turns/resume", json={"token": sealed.data["resume_token"]}).is_success
    )
    # Once it goes on, there is nothing to resume.
    Agent(scene.store, turn_id).finishes()
    assert scene.events(turn_id)[3].data["resume_token"] is None


# Places


def long_turn(store: TurnStore, scene: Scene) -> str:
    """With everything in it that has a place."""
    turn_id = scene.submit()
    first = Agent(store, turn_id)
    first.says("one ", "two ", "three")
    first.uses("charge", amount=3)
    first.says("lost ", "words", call_id="model#2", whole=False)
    second = Agent(store, turn_id)
    second.turn.remember({"a": 1})
    second.says("line\u2028separators\x85\x0bare text", call_id="model#2", whole=False)
    second.turn.note("n")
    second.seals()
    third = Agent(store, turn_id, "other")
    third.says("four", call_id="model#2", whole=False)
    third.finishes({"ok": True})
    return turn_id


@pytest.mark.parametrize("name", ["alice", "admin"])
def test_from_every_place_the_stream_goes_on_without_a_gap_or_a_repeat(
    scene: Scene, name: str
) -> None:
    turn_id = long_turn(scene.store, scene)
    whole = scene.events(turn_id, name)
    assert len({each.id for each in whole}) == len(whole) > 10
    for count, last in enumerate(whole, start=1):
        assert whole[:count] + scene.events(turn_id, name, after=last.id) == whole
    by_query = scene.http(name).get(f"/turns/{turn_id}/events", params={"after": whole[3].id})
    assert list(EventReader().read(by_query.content)) == whole[4:]


def test_who_has_seen_the_end_is_told_that_there_is_no_more(scene: Scene) -> None:
    turn_id = scene.submit()
    headers = {"last-event-id": "end"}
    path = f"/turns/{turn_id}/events"
    refused(scene.http().get(path, headers=headers), 409, "place-ahead")
    scene.agent(turn_id).finishes()
    assert scene.http().get(path, headers=headers).status_code == 204


@pytest.mark.parametrize("place", ["1", "0.1", "99999", "5.2"])
def test_a_place_that_the_stream_has_not_reached_is_refused(scene: Scene, place: str) -> None:
    path = f"/turns/{scene.submit()}/events"
    refused(scene.http().get(path, headers={"last-event-id": place}), 409, "place-ahead")


@pytest.mark.parametrize("place", ["-1", "1.", ".1", "x", "1.2.3", "1e3", "9" * 30, "\u0661"])
def test_a_place_that_is_none_is_refused(scene: Scene, place: str) -> None:
    path = f"/turns/{scene.submit()}/events"
    refused(scene.http().get(path, params={"after": place}), 400, "not-a-place")


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_events_are_read_the_same_however_the_bytes_come(data: st.DataObject) -> None:
    text = st.text(max_size=8)
    events = [
        StreamEvent(name, f"{index}", {"text": data.draw(text)})
        for index, name in enumerate(data.draw(st.lists(st.sampled_from(["delta", "model"]))))
    ]
    sent = b"retry: 1000\n\n:\n\n" + b"".join(
        encoded(shown.Event(each.name, each.id, each.data)) for each in events
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=6)))
    reader, read = EventReader(), list[StreamEvent]()
    for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
        read += reader.read(sent[start:end])
    assert read == events


def test_what_is_written_during_a_look_is_not_lost_behind_the_end() -> None:
    class Racing(MemoryTurns):
        """The turn ends while somebody looks."""

        agent: Agent | None = None

        def read_stream(self, *place: Any, **options: Any) -> Sequence[Entry | Delta]:
            found = super().read_stream(*place, **options)
            if self.agent is not None:
                agent, self.agent = self.agent, None
                agent.turn.note("the last words")
                agent.finishes()
            return found

    with closing(Racing()) as store:
        turn = store.accept(_turn(1))
        store.agent = Agent(store, turn.id)
        view, place, seen = View(is_inside=True), START, list[str]()
        for _ in range(2):
            page = read_page(store, turn.id, place, view, None)
            place = page.place
            seen += [each.name for each in page.events]
    assert seen == ["note", "done"]


def test_a_turn_that_is_suspended_during_a_look_comes_with_its_token() -> None:
    class Racing(MemoryTurns):
        """The turn is sealed between the two questions of a look."""

        agent: Agent | None = None

        def read_stream(self, *place: Any, **options: Any) -> Sequence[Entry | Delta]:
            if self.agent is not None:
                agent, self.agent = self.agent, None
                agent.seals()
            return super().read_stream(*place, **options)

    tokens = Tokens([b"k" * 32])
    with closing(Racing()) as store:
        turn, place = store.accept(_turn(1)), START
        # Also if it was suspended before.
        for _ in range(2):
            store.agent = Agent(store, turn.id)
            page = read_page(store, turn.id, place, View(), tokens)
            (event,), place = page.events, page.place
            assert event.name == "suspended"
            assert tokens.turn_id(event.data["resume_token"]) == turn.id


def test_a_turn_that_ends_when_it_was_just_suspended_has_nothing_behind_its_end() -> None:
    class Racing(MemoryTurns):
        """The turn is sealed between the two questions of a look, and goes on after them."""

        agent: Agent | None = None

        def read_stream(self, *place: Any, **options: Any) -> Sequence[Entry | Delta]:
            agent, self.agent = self.agent, None
            if agent is None:
                return super().read_stream(*place, **options)
            agent.seals()
            found = super().read_stream(*place, **options)
            again = Agent(self, agent.id)
            again.says("the last words")
            again.finishes()
            return found

    with closing(Racing()) as store:
        turn, place = store.accept(_turn(1)), START
        store.agent = Agent(store, turn.id)
        seen = list[shown.Event]()
        for _ in range(2):
            page = read_page(store, turn.id, place, View(), Tokens([b"k" * 32]))
            place = page.place
            seen += page.events
    assert [each.name for each in seen] == ["suspended", "delta", "model", "done"]
    assert seen[0].data["resume_token"] is None


def test_what_is_written_just_before_the_stop_is_still_sent() -> None:
    class Stopping(MemoryTurns):
        """Somebody writes, and then all stops, while a stream looks."""

        stop: Callable[[], None] | None = None

        def read_stream(self, *place: Any, **options: Any) -> Sequence[Entry | Delta]:
            found = super().read_stream(*place, **options)
            if self.stop is not None:
                stop, self.stop = self.stop, None
                stop()
            return found

    async def scenario(store: Stopping) -> bytes:
        app = make_app(store, loops=LOOPS)
        turn = store.accept(_turn(1))
        agent = Agent(store, turn.id)

        def stop() -> None:
            agent.turn.note("the last words")
            app.end_streams()

        store.stop = stop
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            return (await http.get(f"/turns/{turn.id}/events")).content

    with closing(Stopping()) as store:
        assert b"the last words" in asyncio.run(asyncio.wait_for(scenario(store), PATIENCE_S))


def test_a_reader_hears_on_when_another_one_leaves(scene: Scene) -> None:
    turn_id = scene.submit()
    agent = scene.agent(turn_id)
    with closings() as closed, following(scene, turn_id, "admin") as events:
        agent.says("one", whole=False)
        assert next(events).id == "0.1"
        with following(scene, turn_id) as others:
            next(others)
        closed(1)
        agent.says("two", whole=False)
        assert next(events).id == "0.2"


# Other processes, other servers


def test_a_stream_goes_on_at_another_server_of_the_same_file(folder: Path) -> None:
    path = folder / "afl.db"
    with closing(SqliteTurns(path)) as one, closing(SqliteTurns(path)) as two:
        tokens = list(TOKENS.values())
        with (
            running(TurnApi(one, loops=LOOPS, tokens=tokens)) as first,
            running(TurnApi(two, loops=LOOPS, tokens=tokens)) as second,
            closing(Scene(first, one)) as here,
            closing(Scene(second, two)) as there,
        ):
            turn_id = here.submit()
            agent = Agent(two, turn_id)
            agent.says("one", "two")
            with following(here, turn_id) as events:
                seen = [next(events), next(events)]
                agent.finishes()
                rest = there.events(turn_id, after=seen[-1].id)
                assert [*seen, *events] == [*seen, *rest]


# What streams cost


@contextmanager
def closings() -> Iterator[Callable[[int], list[Event]]]:
    """Waits until so many streams were closed; their events."""
    heard = threading.Condition()
    found: list[Event] = []

    def hear(event: Event) -> None:
        if event.name == "stream_closed":
            with heard:
                found.append(event)
                heard.notify_all()

    def wait(count: int) -> list[Event]:
        with heard:
            assert SYSTEM_CLOCK.wait_for(heard, lambda: len(found) >= count, PATIENCE_S)
        return found

    unsubscribe = TELEMETRY.subscribe(hear)
    try:
        yield wait
    finally:
        unsubscribe()


def test_500_open_streams_need_no_thread_each() -> None:
    count = 500

    async def follow(address: tuple[str, int], turn_id: str) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection(*address)
        writers.append(writer)
        writer.write(f"GET /turns/{turn_id}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert b"200 OK" in await reader.readuntil(b"retry: 1000\n\n")
        return reader

    async def scenario(api: TurnApi, store: MemoryTurns) -> None:
        assert api.address is not None
        turns = [store.accept(_turn(index)) for index in range(count)]
        readers = [await follow(api.address, each.id) for each in turns]
        assert api.in_flight == count
        assert len(set(threading.enumerate()) - before) < 40
        for each in turns:
            store.cancel(each.id, "enough")
        for reader in readers:
            await reader.readuntil(b"event: cancelled")
        for writer in writers:
            writer.close()

    writers: list[asyncio.StreamWriter] = []
    before = set(threading.enumerate())
    with closing(MemoryTurns()) as store, running(TurnApi(store, loops=LOOPS)) as api:
        asyncio.run(asyncio.wait_for(scenario(api, store), 2 * PATIENCE_S))


def _turn(index: int) -> NewTurn:
    return NewTurn("support", b"{}", f"k{index}")


def test_a_caller_has_a_limited_number_of_streams() -> None:
    tokens = list(TOKENS.values())
    limits = Limits(streams=2)
    with (
        closing(MemoryTurns()) as store,
        running(TurnApi(store, loops=LOOPS, tokens=tokens, limits=limits)) as api,
        closing(Scene(api, store)) as scene,
        closings() as closed,
    ):
        turn_id = scene.submit()
        with following(scene, turn_id), following(scene, turn_id):
            answer = scene.http().get(f"/turns/{turn_id}/events")
            refused(answer, 429, "too-many-streams")
            assert answer.headers["retry-after"] == "5"
            with following(scene, turn_id, "admin"):
                pass
        closed(3)
        with following(scene, turn_id):
            pass


def test_silence_is_broken_by_signs_of_life() -> None:
    limits = Limits(keep_alive_seconds=0.05)
    with (
        closing(MemoryTurns()) as store,
        running(TurnApi(store, loops=LOOPS, limits=limits)) as api,
    ):
        turn = store.accept(_turn(1))
        with httpx.stream("GET", f"{api.url}/turns/{turn.id}/events") as answer:
            pieces = answer.iter_raw()
            while next(pieces) != b":\n\n":
                continue
            assert next(pieces) == b":\n\n"


def test_a_reader_that_takes_nothing_is_cut_and_holds_little() -> None:
    limits = Limits(stalled_seconds=0.2)
    with (
        closing(MemoryTurns()) as store,
        running(TurnApi(store, loops=LOOPS, limits=limits)) as api,
        closings() as closed,
    ):
        assert api.address is not None
        turn = store.accept(_turn(1))
        agent = Agent(store, turn.id)
        for index in range(30):
            agent.turn.note({"index": index, "text": "x" * 500_000})
        with socket.create_connection(api.address) as stalled:
            request = f"GET /turns/{turn.id}/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
            stalled.sendall(request.encode())
            facts = closed(1)[0].facts()
    assert facts["reason"] == "the reader took nothing"
    # Not all of the turn was read for it.
    assert facts["events"] < 30


def page_of(store: TurnStore, turn_id: str) -> tuple[int, int]:
    """How many events the first page of a turn has, and how much memory it takes to read it."""
    tracemalloc.start()
    try:
        events = read_page(store, turn_id, START, View(is_inside=True), None).events
        return len(events), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_of_a_long_turn_only_a_page_is_in_memory(folder: Path) -> None:
    megabytes = 2**20
    with closing(SqliteTurns(folder / "afl.db")) as store:
        large, small = store.accept(_turn(1)), store.accept(_turn(2))
        agent = Agent(store, large.id)
        notes = [NewEntry(Kind.NOTE, value=encode(f"{index:_<100000}")) for index in range(300)]
        store.append(agent.record.claim, notes)
        count, peak = page_of(store, large.id)
        assert 5 < count < 12
        assert peak < 6 * megabytes
        # One that begins with many words of little weight.
        agent = Agent(store, small.id)
        store.append(agent.record.claim, [NewEntry(Kind.NOTE) for _ in range(20_000)])
        count, peak = page_of(store, small.id)
        assert 1000 < count < 3000
        assert peak < 6 * megabytes


def test_what_is_void_is_looked_for_a_page_at_a_time() -> None:
    class Counting(MemoryTurns):
        largest = 0

        def read_stream(self, *place: Any, **options: Any) -> Sequence[Entry | Delta]:
            found = super().read_stream(*place, **options)
            self.largest = max(self.largest, sum(each.size for each in found))
            return found

    with closing(Counting()) as store:
        turn = store.accept(_turn(1))
        agent = Agent(store, turn.id)
        agent.says("the first words", whole=False)
        for index in range(8):
            agent.turn.note({"index": index, "text": "x" * 500_000})
        agent.says("more", whole=False)
        Agent(store, turn.id).finishes()
        place, seen = START, list[shown.Event]()
        while not seen or seen[-1].name != "done":
            page = read_page(store, turn.id, place, View(), None)
            place = page.place
            seen += page.events
    (mark,) = (each for each in seen if each.name == "superseded")
    assert mark.data["from"] == "0.1"
    assert store.largest < 2_000_000


def test_a_reader_that_goes_away_is_noticed() -> None:
    with (
        closing(MemoryTurns()) as store,
        running(TurnApi(store, loops=LOOPS)) as api,
        closings() as closed,
    ):
        turn = store.accept(_turn(1))
        with httpx.stream("GET", f"{api.url}/turns/{turn.id}/events") as answer:
            next(answer.iter_raw())
        assert closed(1)[0].facts()["reason"] == "the reader went away"


def test_news_come_also_from_stores_that_announce_nothing() -> None:
    class Silent:
        """A store of somebody else: only what the port asks for."""

        def __init__(self, inner: MemoryTurns) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            return getattr(self._inner, name)

    with closing(MemoryTurns()) as inner:
        store: Any = Silent(inner)
        with running(TurnApi(store, loops=LOOPS)) as api:
            turn = inner.accept(_turn(1))
            with httpx.stream(
                "GET", f"{api.url}/turns/{turn.id}/events", timeout=PATIENCE_S
            ) as answer:
                pieces = answer.iter_raw()
                next(pieces)
                in_thread(lambda: inner.cancel(turn.id, "enough"))
                assert b"event: cancelled" in b"".join(pieces)
