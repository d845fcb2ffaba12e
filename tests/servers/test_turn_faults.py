"""Turns on servers that are killed, cut off or asked by many at once: no turn is lost, none is
given to two, nothing is journaled twice, and nobody has to be started again."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from typing import Any

import pytest
from tests.engine.profile import IS_STORM
from tests.loops.office import Office, Running, eventually
from tests.servers import test_mongo_faults, test_store_faults
from tests.servers.proxy import Proxy
from tests.servers.test_mongo_faults import SOON
from tests.servers.test_store_faults import insist
from tests.turns.tooled import Tooled

from afl.agents.model import ModelAnswer, ModelRequest, Role, StopReason, Text, ToolCall
from afl.errors import NotFound, StoreMisused, StoreUnavailable
from afl.ids import new_id
from afl.loops import tool
from afl.testing.contracts.mailbox.exam import Background
from afl.testing.contracts.turns.exam import note
from afl.testing.servers import MongoCluster, MongoServer, PostgresServer, Server
from afl.turns import (
    Ending,
    Kind,
    NewEntry,
    NewTurn,
    TurnBusy,
    TurnRecord,
    TurnState,
    TurnStore,
    current_effect,
    open_turns,
    rules,
)
from afl.turns.shelf import Shelf
from afl.turns.values import digest, encode

PATIENCE_S = 60.0
LEASE_MS = 600_000
PROCESSES = 4 if IS_STORM else 3
TURNS = 1000 if IS_STORM else 40
ROUNDS = 15 if IS_STORM else 1
ASKED = 50 if IS_STORM else 6

pytestmark = pytest.mark.timeout(3600 if IS_STORM else 120)


@dataclass
class Place:
    """A server of the tests' own, and a loop of each test's own."""

    server: Server
    near: str
    far: str
    #: While it holds, what is committed is, but the first answer never comes.
    unanswered: Callable[[Proxy], AbstractContextManager[Any]]
    loop: str

    def accept(self, store: TurnStore, key: str | None = None, **options: Any) -> TurnRecord:
        request = encode(f"do {key}")
        return store.accept(NewTurn(self.loop, request, key, **options))

    def begin(self, store: TurnStore, key: str = "one", lease_ms: int = LEASE_MS) -> TurnRecord:
        return store.begin(self.accept(store, key).id, key, lease_ms)


@pytest.fixture(scope="module", params=["postgres", "mongo"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with PostgresServer() if request.param == "postgres" else MongoServer() as started:
        yield started


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    with Proxy(server.port) as made:
        yield made


@pytest.fixture
def place(server: Server, proxy: Proxy) -> Place:
    is_mongo = isinstance(server, MongoServer)
    near = f"{server.url}/turns?{SOON}" if is_mongo else server.url
    far = near.replace(f":{server.port}", f":{proxy.port}")
    far += "&directConnection=true" if is_mongo else ""
    module = test_mongo_faults if is_mongo else test_store_faults
    return Place(server, near, far, module.commits_unanswered, f"loop {new_id()}")


@pytest.fixture
def store(place: Place) -> Iterator[TurnStore]:
    with closing(open_turns(place.near)) as opened:
        yield opened


@pytest.fixture
def far_store(place: Place, store: TurnStore) -> Iterator[TurnStore]:
    """At the same place, behind the proxy."""
    with closing(open_turns(place.far)) as opened:
        yield opened


# Many at once

_CLAIMS = """\
import sys
from afl.turns import open_turns

url, loop, owner = sys.argv[1:]
store = open_turns(url)
print("ready", flush=True)
sys.stdin.readline()
while store.wait_due(loop, 0, __import__("threading").Event()):
    for each in store.claim_due(loop, owner, 600_000, 3):
        print(each.id, each.fence, flush=True)
