"""An agent loop that asks Claude through the real client, on a service on loopback."""

from __future__ import annotations

from typing import Any

import pytest
from tests.agents.model_server import Fails, ModelServer, says, uses
from tests.loops.agents import Agent
from tests.loops.office import Office, Running

from afl.agents.adapters.anthropic import AnthropicAdapter
from afl.agents.calling import Listener
from afl.backoff import Backoff
from afl.loops import RunContext


def agent_on(server: ModelServer, office: Office, **options: Any) -> Agent:
    adapter = AnthropicAdapter(server.client(), backoff=Backoff(initial=0, maximum=0))
    return Agent(adapter, office, **options)


def test_claude_answers_with_the_help_of_tools(office: Office) -> None:
    with ModelServer(uses("shout", {"text": "hi"}), says("it is HI")) as server:
        office.ask("hi")
        with Running(agent_on(server, office)):
            assert office.outputs(1) == ["it is HI"]
        result = server.requests[1]["messages"][-1]["content"][0]
    assert (result["tool_use_id"], result["content"]) == ("toolu_1", "HI")


@pytest.mark.parametrize(
    "trouble",
    [
        Fails(429, "rate_limit_error", {"retry-after": "0"}),
        Fails(529, "overloaded_error"),
        Fails(500, "api_error"),
    ],
    ids=lambda each: str(each.status),
)
def test_what_fails_for_a_moment_is_tried_again_within_the_turn(
    memory_office: Office, trouble: Fails
) -> None:
    with ModelServer(trouble, trouble, says("hi")) as server:
        memory_office.ask("hi")
        with Running(agent_on(server, memory_office)):
            (answer,) = memory_office.answers(1)
        assert server.calls == 3
    assert answer.output == "hi"
    assert answer.run_context is not None
    assert answer.run_context.attempt == 1


def test_what_the_service_refuses_is_answered(memory_office: Office) -> None:
    with ModelServer(Fails(400, "invalid_request_error", message="too long")) as server:
        memory_office.ask("hi")
        with Running(agent_on(server, memory_office)):
            (answer,) = memory_office.answers(1)
        assert server.calls == 1
    assert "too long" in str(answer.error)


@pytest.mark.parametrize("concurrency", [1, 100], ids=["thread", "event loop"])
def test_words_are_heard_as_they_come(memory_office: Office, concurrency: int) -> None:
    heard: list[str] = []

    class Streaming(Agent):
        def listener_for(self, context: RunContext) -> Listener:
            return heard.append

    with ModelServer(uses("shout", {"text": "hi"}), says("it is HI")) as server:
        adapter = AnthropicAdapter(server.client())
        memory_office.ask("hi")
        with Running(Streaming(adapter, memory_office, concurrency=concurrency)):
            assert memory_office.outputs(1) == ["it is HI"]
        assert [each["stream"] for each in server.requests] == [True, True]
    assert heard == ["it is HI"]


def test_many_turns_wait_for_claude_on_the_event_loop(memory_office: Office) -> None:
    with ModelServer(says("hi")) as server:
        agent = agent_on(server, memory_office, concurrency=80)
        assert agent.is_async
        memory_office.ask(*(str(each) for each in range(80)))
        with Running(agent):
            assert memory_office.outputs(80) == ["hi"] * 80
