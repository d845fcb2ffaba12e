"""Requests as turns keep them: read again, and told apart."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from afl.loops import AgentLoopRequest
from afl.loops.durable_requests import UnreadableRequest, accept, request_in
from afl.turns import KeyReused, MemoryTurns, NewTurn, TurnRecord
from afl.turns.values import encode


def turn(request: Any, key: str = "one") -> NewTurn:
    return NewTurn("loop", encode(request), key)


def test_the_first_of_two_requests_is_the_one_that_stays() -> None:
    store = MemoryTurns()
    first, second = AgentLoopRequest("hi"), AgentLoopRequest("hi")
    kept = accept(store, turn(first), Any)
    assert accept(store, turn(second), Any) == kept
    assert request_in(store, kept, str) == first
    assert store.size().values == 1


def test_what_is_no_request_is_compared_as_it_is() -> None:
    store = MemoryTurns()
    kept = accept(store, turn([1]), Any)
    assert accept(store, turn([1.0]), Any) == kept
    with pytest.raises(KeyReused):
        accept(store, turn([2]), Any)
    with pytest.raises(KeyReused):
        accept(store, turn(AgentLoopRequest("hi")), Any)


class Lonely(msgspec.Struct, eq=False):
    """Its objects equal only themselves."""

    text: str


def test_requests_without_an_equality_of_their_own_are_compared_as_json() -> None:
    store = MemoryTurns()
    kept = accept(store, turn(AgentLoopRequest(Lonely("hi"))), Lonely)
    assert accept(store, turn(AgentLoopRequest(Lonely("hi"))), Lonely) == kept
    with pytest.raises(KeyReused):
        accept(store, turn(AgentLoopRequest(Lonely("ho"))), Lonely)


def test_a_turn_that_is_pruned_while_it_is_compared_is_kept_anew() -> None:
    class Pruning(MemoryTurns):
        def get(self, turn_id: str) -> TurnRecord:
            self.cancel(turn_id, "")
            assert self.prune(self.now_ms() + 1) == 1
            return super().get(turn_id)

    store = Pruning()
    store.accept(turn(AgentLoopRequest("hi")))
    new = turn(AgentLoopRequest("ho"))
    assert store.value(accept(store, new, Any).request) == new.request


def test_a_request_that_does_not_fit_says_what_is_wrong() -> None:
    store = MemoryTurns()
    kept = store.accept(turn(AgentLoopRequest("hi")))
    with pytest.raises(UnreadableRequest, match="Expected `int`"):
        request_in(store, kept, int)
    with pytest.raises(UnreadableRequest, match="nothing is kept"):
        request_in(store, msgspec.structs.replace(kept, request="unknown"), str)
