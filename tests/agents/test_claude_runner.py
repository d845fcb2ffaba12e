"""Workflows whose steps Claude does: the real client, a service on loopback, real stores."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.agents.model_server import Answers, Fails, Hangs, ModelServer, Reply, says, uses
from tests.agents.programs import COUNT, NUMBERS, program, said
from tests.docs.pages import ROOT

from afl.agents.adapters.anthropic import AnthropicAdapter
from afl.agents.adapters.scripted import ScriptedAdapter, calls
from afl.agents.budget import Budget
from afl.agents.errors import BudgetExceeded
from afl.backoff import Backoff
from afl.errors import UsageError
from afl.runtime import (
    ClaudeAgentRunner,
    Evaluator,
    ExecutionResult,
    ExecutionStatus,
    LogDefinition,
    MemoryStore,
    PersistenceAPI,
    SqliteStore,
    StepFailure,
    TaskDefinition,
    TaskState,
    ToolRegistry,
)
from afl.runtime.types import StepId

LETTERS = """
namespace mail.desk

schema Place { city: String, zip: Long }

/** Judges a letter.
 * @return mood one word
 */
event facet Judge(letter: String) => (mood: String, score: Double, from: Place) prompt {
    system "You judge letters to {letter}."
    template "Judge as {{mood}}: {letter}"
    model "claude-judge"
}

event facet Reply(mood: String, score: Double) => (text: String)

