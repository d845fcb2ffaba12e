"""Turns: what the journal costs beside bare commits and beside peers, what it keeps, and how long
nobody sees anything when a turn changes hands."""

from __future__ import annotations

import importlib.util
import json
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from afl.clock import SYSTEM_CLOCK, now_ms
from afl.ids import new_id
from afl.loops import AgentLoop, AgentLoopRequest
from afl.loops import Turn as LoopTurn
from afl.mailbox import open_mailbox
from afl.turns import NewTurn, Turn, TurnStore, open_turns
from afl.turns.api import Ending, Kind, NewEntry, TurnState
from afl.turns.effects import Policy
from afl.turns.values import encode
from benchmarks.measure import best_of, judged, percentile
from benchmarks.sqlite import bare_connection

COMMITS = 400
CALLS = 200
ROUNDS = 3
#: The log beside a new file grows for some thousand commits, which take longer than all later ones.
COMMIT_ROUNDS = 12
CONVERSATIONS = (100, 400)
CHANGES_OF_HANDS = 40
_PATIENCE_S = 30.0
_LEASE_MS = 60_000
_AGAIN = Policy(idempotent=True)
_ENTRY = "INSERT INTO turn_entry VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_NOTE = NewEntry(Kind.NOTE, value=encode("a remark of some thirty letters"))


def run() -> dict[str, Any]:
    return {
        "journal": _journal(),
        "calls": _calls(),
        "storage": _storage(),
        "changing_hands": _changing_hands(),
    }


# What a commit costs


def _journal() -> dict[str, Any]:
    """One entry for each commit, beside bare commits of the same rows into the same tables."""
    with tempfile.TemporaryDirectory() as folder:
        store = open_turns(f"sqlite:///{folder}/ours.db")
        with closing(store), closing(_bare_turns(folder)) as bare:
            actions = [lambda: _bare(bare), lambda: _append(store)]
            bare_s, ours_s = best_of(COMMIT_ROUNDS, *actions)
    return {
        "commit": judged(
            ours_s / bare_s,
            1.5,
            unit="times a bare commit",
            ms=round(ours_s / COMMITS * 1000, 3),
            bare_ms=round(bare_s / COMMITS * 1000, 3),
        )
    }


def _bare_turns(folder: str) -> sqlite3.Connection:
    address = f"sqlite:///{folder}/bare.db"
    with closing(open_turns(address)) as store:
        _begun(store)
    return bare_connection(Path(folder, "bare.db"))


def _bare(connection: sqlite3.Connection) -> None:
    turn_id = new_id()
    for number in range(COMMITS):
        row = (turn_id, number, _NOTE.kind, "", "", "", 1, now_ms(SYSTEM_CLOCK), _NOTE.value, None)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(_ENTRY, row)
        connection.execute("UPDATE turn SET seq = ?", (number,))
        connection.execute("COMMIT")


def _begun(store: TurnStore) -> Turn:
    record = store.accept(NewTurn("bench", encode("hello"), is_due=True))
    return Turn(store, store.begin(record.id, "bench", _LEASE_MS))


def _append(store: TurnStore) -> None:
    turn = _begun(store)
    for _ in range(COMMITS):
        store.append(turn.record.claim, [_NOTE])


# What a call costs


def _calls() -> dict[str, Any]:
    """A call of a model is one commit, one of a tool is two: before and after it."""
    with tempfile.TemporaryDirectory() as folder:
        with closing(open_turns(f"sqlite:///{folder}/ours.db")) as store:
            model_s, tool_s = best_of(ROUNDS, lambda: _models(store), lambda: _tools(store))
        peers = {each: _peer(each, folder) for each in ("dbos", "langgraph")}
    return {
        "model_ms": round(model_s / CALLS * 1000, 3),
        "tool_ms": round(tool_s / CALLS * 1000, 3),
        "peers_ms_for_each_step": peers,
    }


def _models(store: TurnStore) -> None:
    turn = _begun(store)
    for number in range(CALLS):
        turn.model(lambda: f"answer {number}")  # noqa: B023 - called at once


def _tools(store: TurnStore) -> None:
    turn = _begun(store)
    for number in range(CALLS):
        turn.tool("look", {"number": number}, lambda: "found", policy=_AGAIN)