"""


def test_turns_that_many_processes_claim_go_to_one_of_them(place: Place, store: TurnStore) -> None:
    accepted = [place.accept(store, str(number), is_due=True).id for number in range(TURNS)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _CLAIMS, place.near, place.loop, f"owner {number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    for each in processes:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in processes:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    said = [each.communicate(timeout=PATIENCE_S * 10)[0].split() for each in processes]
    assert [each.returncode for each in processes] == [0] * PROCESSES
    claimed = [turn_id for each in said for turn_id in each[::2]]
    assert Counter(claimed) == Counter(accepted)
    assert {fence for each in said for fence in each[1::2]} == {"1"}


def test_the_same_key_is_one_turn_whoever_is_first(place: Place, store: TurnStore) -> None:
    with closing(open_turns(place.near)) as other:
        asking = [
            Background(lambda at=at: place.accept(at, "the same"), PATIENCE_S)  # type: ignore[misc]
            for at in (store, other) * 6
        ]
        turns = {each.answer().id for each in asking}
    assert len(turns) == 1
    # It was kept once: when it goes, what it asked goes.
    store.cancel(turns.pop(), "enough")
    assert store.prune(store.now_ms() + 1) >= 1
    with pytest.raises(NotFound):
        store.value(digest(encode("do the same")))


def test_values_that_many_use_at_once_go_with_the_last_of_them(
    place: Place, store: TurnStore
) -> None:
    """In either order: nobody waits for ever, and none is counted wrong."""
    large = [encode(f"{number}" + new_id() * 50) for number in range(3)]

    def work(at: TurnStore, key: str, values: list[bytes]) -> TurnRecord:
        turn = place.begin(at, key)
        for _ in range(3):
            entries = [NewEntry(Kind.MODEL, value=each) for each in values]
            turn = at.append(turn.claim, entries)
        return at.finish(turn.claim, Ending(TurnState.DONE, result=values[0]))

    with closing(open_turns(place.near)) as other:
        working = [
            Background(
                lambda at=at, number=number: work(  # type: ignore[misc]
                    at, f"{number}", large if number % 2 else large[::-1]
                ),
                PATIENCE_S,
            )
            for number, at in enumerate((store, other) * 3)
        ]
        ended = [each.answer() for each in working]
    assert {each.seq for each in ended} == {9}
    assert [store.value(digest(each)) for each in large] == large
    assert store.prune(store.now_ms() + 1) == len(ended)
    for each in large:
        with pytest.raises(NotFound):
            store.value(digest(each))


@pytest.mark.parametrize("server", ["postgres"], indirect=True)
def test_who_waited_for_a_turn_does_not_take_a_lease_that_was_given_meanwhile(
    place: Place, store: Any
) -> None:
    """By its own time, at which it began to wait, that lease would begin in the future."""
    turn = place.accept(store, "one")
    holding, may_end = threading.Event(), threading.Event()

    def begin_late(shelf: Shelf) -> None:
        found = shelf.turn(turn.id)
        assert found is not None
        holding.set()
        assert may_end.wait(PATIENCE_S)
        shelf.save(rules.began(found, "ann", LEASE_MS, store.now_ms()))

    with closing(open_turns(place.near)) as other:
        late = Background(lambda: store._change(begin_late), PATIENCE_S)
        assert holding.wait(PATIENCE_S)
        waiting = Background(lambda: _refusal(other, turn.id), PATIENCE_S)
        eventually(lambda: store._database.query(_WAITS) == [(1,)])
        begun = store.now_ms()
        eventually(lambda: store.now_ms() > begun)
        may_end.set()
        late.answer()
        assert isinstance(waiting.answer(), TurnBusy)


_WAITS = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


def _refusal(store: TurnStore, turn_id: str) -> Exception | None:
    try:
        store.begin(turn_id, "bob", LEASE_MS)
    except TurnBusy as busy:
        return busy
    return None


# Outages

#: Who cannot reach a MongoDB notices it late.
IN_AN_OUTAGE = pytest.mark.parametrize(
    "server", ["postgres", "mongo"] if IS_STORM else ["postgres"], indirect=True
)


@IN_AN_OUTAGE
def test_who_waits_and_who_watches_outlasts_a_killed_server(place: Place, store: TurnStore) -> None:
    turn, told = place.begin(store), threading.Event()
    stop = threading.Event()
    due = Background(lambda: store.wait_due(place.loop, None, stop), PATIENCE_S)
    news = Background(lambda: store.wait_news(turn, None, stop), PATIENCE_S)
    end = store.watch(turn.id, told.set)
    try:
        eventually(lambda: _waiters(store) == 3)
        place.server.kill()
        with pytest.raises(StoreUnavailable):
            store.append(turn.claim, [note("lost")])
        place.server.start()
        told.clear()
        with closing(insist(open_turns, place.near + _OTHER[type(place.server)])) as other:
            insist(other.append, turn.claim, [note("news")], 0)
            place.accept(other, "two", is_due=True)
        assert due.answer()
        assert news.answer()
        assert told.wait(PATIENCE_S)
    finally:
        stop.set()
        end()
    assert [each.value for each in insist(store.read, turn.id)] == [encode("news")]


#: A URL that is another one: as in another process.
_OTHER = {PostgresServer: "?application_name=other", MongoServer: "&appname=afl"}


def _waiters(store: Any) -> int:
    waiters: int = store._bell.waiters
    return waiters


def test_an_entry_whose_commit_was_not_answered_is_written_once(
    place: Place, proxy: Proxy, store: TurnStore, far_store: TurnStore
) -> None:
    turn, entry = place.begin(far_store), note("once")
    with place.unanswered(proxy):
        written = _tried(far_store.append, turn.claim, [entry])
    if written is None:
        insist(far_store.append, turn.claim, [entry], turn.seq)
    assert [each.value for each in store.read(turn.id)] == [entry.value]


def test_words_whose_commit_was_not_answered_are_heard_once(
    place: Place, proxy: Proxy, store: TurnStore, far_store: TurnStore
) -> None:
    turn = place.begin(far_store)
    with place.unanswered(proxy):
        _tried(far_store.stream, turn.claim, 0, "model", "hel")
    insist(far_store.stream, turn.claim, 0, "model", "hello", turn.streamed)
    assert "".join(each.text for each in store.read_stream(turn.id)) == "hello"  # type: ignore[union-attr, misc]


def _tried(call: Callable[..., TurnRecord], *arguments: Any) -> TurnRecord | None:
    """None if nobody says what became of it."""
    try:
        return call(*arguments)
    except StoreUnavailable:
        return None


_DIES = """\
import os, sys
from afl.turns import open_turns

