"""What of a turn is for whom: who only looks sees each as its caller does, operators what is
inside."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp import Client
from tests.mcp.inside import called, talk, text_of
from tests.turns.secretive import INSIDE, SAID, secretive_turn

from afl.gateway.outside import seen_turn
from afl.mcp.access import OPERATOR, READER, Role
from afl.mcp.backend import Backend
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore
from afl.turns.memory import MemoryTurns


@pytest.fixture
def turns() -> MemoryTurns:
    return MemoryTurns()


def _told(turns: MemoryTurns, turn_id: str, role: Role) -> dict[str, Any]:
    """All that somebody can see of a turn, by how it is asked for."""
    store = MemoryStore()
    found: dict[str, Any] = {}

    async def main(client: Client) -> None:
        found["list"] = (await called(client, "afl_turns"))["turns"]
        found["get"] = (await called(client, "afl_turns", action="get", turn_id=turn_id))["turn"]
        found["effects"] = (await called(client, "afl_turns", action="effects"))["effects"]
        for uri in ("afl://turns", f"afl://turns/{turn_id}"):
            (content,) = (await client.read_resource(uri)).contents
            found[uri] = json.loads(text_of(content))

    talk(Backend(store, Evaluator(store), lambda: turns), main, role)
    return found


def test_who_only_looks_does_not_see_what_is_inside_of_a_turn(turns: MemoryTurns) -> None:
    turn_id = secretive_turn(turns)
    for way, shown in _told(turns, turn_id, READER).items():
        assert [each for each in INSIDE if each in str(shown)] == [], way
        assert turn_id in str(shown), way


def test_who_only_looks_sees_what_the_caller_of_a_turn_does(turns: MemoryTurns) -> None:
    turn_id = secretive_turn(turns)
    told = _told(turns, turn_id, READER)
    outside = json.loads(json.dumps(seen_turn(turns, turn_id, is_inside=False)))
    assert told["get"] == told[f"afl://turns/{turn_id}"] == outside
    assert SAID in str(outside)
    (effect,) = told["effects"]
    assert (effect["turn_id"], effect["tool"]) == (turn_id, "fax")


def test_operators_see_what_is_inside_of_a_turn(turns: MemoryTurns) -> None:
    turn_id = secretive_turn(turns)
    told = _told(turns, turn_id, OPERATOR)
    for way in ("get", f"afl://turns/{turn_id}"):
        assert [each for each in INSIDE if each not in str(told[way])] == [], way
    assert "fax-10" in str(told["effects"])
