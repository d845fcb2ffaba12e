"""One way through everything: each tool is called and each resource read, on any transport."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp import Client
from tests.mcp.conftest import PROGRAM, Folder
from tests.mcp.inside import text_of

from afl.turns.api import NewTurn
from afl.turns.opening import open_turns


@dataclass
class Tour:
    client: Client
    folder: Folder
    called: set[str] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)

    async def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The result, whose text and structure say the same."""
        result = await self.client.call_tool(tool, arguments)
        answer = result.structured_content
        assert isinstance(answer, dict)
        assert result.is_error is not answer["success"]
        assert json.loads(text_of(result.content[0])) == answer
        self.called.add(tool)
        return answer

    async def done(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        answer = await self.call(tool, **arguments)
        assert answer["success"], answer
        return answer

    async def read(self, uri: str) -> Any:
        found = await self.client.read_resource(uri)
        return json.loads(text_of(found.contents[0]))

    async def see(self, template: str, **variables: str) -> Any:
        """A resource, by its template."""
        self.seen.add(template)
        return await self.read(template.format(**variables))


async def whole_tour(client: Client, folder: Folder) -> Tour:
    tour = Tour(client, folder)
    await _programs(tour)
    await _handlers(tour)
    with folder.worker():
        run_id = await _runs(tour)
        await _operating(tour)
        await _servers(tour)
    turn_id = _new_turn(folder)
    await _turns(tour, turn_id)
    await _records(tour, run_id, turn_id)
    return tour


async def _programs(tour: Tour) -> None:
    compiled = await tour.done("afl_compile", source=PROGRAM)
    assert compiled["json"]["type"] == "Program"
    wrong = await tour.call("afl_compile", source="facet F(x: Strin)")
    assert "did you mean 'String'?" in wrong["errors"][0]
    checked = await tour.done("afl_validate", source="facet F(x: Strin)")
    assert not checked["valid"]
    assert checked["errors"][0]["line"] == 1


async def _handlers(tour: Tour) -> None:
    uri = (tour.folder.path / "handlers.py").as_uri()
    for facet in ("t.Greet", "t.Fail"):
        entrypoint = facet.partition(".")[2].lower()
        registered = await tour.done(
            "afl_manage_handlers",
            action="register",
            facet_name=facet,
            module_uri=uri,
            entrypoint=entrypoint,
        )
        assert registered["handler"]["facet_name"] == facet
    verified = await tour.done("afl_manage_handlers", action="verify", facet_name="t.Greet")
    assert verified["loads"], verified
    listed = await tour.done("afl_manage_handlers", action="list")
    assert [each["facet_name"] for each in listed["handlers"]] == ["t.Fail", "t.Greet"]


async def _runs(tour: Tour) -> str:
    """Runs that are done by a worker with what was registered before."""
    greeted = await tour.done("Hello", name="Ada", wait_seconds=20, idempotency_key="once")
    assert greeted["outputs"] == {"text": "hello hello Ada"}
    again = await tour.done("Hello", name="Ada", idempotency_key="once")
    assert again["workflow_id"] == greeted["workflow_id"]
    executed = await tour.done(
        "afl_execute_workflow", source=PROGRAM, workflow_name="Hello", wait_seconds=20
    )
    assert executed["status"] == "COMPLETED"
    assert executed["outputs"] == {"text": "hello hello you"}
    listed = await tour.done("afl_runs", workflow_name="Hello")
    assert len(listed["runs"]) == 2
    return str(greeted["workflow_id"])


async def _operating(tour: Tour) -> None:
    await _failing(tour)
    asked = await tour.done("Asking", question="why?", wait_seconds=20)
    assert asked["unserved"] == ["t.Ask"]
    assert "Nobody serves t.Ask" in asked["note"]
    run_id = asked["workflow_id"]
    paused = await tour.done("afl_manage_runner", runner_id=run_id, action="pause")
    assert paused["state"] == "paused"
    await tour.done("afl_manage_runner", runner_id=run_id, action="resume")
    shown = await tour.done("afl_runs", workflow_id=run_id, steps=True, state="waiting")
    step = next(each for each in shown["steps"] if each.get("facet_name") == "t.Ask")
    await tour.done("afl_continue_step", step_id=step["id"], result={"answer": "because"})
    resumed = await tour.done("afl_resume_workflow", workflow_id=run_id)
    assert resumed["outputs"] == {"answer": "because"}


async def _failing(tour: Tour) -> None:
    failed = await tour.call("Broken", name="x", wait_seconds=20)
    assert not failed["success"]
    assert failed["error"] == "it is broken"
    shown = await tour.done(
        "afl_runs", workflow_id=failed["workflow_id"], steps=True, state="failed"
    )
    step = next(each for each in shown["steps"] if each.get("facet_name") == "t.Fail")
    (tour.folder.path / "mended").touch()
    await tour.done("afl_retry_step", step_id=step["id"])
    mended = await tour.done("afl_runs", workflow_id=failed["workflow_id"], wait_seconds=20)
    assert mended["outputs"] == {"text": "mended"}


async def _servers(tour: Tour) -> None:
    (server,) = await tour.see("afl://servers")
    assert server["is_alive"]
    assert server["phase"] == "ready"
    assert set(server["handlers"]) >= {"t.Greet", "t.Fail"}
    assert (await tour.see("afl://servers/{id}", id=server["uuid"]))["uuid"] == server["uuid"]


def _new_turn(folder: Folder) -> str:
    with closing(open_turns(folder.url)) as turns:
        return turns.accept(NewTurn("support", b'{"text": "help"}')).id


async def _turns(tour: Tour, turn_id: str) -> None:
    listed = await tour.done("afl_turns")
    assert [each["id"] for each in listed["turns"]] == [turn_id]
    shown = await tour.done("afl_turns", action="get", turn_id=turn_id)
    assert shown["turn"]["request"] == {"text": "help"}
    assert (await tour.done("afl_turns", action="effects"))["effects"] == []
    cancelled = await tour.done("afl_turns", action="cancel", turn_id=turn_id, reason="enough")
    assert cancelled["turn"]["state"] == "cancelled"


async def _records(tour: Tour, run_id: str, turn_id: str) -> None:
    runs = await tour.see("afl://runners")
    assert run_id in [each["workflow_id"] for each in runs]
    assert (await tour.see("afl://runners/{id}", id=run_id))["state"] == "completed"
    steps = await tour.see("afl://runners/{id}/steps", id=run_id)
    step_id = next(each["id"] for each in steps if each.get("facet_name") == "t.Greet")
    assert (await tour.see("afl://steps/{id}", id=step_id))["returns"] == {"text": "hello Ada"}
    assert isinstance(await tour.see("afl://runners/{id}/logs", id=run_id), list)
    (flow,) = await tour.see("afl://flows")
    assert (await tour.see("afl://flows/{id}", id=flow["uuid"]))["facets"] == 3
    source = await tour.see("afl://flows/{id}/source", id=flow["uuid"])
    assert source["program"]["type"] == "Program"
    assert step_id in [each["step_id"] for each in await tour.see("afl://tasks")]
    assert (await tour.see("afl://tasks/{id}", id=step_id))["name"] == "t.Greet"
    assert len(await tour.see("afl://handlers")) == 2
    handler = await tour.see("afl://handlers/{facet}", facet="t.Greet")
    assert Path(handler["module_uri"]).name == "handlers.py"
    assert [each["id"] for each in await tour.see("afl://turns")] == [turn_id]
    assert (await tour.see("afl://turns/{id}", id=turn_id))["turn"]["id"] == turn_id