workflow Answer(letter: String) => (text: String, city: String) andThen {
    judged = Judge(letter = $.letter)
    reply = Reply(mood = judged.mood, score = judged.score)
    yield Answer(text = reply.text, city = judged.from.city)
}
"""
JUDGED = {"mood": "sad", "score": 2, "from": {"city": "Ulm", "zip": 89073}}
INPUTS = {"letter": "Dear all"}


class Office:
    """A store, an evaluator, and runners that ask a server."""

    def __init__(self, store: PersistenceAPI) -> None:
        self.store = store
        self.evaluator = Evaluator(store)

    def runner(self, server: ModelServer, **options: Any) -> ClaudeAgentRunner:
        if "adapter" not in options:
            given = {"budget": options.pop("budget", None), "backoff": Backoff(0, maximum=0)}
            options["adapter"] = AnthropicAdapter(server.client(), **given)
        return ClaudeAgentRunner(self.evaluator, self.store, **options)

    def run(
        self,
        server: ModelServer,
        text: str = LETTERS,
        workflow: str = "Answer",
        inputs: dict[str, Any] | None = None,
        **options: Any,
    ) -> ExecutionResult:
        runner = self.runner(server, **options)
        return runner.run({"name": workflow}, INPUTS if inputs is None else inputs, program(text))

    def tasks(self, result: ExecutionResult) -> list[TaskDefinition]:
        found = self.store.get_all_tasks()
        return [each for each in found if each.workflow_id == result.workflow_id]

    def usage(self, result: ExecutionResult) -> list[LogDefinition]:
        run = self.store.get_run(result.workflow_id)
        assert run is not None
        lines = self.store.get_logs_by_runner(run.uuid)
        return [each for each in lines if each.object_type == "model"]


@pytest.fixture
def office(store: PersistenceAPI) -> Office:
    return Office(store)


# Answers


def test_claude_does_the_steps_of_a_namespaced_workflow(office: Office) -> None:
    answers = [uses("mail-desk-Judge", JUDGED), uses("mail-desk-Reply", {"text": "Oh"})]
    with ModelServer(*answers) as server:
        result = office.run(server)
        assert server.calls == 2
    assert result.success
    assert result.status == ExecutionStatus.COMPLETED
    assert result.outputs == {"text": "Oh", "city": "Ulm"}


def test_the_prompt_of_a_facet_says_how_it_is_asked(office: Office) -> None:
    answers = [uses("mail-desk-Judge", JUDGED), uses("mail-desk-Reply", {"text": "Oh"})]
    with ModelServer(*answers) as server:
        office.run(server, model="claude-other", system_prompt="You write.")
        judge, reply = server.requests
    assert judge["model"] == "claude-judge"
    assert judge["system"] == "You judge letters to Dear all."
    assert judge["messages"][0]["content"][0]["text"] == "Judge as {mood}: Dear all"
    assert reply["model"] == "claude-other"
    assert reply["system"] == "You write."
    told = reply["messages"][0]["content"][0]["text"]
    assert "mail.desk.Reply" in told
    assert "mood: sad" in told


def test_what_a_facet_returns_is_the_schema_of_its_answer(office: Office) -> None:
    answers = [uses("mail-desk-Judge", JUDGED), uses("mail-desk-Reply", {"text": "Oh"})]
    with ModelServer(*answers) as server:
        office.run(server)
        judge = server.requests[0]
    (tool,) = judge["tools"]
    assert judge["tool_choice"] == {"type": "tool", "name": tool["name"]}
    assert "Judges a letter." in tool["description"]
    assert tool["input_schema"]["required"] == ["mood", "score", "from"]
    assert tool["input_schema"]["properties"] == {
        "mood": {"type": "string", "description": "one word"},
        "score": {"type": "number"},
        "from": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "zip": {"type": "integer"}},
            "required": ["city", "zip"],
            "additionalProperties": False,
        },
    }


def test_the_task_of_the_run_is_told_with_every_step(office: Office) -> None:
    answers = [uses("mail-desk-Judge", JUDGED), uses("mail-desk-Reply", {"text": "Oh"})]
    with ModelServer(*answers) as server:
        runner = office.runner(server)
        workflow = {"name": "Answer"}
        runner.run(workflow, INPUTS, program(LETTERS), task_description="Be kind.")
        assert all("Be kind." in each["system"] for each in server.requests)


def test_fields_that_the_facet_does_not_declare_are_dropped(office: Office) -> None:
    text = "event facet F() => (a: Long)\nworkflow W() => (a: Long) andThen {\n"
    text += "    f = F()\n    yield W(a = f.a)\n}\n"
    with ModelServer(uses("F", {"a": 1, "because": "I like it"})) as server:
        result = office.run(server, text, "W", {})
    (task,) = office.tasks(result)
    step = office.store.get_step(StepId(task.step_id))
    assert step is not None
    assert set(step.attributes.returns) == {"a"}
    assert result.outputs == {"a": 1}


# Answers that are none


def test_an_invalid_answer_is_told_and_corrected(office: Office) -> None:
    answers = [
        says("I think it is sad"),
        uses("mail-desk-Judge", {**JUDGED, "score": "two"}),
        uses("mail-desk-Judge", JUDGED),
        uses("mail-desk-Reply", {"text": "Oh"}),
    ]
    with ModelServer(*answers) as server:
        result = office.run(server)
        second, third = server.requests[1:3]
    assert result.outputs["text"] == "Oh"
    assert "answer with the tool" in second["messages"][2]["content"][0]["text"]
    told = third["messages"][4]["content"][0]
    assert told["is_error"] is True
    assert told["tool_use_id"] == "toolu_1"
    assert "Expected `float`, got `str` - at `$.score`" in told["content"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (says("no"), "answer with the tool mail-desk-Judge"),
        (uses("mail-desk-Judge", {}), "missing required field `mood`"),
        (uses("mail-desk-Judge", {**JUDGED, "mood": None}), "got `null` - at `$.mood`"),
        (uses("mail-desk-Judge", {**JUDGED, "from": {"city": "Ulm"}}), "field `zip`"),
        (uses("mail-desk-Judge", {**JUDGED, "from": {"city": "", "zip": 2**70}}), "64 bits"),
        (uses("mail-desk-Judge", JUDGED, stop_reason="max_tokens"), "cut after 4096 tokens"),
        (uses("something", {}), "answer with the tool mail-desk-Judge"),
        (Answers((), "end_turn"), "answer with the tool mail-desk-Judge"),
    ],
)
def test_a_step_without_a_valid_answer_fails_with_the_reason(answer: Answers, reason: str) -> None:
    office = Office(MemoryStore())
    with ModelServer(answer) as server:
        result = office.run(server, max_retries=1)
        assert server.calls == 2
    assert not result.success
    assert result.status == ExecutionStatus.ERROR
    assert isinstance(result.error, StepFailure)
    assert "claude-judge gave no valid answer in 2 attempts" in result.error.message
    assert reason in result.error.message


def test_a_model_that_declines_is_not_asked_again() -> None:
    office = Office(MemoryStore())
    with ModelServer(says("I must not", stop_reason="refusal")) as server:
        result = office.run(server)
        assert server.calls == 1
    assert "it declined: I must not" in str(result.error)


def test_a_service_that_refuses_fails_the_step() -> None:
    office = Office(MemoryStore())
    with ModelServer(Fails(404, "not_found_error", message="model: claude-judge")) as server:
        result = office.run(server)
    assert "404 not_found_error: model: claude-judge" in str(result.error)
    (task,) = office.tasks(result)
    assert task.state == TaskState.FAILED


def test_a_declared_retry_tries_the_whole_talk_again(office: Office) -> None:
    text = COUNT.replace("(word: String)", '(word: String) with afl.Retry(max = 2, backoff = "0s")')
    with ModelServer(says("no"), uses("many-Say", {"word": "one"})) as server:
        result = office.run(server, text, "Each", {"numbers": [1]}, max_retries=0)
    assert result.outputs == {"words": ["one"]}


# Handlers


def test_handlers_go_before_claude_by_exact_and_by_short_name(office: Office) -> None:
    registry = ToolRegistry()
    registry.register("mail.desk.Judge", lambda payload: JUDGED)
    registry.register("Reply", lambda payload: {"text": f"{payload['mood']}!"})
    with ModelServer(says("nobody asks me")) as server:
        result = office.run(server, tool_registry=registry)
        assert server.calls == 0
    assert result.outputs["text"] == "sad!"


def test_claude_does_only_what_no_handler_serves(office: Office) -> None:
    registry = ToolRegistry()

    async def judge(payload: dict[str, Any], context: Any) -> dict[str, Any]:
        context.log("judging")
        return JUDGED

    registry.register("Judge", judge)
    with ModelServer(uses("mail-desk-Reply", {"text": "Oh"})) as server:
        result = office.run(server, tool_registry=registry)
        assert server.calls == 1
    assert result.outputs["text"] == "Oh"


def test_a_handler_that_raises_fails_its_step() -> None:
    office, registry = Office(MemoryStore()), ToolRegistry()

    def judge(payload: dict[str, Any]) -> dict[str, Any]:
        raise ValueError("unreadable")

    registry.register("Judge", judge)
    with ModelServer(says("nobody asks me")) as server:
        result = office.run(server, tool_registry=registry)
    assert isinstance(result.error, StepFailure)
    assert (result.error.message, result.error.error_type) == ("unreadable", "ValueError")


# Tools that Claude uses on its way


def test_claude_may_use_tools_before_it_answers(office: Office) -> None:
    asked: list[str] = []

    def look_up(city: str, limit: int = 1) -> list[int]:
        """Finds the postal codes of a city."""
        asked.append(city)
        if city == "Atlantis":
            raise LookupError("not on the map")
        return [89073][:limit]

    answers = [
        uses("look_up", {"city": "Atlantis"}, "t1"),
        uses("look_up", {"city": 5}, "t2"),
        uses("look_up", {"city": "Ulm"}, "t3"),
        uses("mail-desk-Judge", JUDGED),
        uses("mail-desk-Reply", {"text": "Oh"}),
    ]
    with ModelServer(*answers) as server:
        result = office.run(server, tools=[look_up])
        requests = server.requests
    assert result.success
    assert asked == ["Atlantis", "Ulm"]
    assert requests[0]["tool_choice"] == {"type": "any"}
    results = [each["content"][0] for each in requests[3]["messages"] if each["role"] == "user"][1:]
    assert [each["tool_use_id"] for each in results] == ["t1", "t2", "t3"]
    assert results[0]["content"] == "LookupError: not on the map"
    assert "Expected `str`, got `int`" in results[1]["content"]
    assert results[2]["content"] == "[89073]"


def test_a_model_that_never_comes_to_an_answer_fails_its_step() -> None:
    def ponder() -> str:
        return "hm"

    office = Office(MemoryStore())
    with ModelServer(uses("ponder", {})) as server:
        result = office.run(server, tools=[ponder], max_turns=3)
        assert server.calls == 4
    assert "came to no answer" in str(result.error)


# Usage and budgets


def test_what_a_step_used_is_in_the_log_of_the_run(office: Office) -> None:
    answers = [
        says("hm", input_tokens=10, output_tokens=1),
        uses("mail-desk-Judge", JUDGED, input_tokens=20, output_tokens=2),
        uses("mail-desk-Reply", {"text": "Oh"}, input_tokens=5, output_tokens=5),
    ]
    with ModelServer(*answers) as server:
        result = office.run(server)
    judge, reply = office.usage(result)
    assert judge.message == "claude-judge: 2 calls, 30 tokens in, 3 out"
    assert judge.details["input_tokens"] == 30
    assert judge.details["output_tokens"] == 3
    assert judge.step_id == office.tasks(result)[1].step_id
    assert reply.details["calls"] == 1


def test_what_a_failed_step_used_is_in_the_log_too() -> None:
    office = Office(MemoryStore())
    with ModelServer(says("no")) as server:
        result = office.run(server, max_retries=1)
    (line,) = office.usage(result)
    assert line.details["calls"] == 2


def test_a_run_that_has_spent_its_dispatches_can_be_resumed(office: Office) -> None:
    with ModelServer(said) as server:
        result = office.run(server, COUNT, "Each", NUMBERS, max_dispatches=3)
        assert server.calls == 3
        assert not result.success
        assert result.status == ExecutionStatus.PAUSED
        assert isinstance(result.error, BudgetExceeded)
        assert "allow more with max_dispatches and resume it" in str(result.error)
        resumed = office.runner(server).resume(result.workflow_id)
        assert server.calls == 4
    assert resumed.outputs == {"words": ["1", "2", "3", "4"]}
    assert {each.failures for each in office.tasks(result)} == {0}


@pytest.mark.parametrize("budget", [{"max_tokens": 40}, {"max_calls": 3}], ids=str)
def test_a_run_that_has_spent_its_budget_can_be_resumed(
    office: Office, budget: dict[str, Any]
) -> None:
    with ModelServer(said) as server:
        result = office.run(server, COUNT, "Each", NUMBERS, budget=Budget(**budget))
        assert server.calls == 3
        assert isinstance(result.error, BudgetExceeded)
        assert result.status == ExecutionStatus.PAUSED
        resumed = office.runner(server, budget=Budget(max_calls=1)).resume(result.workflow_id)
    assert resumed.outputs == {"words": ["1", "2", "3", "4"]}


# Its tasks are its own


def test_no_worker_gets_its_tasks(office: Office) -> None:
    taken: list[TaskDefinition] = []
    found: list[TaskDefinition] = []

    def reply(request: dict[str, Any]) -> Reply:
        taken.extend(office.store.claim_tasks(["many.Say"], 10))
        found.extend(office.store.get_tasks_by_state(TaskState.RUNNING))
        return said(request)

    with ModelServer(reply) as server:
        result = office.run(server, COUNT, "Each", {"numbers": [1]})
    assert result.success
    assert taken == []
    assert [each.owner.partition(":")[0] for each in found] == ["claude"]


def test_a_lease_is_renewed_while_the_model_thinks(office: Office) -> None:
    def lease() -> int:
        return office.store.get_tasks_by_state(TaskState.RUNNING)[0].lease_expires

    def reply(request: dict[str, Any]) -> Reply:
        first = lease()
        while lease() == first:
            server.closing.wait(0.01)
        return said(request)

    with ModelServer(reply) as server:
        result = office.run(server, COUNT, "Each", {"numbers": [1]}, lease_ms=900)
    assert result.success
    (task,) = office.tasks(result)
    assert task.deliveries == 1


def test_a_run_that_is_cancelled_meanwhile_takes_no_answer(office: Office) -> None:
    def reply(request: dict[str, Any]) -> Reply:
        (task,) = office.store.get_tasks_by_state(TaskState.RUNNING)
        office.evaluator.cancel(task.workflow_id)  # type: ignore[arg-type]
        return said(request)

    with ModelServer(reply) as server:
        result = office.run(server, COUNT, "Each", {"numbers": [1]})
    assert result.status == ExecutionStatus.ERROR
    (task,) = office.tasks(result)
    assert task.state == TaskState.CANCELED


def test_a_stop_lets_the_step_end_and_the_rest_be_resumed(office: Office) -> None:
    runners: list[ClaudeAgentRunner] = []

    def reply(request: dict[str, Any]) -> Reply:
        if runners:
            runners.pop().request_stop()
        return said(request)

    with ModelServer(reply) as server:
        runner = office.runner(server)
        runners.append(runner)
        stopped = runner.run({"name": "Each"}, NUMBERS, program(COUNT))
        assert stopped.status == ExecutionStatus.PAUSED
        assert stopped.success
        assert server.calls == 1
        resumed = runner.resume(stopped.workflow_id)
        assert server.calls == 4
    assert resumed.outputs == {"words": ["1", "2", "3", "4"]}


def test_two_runners_share_a_run_without_doing_a_step_twice(office: Office) -> None:
    both = threading.Barrier(2)

    def reply(request: dict[str, Any]) -> Reply:
        both.wait(30)  # two are at work at the same time
        return said(request)

    with ModelServer(reply) as server:
        results: list[ExecutionResult] = []

        def run() -> None:
            runner = office.runner(server)
            done = runner.run({"name": "Each"}, NUMBERS, program(COUNT), key="once")
            results.append(done)

        threads = [threading.Thread(target=run, daemon=True) for _ in range(2)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert server.calls == 4
    assert len({each.workflow_id for each in results}) == 1
    assert all(each.outputs == {"words": ["1", "2", "3", "4"]} for each in results)


def test_a_process_that_is_killed_while_the_model_thinks_loses_nothing(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'afl.db'}"
    asked = threading.Event()

    def hang(request: dict[str, Any]) -> Reply:
        asked.set()
        return Hangs()

    with ModelServer(said, said, hang, said) as server:
        command = [sys.executable, "-m", "tests.agents.claude_child", database, server.url]
        with subprocess.Popen(command, cwd=ROOT) as child:
            assert asked.wait(50)
            child.kill()
        office = Office(SqliteStore(database))
        runner = office.runner(server)
        result = runner.run({"name": "Each"}, NUMBERS, program(COUNT), key="killed")
        assert server.calls == 5
    assert result.outputs == {"words": ["1", "2", "3", "4"]}
    assert sorted(each.deliveries for each in office.tasks(result)) == [1, 1, 1, 2]
    office.store.close()


def test_a_run_for_workers_is_refused(office: Office) -> None:
    run_id = office.evaluator.submit(program(COUNT), "Each", NUMBERS)
    with ModelServer(said) as server, pytest.raises(UsageError, match="task list 'default'"):
        office.runner(server).resume(run_id)


def test_a_run_that_is_over_is_only_told(office: Office) -> None:
    with ModelServer(said) as server:
        result = office.run(server, COUNT, "Each", {"numbers": [7]})
        again = office.runner(server).resume(result.workflow_id)
        assert server.calls == 1
    assert again.outputs == result.outputs == {"words": ["7"]}


def test_a_workflow_without_events_needs_no_model(
    store: PersistenceAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    text = "workflow W(a: Long) => (b: Long) andThen {\n    yield W(b = $.a + 1)\n}\n"
    result = ClaudeAgentRunner(Evaluator(store), store).run({"name": "W"}, {"a": 1}, program(text))
    assert result.outputs == {"b": 2}


# Who can be asked


def test_without_a_key_the_caller_is_told_and_can_go_on_with_one(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    runner = ClaudeAgentRunner(office.evaluator, office.store)
    workflow = {"name": "Each"}
    with pytest.raises(UsageError, match=r"set ANTHROPIC_API_KEY.*afl\[anthropic\]"):
        runner.run(workflow, NUMBERS, program(COUNT), key="k")
    with ModelServer(said) as server:
        result = office.runner(server).run(workflow, NUMBERS, program(COUNT), key="k")
    assert result.outputs == {"words": ["1", "2", "3", "4"]}
    assert {each.deliveries for each in office.tasks(result)} == {1}


def test_a_client_that_was_given_is_used(office: Office) -> None:
    with ModelServer(said) as server:
        runner = ClaudeAgentRunner(office.evaluator, office.store, anthropic_client=server.client())
        result = runner.run({"name": "Each"}, {"numbers": [1]}, program(COUNT).to_dict())
    assert result.outputs == {"words": ["1"]}


def test_any_adapter_can_answer(office: Office) -> None:
    adapter = ScriptedAdapter([calls("many-Say", {"word": "uno"})])
    runner = ClaudeAgentRunner(office.evaluator, office.store, adapter=adapter)
    result = runner.run({"name": "Each"}, {"numbers": [1]}, program(COUNT))
    assert result.outputs == {"words": ["uno"]}


@pytest.mark.parametrize(
    "beside",
    [lambda: {"anthropic_client": object()}, lambda: {"budget": Budget()}],
    ids=["client", "budget"],
)
def test_an_adapter_brings_its_own_client_and_budget(
    beside: Callable[[], dict[str, Any]],
) -> None:
    store = MemoryStore()
    with pytest.raises(UsageError, match="an adapter has its own client and budget"):
        ClaudeAgentRunner(Evaluator(store), store, adapter=ScriptedAdapter(), **beside())
