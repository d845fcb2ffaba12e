"""Workflows as tools: their parameters are the arguments, their doc comments the description.

A call starts a run as any other, waits for it and answers with its outputs, or with the id of a run
that goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import anyio.to_thread

from afl.errors import UsageError
from afl.lang.diagnostics import suggest
from afl.mcp.arguments import schema_of
from afl.mcp.backend import Backend
from afl.mcp.following import LONGEST_S, WAIT_S, RunResult, followed
from afl.mcp.naming import free_name, tool_names
from afl.mcp.tool import Call
from afl.mcp.tools import TOOLS
from afl.operations import runs
from afl.operations.catalog import Offer
from afl.operations.schemas import Schema, description_of, input_schema, output_schema

_WAIT = {
    "type": "number",
    "minimum": 0,
    "maximum": LONGEST_S,
    "default": WAIT_S,
    "description": "How long to wait for the end of the run. It goes on after that; ask for it "
    "with afl_runs.",
}
_KEY = {
    "type": "string",
    "minLength": 1,
    "description": "The same key again is the same run: use one to try a call again safely.",
}


@dataclass(frozen=True)
class WorkflowTool:
    """One workflow as a tool."""

    name: str
    offer: Offer

    @property
    def title(self) -> str:
        return self.offer.name

    @property
    def description(self) -> str:
        told = description_of(self.offer.workflow) or f"Workflow {self.offer.name}."
        return (
            f"{told}\n\nStarts a durable run of the workflow {self.offer.name}, which workers do, "
            f"and waits for its outputs. If `state` is running, it goes on: ask with afl_runs."
        )

    @property
    def wait_name(self) -> str:
        return free_name("wait_seconds", self.offer.workflow.params)

    @property
    def key_name(self) -> str:
        return free_name("idempotency_key", self.offer.workflow.params)

    def input_schema(self) -> Schema:
        schema = input_schema(self.offer.program, self.offer.workflow)
        more = {self.wait_name: _WAIT, self.key_name: _KEY}
        return {**schema, "properties": {**schema["properties"], **more}}

    def output_schema(self) -> Schema:
        schema = schema_of(RunResult)
        outputs = output_schema(self.offer.program, self.offer.workflow)
        return {**schema, "properties": {**schema["properties"], "outputs": outputs}}

    async def run(self, call: Call, given: dict[str, Any]) -> RunResult:
        inputs = dict(given)
        seconds = _seconds(self.wait_name, inputs.pop(self.wait_name, WAIT_S))
        key = _key(self.key_name, inputs.pop(self.key_name, None))
        run_id = await anyio.to_thread.run_sync(self._submitted, call.backend, inputs, key)
        return await followed(call, run_id, seconds)

    def _submitted(self, backend: Backend, inputs: dict[str, Any], key: str | None) -> str:
        return runs.submit(
            backend.evaluator,
            self.offer.program,
            self.offer.name,
            inputs,
            key=key,
            task_list=backend.options.task_list,
        )


def _seconds(name: str, given: Any) -> float:
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if not is_number or not 0 <= given <= LONGEST_S:
        raise UsageError(f"Invalid {name}: expected a number of seconds from 0 to {LONGEST_S:g}")
    return float(given)


def _key(name: str, given: Any) -> str | None:
    if given is not None and not (isinstance(given, str) and given):
        raise UsageError(f"Invalid {name}: expected a text that is not empty")
    return given


def workflow_tools(backend: Backend) -> dict[str, WorkflowTool]:
    """All of them, by name."""
    offers = backend.catalog.offers()
    names = tool_names(list(offers), TOOLS)
    return {name: WorkflowTool(name, offers[workflow]) for name, workflow in names.items()}


def workflow_tool(backend: Backend, name: str) -> WorkflowTool:
    """The tool of this name. Raises UsageError; it may have got a longer one meanwhile."""
    known = workflow_tools(backend)
    if name in known:
        return known[name]
    longer = [each for each, tool in known.items() if tool.offer.workflow.name == name]
    meant = f"it is one of {', '.join(longer)} now" if longer else suggest(name, [*TOOLS, *known])
    raise UsageError(f"there is no tool '{name}'; {meant or 'list the tools again'}")