url, turn = sys.argv[1:]
open_turns(url)._change(lambda shelf: (shelf.turn(turn), os.kill(os.getpid(), 9)))
"""


def test_a_process_that_died_in_a_transaction_keeps_nobody_waiting(
    place: Place, store: TurnStore
) -> None:
    turn = place.begin(store)
    died = subprocess.run([sys.executable, "-c", _DIES, place.near, turn.id], check=False)
    assert died.returncode == -signal.SIGKILL
    assert store.append(turn.claim, [note("goes on")]).seq == 1


class Buys:
    """A model that calls one tool in each turn."""

    def answer(self, request: ModelRequest) -> ModelAnswer:
        if any(each.role is Role.ASSISTANT for each in request.messages):
            return ModelAnswer((Text("done"),), StopReason.END)
        return ModelAnswer((ToolCall(new_id(), "charge", {}),), StopReason.TOOL_USE)


def charging(ledger: dict[str, int]) -> Any:
    @tool(idempotent=True)
    def charge() -> str:
        effect = current_effect()
        assert effect is not None
        return f"receipt {ledger.setdefault(effect.next_key(), len(ledger))}"

    return charge


def test_a_loop_goes_on_when_its_server_is_back(place: Place, store: TurnStore) -> None:
    ledger: dict[str, int] = {}
    with Office(f"memory:{new_id()}") as office:
        agent = Tooled(Buys(), office, charging(ledger), turns=store, concurrency=4, lease_s=2.0)
        with Running(agent):
            for _ in range(ROUNDS):
                asked = set(office.ask(*map(str, range(ASKED))))
                place.server.restart(is_killed=True)
                while asked:  # some may be answered twice
                    for each in office.some_answers():
                        assert (each.output, each.error) == ("done", None)
                        asked.discard(each.request_id)
    assert len(ledger) == ASKED * ROUNDS


@IN_AN_OUTAGE
def test_a_store_cannot_be_opened_without_its_server(place: Place) -> None:
    place.server.stop()
    try:
        with pytest.raises(StoreUnavailable, match="is it running"):
            open_turns(place.near)
    finally:
        place.server.start()
    open_turns(place.near).close()


if IS_STORM:

    def test_no_entry_is_lost_or_written_twice_when_the_primary_dies() -> None:
        with MongoCluster() as cluster, closing(open_turns(cluster.url)) as store:
            turn = store.begin(store.accept(NewTurn("loop", b"1")).id, "ann", LEASE_MS)
            for number in range(60):
                if number in (10, 40):
                    primary = cluster.primary()
                    threading.Thread(target=primary.restart, daemon=True).start()
                if _tried(store.append, turn.claim, [note(str(number))]) is None:
                    insist(store.append, turn.claim, [note(str(number))], number)
            entries = insist(store.read, turn.id)
            assert [each.value for each in entries] == [encode(str(each)) for each in range(60)]


# What cannot be kept


def test_what_is_no_text_is_refused(place: Place, store: TurnStore) -> None:
    with pytest.raises(StoreMisused, match="not valid Unicode"):
        store.accept(NewTurn("half \ud800", b"1"))
    turn = place.begin(store)
    with pytest.raises(StoreMisused, match="not valid Unicode"):
        store.stream(turn.claim, 0, "model", "half \ud800")
    assert store.stream(turn.claim, 0, "model", "whole").streamed == 1


def test_a_value_may_be_as_large_as_the_database_takes_it(place: Place, store: TurnStore) -> None:
    turn = place.begin(store)
    huge = NewEntry(Kind.MODEL, value=encode("x" * (17 << 20)))
    if isinstance(place.server, MongoServer):
        with pytest.raises(StoreMisused, match="larger than 16 MB"):
            store.append(turn.claim, [huge])
    else:
        store.append(turn.claim, [huge])
        assert [each.value for each in store.read(turn.id)] == [huge.value]
    assert store.append(turn.claim, [note("goes on")]).state is TurnState.RUNNING
