"""What single tools and resources say and do."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from tests.mcp.inside import backend_with, called, talk, text_of

from afl import telemetry
from afl.mcp.access import READER
from afl.mcp.arguments import Arguments, read, schema_of
from afl.mcp.backend import Backend
from afl.mcp.tools import TOOLS
from afl.operations.turns import open_question
from afl.runtime.entities import FlowDefinition, FlowIdentity, TaskState, WorkflowDefinition
from afl.runtime.errors import StaleFence
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore
from afl.turns import NewTurn, Turn, TurnSuspended
from afl.turns.api import TurnStore
from afl.turns.memory import MemoryTurns
from afl.turns.values import encode

WORK = """
event facet Do(n: Long) => (n: Long)

workflow W(n: Long) => (n: Long) andThen {
    done = Do(n = $.n)
    yield W(n = done.n)
}
"""


async def _started(client: Client) -> str:
    return str((await called(client, "W", n=1, wait_seconds=0))["workflow_id"])


# Acting on runs


def test_pause_keeps_tasks_from_workers_and_resume_gives_them() -> None:
    backend = backend_with(WORK)

    async def main(client: Client) -> None:
        run_id = await _started(client)
        paused = await called(client, "afl_manage_runner", runner_id=run_id, action="pause")
        assert (paused["state"], paused["changed"]) == ("paused", True)
        assert backend.store.claim_tasks(["Do"], 1) == []
        waited = await called(client, "afl_runs", workflow_id=run_id, wait_seconds=600)
        assert "action resume" in waited["note"]
        again = await called(client, "afl_manage_runner", runner_id=run_id, action="pause")
        assert again["success"]
        assert not again["changed"]
        await called(client, "afl_manage_runner", runner_id=run_id, action="resume")
        assert len(backend.store.claim_tasks(["Do"], 1)) == 1

    talk(backend, main)


def test_cancel_takes_a_claimed_task_from_its_worker() -> None:
    backend = backend_with(WORK)

    async def main(client: Client) -> None:
        run_id = await _started(client)
        (task,) = backend.store.claim_tasks(["Do"], 1)
        cancelled = await called(client, "afl_manage_runner", runner_id=run_id, action="cancel")
        assert cancelled["state"] == "cancelled"
        with pytest.raises(StaleFence):
            backend.evaluator.complete_task(task, {"n": 1})
        shown = await called(client, "afl_runs", workflow_id=run_id)
        assert shown["success"]
        assert shown["status"] == "ERROR"
        assert "was cancelled" in shown["note"]

    talk(backend, main)


def test_a_run_is_found_by_the_beginning_of_its_id() -> None:
    async def main(client: Client) -> None:
        run_id = await _started(client)
        found = await called(client, "afl_runs", workflow_id=run_id[:13])
        assert found["workflow_id"] == run_id

    talk(backend_with(WORK), main)


def test_all_failed_steps_of_a_run_are_tried_again() -> None:
    backend = backend_with(WORK)

    async def main(client: Client) -> None:
        run_id = await _started(client)
        none = await called(client, "afl_retry_step", workflow_id=run_id)
        assert "no failed tasks" in none["error"]
        (task,) = backend.store.claim_tasks(["Do"], 1)
        backend.evaluator.fail_task(task, "no luck")
        retried = await called(client, "afl_retry_step", workflow_id=run_id)
        assert retried["retried"] == [task.step_id]
        stored = backend.store.get_task(task.uuid)
        assert stored is not None
        assert stored.state == TaskState.PENDING
        both = await called(client, "afl_retry_step", workflow_id=run_id, step_id=task.step_id)
        assert both["error"].startswith("say either step_id, or workflow_id")

    talk(backend, main)


def test_resuming_with_another_program_says_that_the_stored_one_counts() -> None:
    async def main(client: Client) -> None:
        run_id = await _started(client)
        given = {"workflow_id": run_id, "wait_seconds": 0}
        same = await called(client, "afl_resume_workflow", **given, source=WORK)
        assert "another program" not in same["note"]
        other = await called(client, "afl_resume_workflow", **given, source="workflow X()")
        assert "another program" in other["note"]
        wrong = await called(client, "afl_resume_workflow", **given, source="workflow (")
        assert wrong["errors"]

    talk(backend_with(WORK), main)


def test_a_step_that_has_gone_on_takes_no_second_result() -> None:
    backend = backend_with(WORK)

    async def main(client: Client) -> None:
        await _started(client)
        (task,) = backend.store.get_all_tasks()
        for number in (1, 2):
            given = {"step_id": task.step_id, "result": {"n": number}}
            assert (await called(client, "afl_continue_step", **given))["success"]
        shown = await called(client, "afl_runs", workflow_id=task.workflow_id)
        assert shown["outputs"] == {"n": 1}

    talk(backend, main)


# What is said


@pytest.mark.parametrize(
    ("tool", "given", "told"),
    [
        ("afl_compile", {}, "source is required"),
        ("afl_compile", {"source": 1}, "Invalid source: Expected `str`, got `int`"),
        ("afl_compile", {"sauce": "x", "source": ""}, "did you mean 'source'?"),
        ("afl_manage_runner", {"runner_id": "x", "action": "stop"}, "Invalid action: 'stop'; use"),
        ("afl_manage_runner", {"runner_id": "x", "action": "pause"}, "Runner 'x' not found"),
        ("afl_continue_step", {"step_id": "x"}, "Step 'x' not found"),
        ("afl_resume_workflow", {"workflow_id": "nothing"}, "Run 'nothing' not found"),
        ("afl_manage_handlers", {"action": "get"}, "facet_name is required for get"),
        (
            "afl_manage_handlers",
            {"action": "register", "facet_name": "t.F"},
            "module_uri is required for register",
        ),
        (
            "afl_manage_handlers",
            {"action": "register", "facet_name": "t F", "module_uri": "m"},
            "'t F' is no name of a facet",
        ),
        ("afl_manage_handlers", {"action": "delete", "facet_name": "t.F"}, "Handler 't.F' not"),
        ("afl_turns", {"action": "get"}, "turn_id is required for get"),
        ("afl_turns", {"action": "settle", "turn_id": "x"}, "outcome is required for settle"),
        ("afl_turns", {"action": "answer", "turn_id": "x"}, "answer is required for answer"),
        ("afl_turns", {"state": "asleep"}, "'asleep' is no state of a turn"),
        ("afl_runs", {"state": "asleep"}, "there is no state 'asleep'"),
        ("afl_runs", {"limit": 0}, "Invalid limit"),
        (
            "afl_execute_workflow",
            {"source": WORK, "workflow_name": "V"},
            "Workflow 'V' not found in source",
        ),
        ("Nothing", {}, "there is no tool 'Nothing'"),
    ],
)
def test_what_is_wrong_with_a_call_is_told_in_words_to_act_on(
    tool: str, given: dict[str, Any], told: str
) -> None:
    async def main(client: Client) -> None:
        result = await client.call_tool(tool, given)
        assert result.is_error
        assert told in result.structured_content["error"]

    talk(backend_with(), main)


def test_a_question_of_a_turn_is_answered_with_null_only_if_that_is_said() -> None:
    turns = MemoryTurns()
    record = turns.accept(NewTurn("shop", encode({"say": "hi"})))
    with pytest.raises(TurnSuspended):
        Turn(turns, turns.begin(record.id, "somebody", 30_000)).wait_for_input("which one?")
    store = MemoryStore()
    backend = Backend(store, Evaluator(store), lambda: turns)

    async def main(client: Client) -> None:
        given = {"action": "answer", "turn_id": record.id}
        refused = await called(client, "afl_turns", **given)
        assert (refused["success"], "any JSON" in refused["error"]) == (False, True)
        assert open_question(turns, turns.get(record.id)) is not None
        assert (await called(client, "afl_turns", **given, answer=None))["success"]

    talk(backend, main)
    again = Turn(turns, turns.begin(record.id, "somebody", 30_000))
    assert again.wait_for_input("which one?") is None


def test_a_defect_is_told_without_its_insides() -> None:
    def broken() -> TurnStore:
        raise ZeroDivisionError("division by zero")

    store = MemoryStore()
    backend = Backend(store, Evaluator(store), broken)

    async def main(client: Client) -> None:
        answer = await called(client, "afl_turns")
        assert "because of a defect" in answer["error"]
        assert "division" not in answer["error"]

    talk(backend, main)


def test_what_only_looks_says_so_and_what_ends_things_says_so() -> None:
    reads = {each.name for each in TOOLS.values() if each.hints.is_read_only}
    assert reads == {"afl_compile", "afl_validate", "afl_runs"}
    ends = {each.name for each in TOOLS.values() if each.hints.is_destructive}
    assert ends == {
        *("afl_manage_runner", "afl_continue_step"),
        *("afl_manage_handlers", "afl_turns"),
    }


def test_a_read_only_server_lets_nobody_act() -> None:
    backend = backend_with(WORK)

    async def main(client: Client) -> None:
        assert "W" not in {each.name for each in (await client.list_tools()).tools}
        assert "operator's token" in (await called(client, "W", n=1))["error"]
        assert (await called(client, "afl_runs"))["runs"] == []

    talk(backend, main, READER)
    assert backend.store.get_all_runners() == []


def test_what_is_done_and_refused_is_told_for_the_audit() -> None:
    backend, heard = backend_with(WORK), list[telemetry.Event]()

    async def acts(client: Client) -> None:
        run_id = await _started(client)
        await called(client, "afl_runs")
        await called(client, "afl_manage_runner", runner_id=run_id, action="cancel")

    async def tries(client: Client) -> None:
        await called(client, "W", n=1)

    unsubscribe = telemetry.subscribe(heard.append)
    try:
        talk(backend, acts)
        talk(backend, tries, READER)
    finally:
        unsubscribe()
    told = [each for each in heard if isinstance(each, telemetry.OperatorActed)]
    (run,) = backend.store.get_all_runners()
    assert [(each.caller, each.action, each.subject, each.outcome[:7]) for each in told] == [
        ("mcp operator", "W", "", "done"),
        ("mcp operator", "afl_manage_runner", f"cancel {run.uuid}", "done"),
        (f"mcp {READER.name}", "W", "", "refused"),
    ]


def test_steps_beyond_the_limit_are_counted() -> None:
    async def main(client: Client) -> None:
        run_id = await _started(client)
        shown = await called(client, "afl_runs", workflow_id=run_id, steps=True, limit=1)
        assert len(shown["steps"]) == 1
        assert shown["more_steps"] >= 1
        wrong = await called(client, "afl_runs", workflow_id=run_id, steps=True, state="x")
        assert "there are no steps that are 'x'" in wrong["error"]

    talk(backend_with(WORK), main)


# Resources


@pytest.mark.parametrize(
    "uri",
    [
        *("afl://runners/nothing", "afl://runners/nothing/steps", "afl://steps/x", "afl://flows/x"),
        *("afl://servers/nothing", "afl://tasks/nothing", "afl://handlers/t.F", "afl://turns/x"),
        *("afl://elsewhere", "afl://runners/../steps", "file:///etc/passwd"),
    ],
)
def test_a_resource_that_is_not_there_is_an_error_that_names_it(uri: str) -> None:
    async def main(client: Client) -> None:
        with pytest.raises(MCPError, match=r"not found|Unknown resource|no handler|there is no"):
            await client.read_resource(uri)

    talk(backend_with(), main)


def test_tasks_that_nobody_serves_are_marked() -> None:
    async def main(client: Client) -> None:
        await _started(client)
        (task,) = json.loads(text_of((await client.read_resource("afl://tasks")).contents[0]))
        assert task["is_unserved"]

    talk(backend_with(WORK), main)


def test_a_stored_program_that_cannot_be_read_hides_no_other() -> None:
    backend = backend_with(WORK)
    _save_broken(backend)

    async def main(client: Client) -> None:
        offered = {each.name for each in (await client.list_tools()).tools}
        assert "W" in offered
        assert "Broken" not in offered

    talk(backend, main)


def _save_broken(backend: Backend) -> None:
    flow = FlowDefinition("f", FlowIdentity("", "", "f"), program='{"type": "Nothing"}')
    backend.store.save_flow(flow)
    backend.store.save_workflow(WorkflowDefinition("w", "Broken", "", "", "f", "", "1"))


# Types


class Inner(msgspec.Struct):
    x: int


class Outer(Arguments):
    inner: Inner
    name: str = "n"


def test_schemas_are_objects_and_hold_what_they_refer_to() -> None:
    schema = schema_of(Outer)
    assert schema["type"] == "object"
    assert schema["properties"]["inner"] == {"$ref": "#/$defs/Inner"}
    assert schema["$defs"]["Inner"]["properties"] == {"x": {"type": "integer"}}
    assert read(Outer, {"inner": {"x": 1}}).name == "n"