def _peer(name: str, folder: str) -> float | str:
    """Milliseconds for each step of a peer on SQLite, in a process of its own."""
    if importlib.util.find_spec(name) is None:
        return "not installed: `make bench` does that"
    command = [sys.executable, "-m", "benchmarks.step_process", name, folder, str(CALLS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        return f"failed: {done.stderr.strip().splitlines()[-1:]}"
    return round(float(json.loads(done.stdout.splitlines()[-1])) * 1000, 3)


# What is kept


def _storage() -> dict[str, Any]:
    """Bytes for each turn of a conversation of so many turns; each says what is new in it."""
    short, long = (_bytes_of_turn(count) for count in CONVERSATIONS)
    return {
        "growth": judged(
            long / short,
            1.05,
            unit=f"times the bytes of a turn, {CONVERSATIONS[1]} turns against {CONVERSATIONS[0]}",
            bytes_of_turn=round(long),
        )
    }


def _bytes_of_turn(count: int) -> float:
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(open_turns(f"sqlite:///{folder}/ours.db")) as store,
    ):
        for number in range(count):
            _one_of_a_conversation(store, number)
        return store.size().bytes / count


def _one_of_a_conversation(store: TurnStore, number: int) -> None:
    words = f"what was said in turn {number:06} " * 20
    record = store.accept(NewTurn("chat", encode(words), f"turn {number}", is_due=True))
    turn = Turn(store, store.begin(record.id, "bench", _LEASE_MS))
    answer = turn.model(lambda: f"{words} and what came of it")
    turn.tool("remember", {"answer": answer}, lambda: number, policy=_AGAIN)
    store.finish(turn.record.claim, Ending(TurnState.DONE, result=encode({"answer": answer})))


# How long nobody sees anything


def _changing_hands() -> dict[str, Any]:
    """From the stop of a loop to the next call of its turn in another one."""
    return {
        "handed_over": _pauses(lambda loop: loop.request_stop()),
        "checkpointed": _pauses(lambda loop: loop.checkpoint()),
    }


def _pauses(stop: Callable[[AgentLoop[Any, Any]], None]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/ours.db"
        with closing(open_turns(url)) as store:
            found = sorted(_pause(url, store, stop) for _ in range(CHANGES_OF_HANDS))
    milliseconds = [each * 1000 for each in found]
    return {
        "p50_ms": round(percentile(milliseconds, 50), 2),
        "p99_ms": round(percentile(milliseconds, 99), 2),
    }


def _pause(url: str, store: TurnStore, stop: Callable[[AgentLoop[Any, Any]], None]) -> float:
    hands = _Hands()
    with closing(open_mailbox(url, "requests", body_type=AgentLoopRequest[str])) as box:
        first = _started(box, hands.hold, store)
        box.send(AgentLoopRequest("hello"))
        assert hands.is_held.wait(_PATIENCE_S)
        second = _started(box, hands.go_on, store)
        while len(store.takers("bench")) < 2:
            SYSTEM_CLOCK.sleep(0.001)
        stopped_at = SYSTEM_CLOCK.monotonic()
        stop(first)
        assert hands.has_gone_on.wait(_PATIENCE_S)
        for each in (first, second):
            each.shutdown()
    return hands.went_on_at - stopped_at


class _Hands:
    """A turn of two calls: the one who begins it waits between them until it is to be left."""

    def __init__(self) -> None:
        self.is_held = threading.Event()
        self.has_gone_on = threading.Event()
        self.went_on_at = 0.0

    def hold(self, request: str, turn: LoopTurn) -> str:
        turn.tool("first", {}, self.is_held.set, policy=_AGAIN)
        while not turn.suspend_requested:
            SYSTEM_CLOCK.sleep(0.0005)
        turn.tool("second", {}, self._note, policy=_AGAIN)
        return request

    def go_on(self, request: str, turn: LoopTurn) -> str:
        turn.tool("first", {}, self.is_held.set, policy=_AGAIN)
        turn.tool("second", {}, self._note, policy=_AGAIN)
        return request

    def _note(self) -> None:
        self.went_on_at = SYSTEM_CLOCK.monotonic()
        self.has_gone_on.set()


def _started(box: Any, work: Any, store: TurnStore) -> AgentLoop[Any, Any]:
    loop: AgentLoop[Any, Any] = AgentLoop.from_function(
        work, requests=box, turns=store, name="bench"
    )
    loop.expect_run()
    threading.Thread(target=loop.run, daemon=True).start()
    return loop
