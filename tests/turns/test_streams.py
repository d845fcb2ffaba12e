"""Words of models in the streams of turns: from any loop, and across whoever does the turn."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from tests.agents.model_server import Cuts, ModelServer
from tests.agents.model_server import says as answers_with
from tests.loops.agents import Agent
from tests.loops.office import PATIENCE_S, Office, Running, eventually

from afl.agents.adapters.anthropic import AnthropicAdapter
from afl.agents.adapters.scripted import Entry, ScriptedAdapter, Speaks, calls, says, speaks
from afl.agents.errors import ModelUnavailable
from afl.agents.listening import Listener
from afl.agents.model import ModelRequest
from afl.backoff import Backoff
from afl.loops import AgentLoopRequest, Durability, RunContext, Turn
from afl.loops.durable import new_turn
from afl.mailbox import DLQPolicy
from afl.turns import Delta, Kind, MemoryTurns, NewTurn, TurnState, TurnStore
from afl.turns.values import encode


def heard(store: TurnStore) -> list[Any]:
    """All events of the only turn, in their order."""
    found = [each for turn in store.list() for each in store.read_stream(turn.id)]
    return [each.text if isinstance(each, Delta) else each.kind for each in found]


def is_heard(store: TurnStore, text: str) -> bool:
    return text in heard(store)


def slowly(store: TurnStore, *pieces: str) -> Callable[[ModelRequest], Speaks]:
    """Says the next piece when the last one is in the stream."""

    def speak(_request: ModelRequest) -> Speaks:
        def words() -> Iterator[str]:
            for each in pieces:
                yield each
                eventually(partial(is_heard, store, each))

        return Speaks(words())

    return speak


def test_the_words_of_a_model_are_in_the_stream_before_its_answer(
    office: Office, turns: TurnStore
) -> None:
    adapter = ScriptedAdapter([slowly(turns, "I ", "look")])

    def look(request: str, turn: Turn) -> str:
        return f"{turn.model(lambda: ask(turn))} {turn.model(lambda: 'and nothing else')}"

    def ask(turn: Turn) -> str:
        request = ModelRequest("m", ())
        return adapter.stream(request, turn.stream).text

    office.ask("first")
    with Running(office.loop(look, turns=turns)):
        assert office.outputs(1) == ["I look and nothing else"]
    assert heard(turns) == ["I ", "look", Kind.MODEL, Kind.MODEL]


@pytest.mark.parametrize("concurrency", [1, 100], ids=["thread", "event loop"])
def test_an_agent_streams_by_itself(office: Office, turns: TurnStore, concurrency: int) -> None:
    script: list[Entry] = [calls("shout", {"text": "hi"}), slowly(turns, "It ", "is ", "HI")]
    office.ask("first")
    with Running(Agent(ScriptedAdapter(script), office, turns=turns, concurrency=concurrency)):
        assert office.outputs(1) == ["It is HI"]
    tools = [Kind.MODEL, Kind.TOOL_INTENT, Kind.TOOL_DONE]
    assert heard(turns) == [*tools, "It ", "is ", "HI", Kind.MODEL]


def test_turns_that_come_from_the_store_are_streamed_too(office: Office, turns: TurnStore) -> None:
    request = AgentLoopRequest("first")
    turns.accept(NewTurn("shop", encode(request), request.request_id, is_due=True))
    with Running(
        Agent(ScriptedAdapter([slowly(turns, "a", "b")]), office, turns=turns, name="shop")
    ):
        eventually(lambda: turns.list()[0].state is TurnState.DONE)
    assert heard(turns) == ["a", "b", Kind.MODEL]


def test_a_loop_may_keep_the_words_for_itself(memory_office: Office) -> None:
    store = MemoryTurns()
    adapter = ScriptedAdapter([speaks("a", "b")])
    memory_office.ask("first")
    quiet = Durability(store, is_streaming=False)
    with Running(Agent(adapter, memory_office, turns=quiet)):
        assert memory_office.outputs(1) == ["ab"]
    assert heard(store) == [Kind.MODEL]


def test_a_listener_hears_the_same_words(memory_office: Office) -> None:
    told: list[str] = []
    store = MemoryTurns()

    class Listening(Agent):
        def listener_for(self, context: RunContext) -> Listener:
            return told.append

    adapter = ScriptedAdapter([slowly(store, "a", "b")])
    memory_office.ask("first")
    with Running(Listening(adapter, memory_office, turns=store)):
        assert memory_office.outputs(1) == ["ab"]
    assert (told, heard(store)) == (["a", "b"], ["a", "b", Kind.MODEL])


# What is void


def test_what_a_lost_process_has_said_is_void_for_whoever_follows(
    office: Office, turns: TurnStore
) -> None:
    office.ask("first")
    message = office.take()
    accepted = turns.accept(new_turn("shop", message))
    lost = turns.begin(accepted.id, message.id, 60_000)
    turns.stream(lost.claim, 0, "model", "It was")
    message.release()
    with Running(
        Agent(ScriptedAdapter([slowly(turns, "It is")]), office, turns=turns, name="shop")
    ):
        (answer,) = office.answers(1)
    assert answer.output == "It is"
    assert heard(turns) == ["It was", None, "It is", Kind.MODEL]


def test_what_was_said_before_a_failure_is_void_while_the_turn_waits_for_its_next_try(
    office: Office, turns: TurnStore
) -> None:
    def fails(_request: ModelRequest) -> Speaks:
        def words() -> Iterator[str | BaseException]:
            yield "half"
            eventually(lambda: "half" in heard(turns))
            yield ModelUnavailable("cut")

        return Speaks(words())

    may_end = threading.Event()

    def goes_on(_request: ModelRequest) -> Any:
        assert may_end.wait(PATIENCE_S)
        return says("whole")

    policy: DLQPolicy[Any] = DLQPolicy(backoff=Backoff(initial=0.01, maximum=0.01))
    office.ask("first")
    with Running(Agent(ScriptedAdapter([fails, goes_on]), office, turns=turns, dlq=policy)):
        eventually(lambda: heard(turns) == ["half", None])
        may_end.set()
        assert office.outputs(1) == ["whole"]
    assert heard(turns) == ["half", None, Kind.MODEL]


def test_a_sealed_turn_takes_back_what_its_model_had_said(office: Office, turns: TurnStore) -> None:
    may_end = threading.Event()

    def hangs(_request: ModelRequest) -> Speaks:
        def words() -> Iterator[str]:
            yield "half"
            assert may_end.wait(PATIENCE_S)

        return Speaks(words())

    office.ask("first")
    loop = Agent(ScriptedAdapter([hangs]), office, turns=turns)
    with Running(loop):
        eventually(lambda: heard(turns) == ["half"])
        loop.request_stop()
        loop.checkpoint()
    may_end.set()
    assert heard(turns) == ["half", None, Kind.SEAL]


@pytest.mark.parametrize("concurrency", [1, 100], ids=["thread", "event loop"])
def test_a_stream_of_claude_that_is_cut_is_asked_for_again(
    memory_office: Office, concurrency: int
) -> None:
    """As if nobody listened: an answer that breaks off fails no turn."""
    store = MemoryTurns()
    with ModelServer(Cuts(answers_with("half")), answers_with("whole")) as server:
        adapter = AnthropicAdapter(server.client(), backoff=Backoff(initial=0, maximum=0))
        memory_office.ask("first")
        with Running(Agent(adapter, memory_office, turns=store, concurrency=concurrency)):
            assert memory_office.outputs(1) == ["whole"]
        assert [each.get("stream") for each in server.requests] == [True, True]
        adapter.close()
    *words, last = heard(store)
    assert last is Kind.MODEL
    assert "whole".startswith("".join(good(words)))


def good(words: list[str | None]) -> list[str]:
    """Without what was taken back, in a stream of one call."""
    kept: list[str] = []
    for each in words:
        kept = [] if each is None else [*kept, each]
    return kept
