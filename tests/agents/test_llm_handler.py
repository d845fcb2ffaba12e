"""A handler that asks Claude, by itself and in a worker."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest
from tests.agents.model_server import Answers, Fails, Hangs, ModelServer, says, uses
from tests.agents.programs import COUNT, NUMBERS, program, said

from afl.agents.adapters.scripted import ScriptedAdapter
from afl.agents.budget import Budget
from afl.agents.errors import (
    BudgetExceeded,
    InvalidAnswer,
    ModelError,
    ModelRefused,
    ModelUnavailable,
)
from afl.clock import SYSTEM_CLOCK
from afl.runtime import (
    Evaluator,
    ExecutionStatus,
    LLMHandler,
    LLMHandlerConfig,
    PersistenceAPI,
    ToolDefinition,
    ToolRegistry,
    tool_definitions,
)
from afl.runtime.agent_poller import AgentPoller, AgentPollerConfig
from afl.runtime.dispatch import HandlerContext
from afl.runtime.entities import TaskDefinition

SUM = ToolDefinition(
    "give_sum",
    "Gives the sum.",
    {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]},
)
PAYLOAD = {"a": 1, "b": [2], "_facet_name": "math.Add", "_handler_metadata": {}}


def handler(server: ModelServer, **options: Any) -> LLMHandler:
    return LLMHandler(server.client(), **{"tool_definitions": [SUM], **options})


def test_the_answer_is_what_the_tool_was_used_with() -> None:
    with ModelServer(uses("give_sum", {"sum": 3})) as server:
        assert handler(server).handle(PAYLOAD) == {"sum": 3}
        sent = server.requests[0]
    told = sent["messages"][0]["content"][0]["text"]
    assert told == "Step: math.Add\nParameters:\n- a: 1\n- b: [2]"


def test_without_tools_the_words_are_the_answer() -> None:
    with ModelServer(says("three")) as server:
        assert handler(server, tool_definitions=None).handle(PAYLOAD) == {"text": "three"}
        assert "tool_choice" not in server.requests[0]


def test_a_template_and_a_configuration_say_how_it_is_asked() -> None:
    config = LLMHandlerConfig(model="claude-x", system_prompt="You add.", max_tokens=77)
    with ModelServer(uses("give_sum", {"sum": 3})) as server:
        asked = handler(server, config=config, prompt_template="{a} + {b} {{or}} {c}")
        asked.handle(PAYLOAD)
        sent = server.requests[0]
    assert (sent["model"], sent["system"], sent["max_tokens"]) == ("claude-x", "You add.", 77)
    assert sent["messages"][0]["content"][0]["text"] == "1 + [2] {or} {c}"


def test_definitions_with_a_handler_are_helpers() -> None:
    registry = ToolRegistry()
    registry.register("double", lambda payload: {"twice": payload["n"] * 2})
    double = ToolDefinition("double", "Doubles.", {"type": "object"})
    with ModelServer(uses("double", {"n": 4}), uses("give_sum", {"sum": 8})) as server:
        asked = handler(server, tool_definitions=[SUM, double], tool_registry=registry)
        assert asked.handle(PAYLOAD) == {"sum": 8}
        result = server.requests[1]["messages"][2]["content"][0]
    assert result["content"] == '{"twice":8}'


def test_of_many_definitions_that_of_the_facet_is_used() -> None:
    definitions = tool_definitions(program(COUNT)).values()
    with ModelServer(uses("many-Say", {"word": "x"})) as server:
        asked = handler(server, tool_definitions=[SUM, *definitions])
        assert asked.handle({"n": 1, "_facet_name": "many.Say"}) == {"word": "x"}
        assert [each["name"] for each in server.requests[0]["tools"]] == ["many-Say"]


def test_an_answer_that_stays_wrong_raises_its_reason() -> None:
    config = LLMHandlerConfig(max_retries=0)
    with (
        ModelServer(uses("give_sum", {"sum": "three"})) as server,
        pytest.raises(InvalidAnswer, match=r"Expected `int`, got `str` - at `\$.sum`"),
    ):
        handler(server, config=config).handle(PAYLOAD)


def test_what_was_used_is_logged_also_when_it_failed() -> None:
    lines: list[str] = []
    task = TaskDefinition("t", "math.Add", "r", "w", "f", "s")
    context = HandlerContext(task, on_log=lambda message, level: lines.append(message))
    answers = [uses("give_sum", {"sum": 3}, input_tokens=7, output_tokens=2)]
    with ModelServer(*answers, Fails(400, "invalid_request_error")) as server:
        asked = handler(server, config=LLMHandlerConfig(model="claude-x"))
        asked.handle(PAYLOAD, context)
        with pytest.raises(ModelRefused):
            asked.handle(PAYLOAD, context)
    assert lines == [
        "claude-x: 1 call, 7 tokens in, 2 out",
        "claude-x: 0 calls, 0 tokens in, 0 out",
    ]


def test_every_answer_is_a_sign_of_life() -> None:
    beats: list[int] = []
    task = TaskDefinition("t", "math.Add", "r", "w", "f", "s")
    context = HandlerContext(task, on_heartbeat=lambda: beats.append(1))
    with ModelServer(says("hm"), uses("give_sum", {"sum": 3})) as server:
        handler(server).handle(PAYLOAD, context)
    assert len(beats) == 2


def test_nobody_is_asked_for_an_answer_that_nobody_wants() -> None:
    task = TaskDefinition("t", "math.Add", "r", "w", "f", "s")
    context = HandlerContext(task)

    def reply(request: dict[str, Any]) -> Answers:
        context.cancellation.set()
        return says("hm")

    with ModelServer(reply) as server:
        with pytest.raises(ModelError, match="nobody wants the answer any more"):
            handler(server).handle(PAYLOAD, context)
        assert server.calls == 1


def test_an_answer_has_to_come_before_the_deadline_of_the_task() -> None:
    task = TaskDefinition("t", "math.Add", "r", "w", "f", "s")
    context = HandlerContext(task, SYSTEM_CLOCK.now() + timedelta(seconds=0.3))
    with ModelServer(Hangs()) as server, pytest.raises(ModelUnavailable):
        handler(server).handle(PAYLOAD, context)


def test_a_budget_is_shared_by_all_tasks_of_a_handler() -> None:
    with ModelServer(uses("give_sum", {"sum": 3})) as server:
        asked = handler(server, budget=Budget(max_calls=1))
        asked.handle(PAYLOAD)
        with pytest.raises(BudgetExceeded):
            asked.handle(PAYLOAD)


# Coroutines


def test_a_coroutine_gives_the_same_answer() -> None:
    registry = ToolRegistry()

    async def double(payload: dict[str, Any]) -> dict[str, Any]:
        return {"twice": payload["n"] * 2}

    def halve(payload: dict[str, Any]) -> dict[str, Any]:
        raise ArithmeticError(payload["n"])

    registry.register("double", double)
    registry.register("halve", halve)
    helpers = [ToolDefinition(each, "", {"type": "object"}) for each in ("double", "halve")]
    both = ({"type": "tool_use", "id": f"t{n}", "name": n, "input": {"n": 3}} for n in
            ("double", "halve"))  # fmt: skip
    with ModelServer(Answers(tuple(both), "tool_use"), uses("give_sum", {"sum": 8})) as server:
        asked = handler(server, tool_definitions=[SUM, *helpers], tool_registry=registry)
        assert asyncio.run(asked.handle_async(PAYLOAD)) == {"sum": 8}
        results = server.requests[1]["messages"][2]["content"]
    assert [each["content"] for each in results] == ['{"twice":6}', "ArithmeticError: 3"]


def test_a_script_can_stand_for_the_model_in_both_ways() -> None:
    from afl.agents.adapters.scripted import calls as scripted

    asked = LLMHandler(
        adapter=ScriptedAdapter(default=scripted("give_sum", {"sum": 1})), tool_definitions=[SUM]
    )
    assert asked.handle(PAYLOAD) == asyncio.run(asked.handle_async(PAYLOAD)) == {"sum": 1}


# In a worker


def test_a_poller_does_tasks_with_claude(store: PersistenceAPI) -> None:
    evaluator = Evaluator(store)
    compiled = program(COUNT)
    run_id = evaluator.submit(compiled, "Each", NUMBERS)
    with ModelServer(said) as server:
        poller = AgentPoller(store, evaluator)
        asked = handler(server, tool_definitions=tool_definitions(compiled).values())
        poller.register("many.Say", asked.handle)
        while poller.poll_once():
            pass
    result = evaluator.result(run_id)
    assert result.status == ExecutionStatus.COMPLETED
    assert result.outputs == {"words": ["1", "2", "3", "4"]}
    run = store.get_run(run_id)
    assert run is not None
    lines = [each.message for each in store.get_logs_by_runner(run.uuid)]
    assert sum("tokens in" in each for each in lines) == 4


def test_a_worker_with_one_thread_waits_for_many_answers_at_once(store: PersistenceAPI) -> None:
    count = 30
    evaluator, compiled = Evaluator(store), program(COUNT)
    run_id = evaluator.submit(compiled, "Each", {"numbers": [1] * count})
    all_here = threading.Barrier(count)

    def reply(request: dict[str, Any]) -> Any:
        all_here.wait(30)
        return said(request)

    with ModelServer(reply) as server:
        config = AgentPollerConfig(max_concurrent=count, threads=1)
        poller = AgentPoller(store, evaluator, config)
        asked = handler(server, tool_definitions=tool_definitions(compiled).values())
        poller.register_async("many.Say", asked.handle_async)
        thread = threading.Thread(target=poller.start, daemon=True)
        thread.start()
        assert store.wait_for_run(run_id, 40)
        poller.stop()
        thread.join()
    assert evaluator.result(run_id).outputs == {"words": ["1"] * count}
