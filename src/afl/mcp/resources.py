"""Resources: what the store keeps, as JSON behind `afl://` addresses.

A list has the newest records only; one record is read whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from afl.gateway.outside import seen_turn
from afl.mcp import shapes
from afl.mcp.access import Role
from afl.mcp.backend import Backend
from afl.mcp.missing import required_handler, required_run, required_step
from afl.operations import finding, handlers, records, tasks, turns

#: Records in a list.
_NEWEST = 100

Read = Callable[[Backend, str], Any]


@dataclass(frozen=True)
class Resource:
    """`uri` may have one `{variable}`, which `read` is given; else it is given nothing."""

    uri: str
    name: str
    description: str
    read: Read
    #: For who may not see what is inside, if they see something else.
    read_outside: Read | None = None

    @property
    def is_template(self) -> bool:
        return "{" in self.uri

    def reader(self, role: Role) -> Read:
        return self.read if role.sees_inside else self.read_outside or self.read


def _runners(backend: Backend, _: str) -> Any:
    return [shapes.runner(each) for each in records.newest_runs(backend.store, _NEWEST)]


def _runner(backend: Backend, run_id: str) -> Any:
    return shapes.runner(required_run(backend, run_id, "Runner"))


def _runner_steps(backend: Backend, run_id: str) -> Any:
    run = required_run(backend, run_id, "Runner")
    return [shapes.step(each) for each in records.steps_of(backend.store, run)]


def _runner_logs(backend: Backend, run_id: str) -> Any:
    run = required_run(backend, run_id, "Runner")
    return [shapes.log(each) for each in records.logs_of(backend.store, run)]


def _step(backend: Backend, step_id: str) -> Any:
    return shapes.step(required_step(backend, step_id))


def _flows(backend: Backend, _: str) -> Any:
    return [shapes.flow_entry(each) for each in records.flows(backend.store)[:_NEWEST]]


def _flow(backend: Backend, flow_id: str) -> Any:
    flow, workflows = records.flow(backend.store, flow_id)
    return shapes.flow(flow, workflows, records.facet_count(flow))


def _flow_source(backend: Backend, flow_id: str) -> Any:
    flow, _ = records.flow(backend.store, flow_id)
    return shapes.flow_source(flow)


def _servers(backend: Backend, _: str) -> Any:
    now = backend.store.now_ms()
    return [shapes.server(each, now) for each in records.servers(backend.store)]


def _server(backend: Backend, server_id: str) -> Any:
    return shapes.server(finding.find_server(backend.store, server_id), backend.store.now_ms())


def _tasks(backend: Backend, _: str) -> Any:
    who = tasks.serving(backend.store)
    return [shapes.task(each, who) for each in records.newest_tasks(backend.store, _NEWEST)]


def _task(backend: Backend, task_id: str) -> Any:
    who = tasks.serving(backend.store)
    return shapes.task(finding.find_task(backend.store, task_id), who)


def _handlers(backend: Backend, _: str) -> Any:
    return [shapes.handler(each) for each in handlers.list_handlers(backend.store)]


def _handler(backend: Backend, facet: str) -> Any:
    return shapes.handler(required_handler(backend, facet))


def _turns(backend: Backend, _: str) -> Any:
    return [shapes.turn(each) for each in turns.list_turns(backend.turns, limit=_NEWEST)]


def _turn(backend: Backend, turn_id: str) -> Any:
    return seen_turn(backend.turns, turn_id, is_inside=True)


def _turn_outside(backend: Backend, turn_id: str) -> Any:
    return seen_turn(backend.turns, turn_id, is_inside=False)


RESOURCES: tuple[Resource, ...] = (
    Resource("afl://runners", "runners", f"The newest {_NEWEST} runs.", _runners),
    Resource("afl://runners/{id}", "runner", "One run: its state, inputs and error.", _runner),
    Resource(
        "afl://runners/{id}/steps",
        "runner steps",
        "All steps of a run, with what they were given and gave.",
        _runner_steps,
    ),
    Resource("afl://runners/{id}/logs", "runner logs", "The log of a run.", _runner_logs),
    Resource("afl://steps/{id}", "step", "One step of a run.", _step),
    Resource("afl://flows", "flows", "Programs that were run, with their workflows.", _flows),
    Resource("afl://flows/{id}", "flow", "One program.", _flow),
    Resource(
        "afl://flows/{id}/source",
        "flow source",
        "The texts of a program, if they were kept, and what it compiles to.",
        _flow_source,
    ),
    Resource("afl://servers", "servers", "Worker processes, and whether they live.", _servers),
    Resource("afl://servers/{id}", "server", "One worker process.", _server),
    Resource("afl://tasks", "tasks", f"The newest {_NEWEST} tasks.", _tasks),
    Resource("afl://tasks/{id}", "task", "One task.", _task),
    Resource("afl://handlers", "handlers", "Where the handlers of facets are.", _handlers),
    Resource("afl://handlers/{facet}", "handler", "The handler of one facet.", _handler),
    Resource("afl://turns", "turns", f"The newest {_NEWEST} turns of agents.", _turns),
    Resource(
        "afl://turns/{id}",
        "turn",
        "One turn: what was asked, done, remembered, is open.",
        _turn,
        _turn_outside,
    ),
)
