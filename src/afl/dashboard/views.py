"""What is shown that no other face shows in this form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from afl.dashboard.desk import Action, Asked, Desk
from afl.dashboard.formats import json_text
from afl.errors import NotFound
from afl.gateway.access import Right
from afl.gateway.outside import seen_effects, seen_turn
from afl.mailbox import DeadLetter, Peeked
from afl.operations import fleet, handlers, mailboxes, overview, reading, schemas, tasks, turns
from afl.operations.catalog import Offer
from afl.operations.finding import find_run
from afl.operations.graphs import RunGraph
from afl.operations.handlers import HandlerView
from afl.operations.mailboxes import MailboxDepth
from afl.operations.overview import Overview
from afl.operations.reading import LogLine, RunPage, RunSummary, StepView
from afl.operations.sources import SourceLine
from afl.operations.steps import StepPage, find_step, step_page
from afl.operations.tasks import TaskPage
from afl.operations.turns import UnknownEffect
from afl.turns.api import TurnRecord, TurnStore

#: Turns, messages and dead letters of one page.
_SHOWN = 100


@dataclass(frozen=True)
class RunShown:
    """A run, without its steps."""

    summary: RunSummary
    inputs: dict[str, Any]
    outputs: dict[str, Any]


@dataclass(frozen=True)
class LogPage:
    lines: tuple[LogLine, ...]


@dataclass(frozen=True)
class WorkflowView:
    """A workflow that can be started."""

    name: str
    description: str
    #: JSON Schema of its inputs.
    inputs: dict[str, Any]


@dataclass(frozen=True)
class TurnsShown:
    turns: tuple[TurnRecord, ...]
    #: Effects of which nobody knows whether they were done, the oldest first.
    unknown: tuple[UnknownEffect, ...]
    #: Where the next page begins; None on the last one.
    cursor: str | None = None


@dataclass(frozen=True)
class MailboxShown:
    depth: MailboxDepth
    messages: tuple[Peeked[Any], ...]
    dead_letters: tuple[DeadLetter[Any], ...]


# Looking


def show_overview(desk: Desk, asked: Asked) -> Overview:  # noqa: ARG001
    return overview.overview(desk.store)


def list_runs(desk: Desk, asked: Asked) -> RunPage:
    return reading.run_page(desk.store, **asked.query)


def show_run(desk: Desk, asked: Asked) -> RunShown:
    view = desk.boards.look(asked.path["run"])
    return RunShown(view.summary, dict(view.inputs), dict(view.outputs))


def list_steps(desk: Desk, asked: Asked) -> StepPage:
    return step_page(desk.store, find_run(desk.store, asked.path["run"]), **asked.query)


def show_graph(desk: Desk, asked: Asked) -> RunGraph:
    return desk.boards.look(asked.path["run"]).graph()


def show_source(desk: Desk, asked: Asked) -> list[SourceLine]:
    return desk.boards.look(asked.path["run"]).source_lines()


def show_logs(desk: Desk, asked: Asked) -> LogPage:
    return LogPage(desk.boards.look(asked.path["run"]).logs)


def show_step(desk: Desk, asked: Asked) -> StepView:
    return find_step(desk.store, asked.path["step"])


def list_workflows(desk: Desk, asked: Asked) -> list[WorkflowView]:  # noqa: ARG001
    return [workflow_view(each) for each in desk.catalog.offers().values()]


def workflow_view(offer: Offer) -> WorkflowView:
    return WorkflowView(
        offer.name,
        schemas.description_of(offer.workflow),
        schemas.input_schema(offer.program, offer.workflow),
    )


def offer_of(desk: Desk, name: str) -> Offer:
    """Raises NotFound."""
    found = desk.catalog.offers()
    if name not in found:
        raise NotFound(f"there is no workflow {name}; submit it once, or start with its file")
    return found[name]


def list_tasks(desk: Desk, asked: Asked) -> TaskPage:
    return tasks.task_page(desk.store, **asked.query)


def show_fleet(desk: Desk, asked: Asked) -> fleet.FleetView:  # noqa: ARG001
    return fleet.fleet(desk.store)


def list_handlers(desk: Desk, asked: Asked) -> list[HandlerView]:  # noqa: ARG001
    return [handlers.view(each) for each in handlers.list_handlers(desk.store)]


def show_handler(desk: Desk, asked: Asked) -> HandlerView:
    return handlers.view(handlers.find(desk.store, asked.path["facet"]))


def turns_of(desk: Desk) -> TurnStore:
    """Raises NotFound."""
    store = desk.turns
    if store is None:
        raise NotFound(
            "this store keeps no turns; start with one that does: SQLite, PostgreSQL or MongoDB"
        )
    return store


def list_turns(desk: Desk, asked: Asked) -> TurnsShown:
    store = desk.turns
    if store is None:
        return TurnsShown((), ())
    limit, before = asked.query.get("limit", _SHOWN), asked.query.get("cursor")
    wanted = {name: asked.query.get(name) for name in ("loop", "state")}
    found = turns.list_turns(store, limit=limit + 1, before=before, **wanted)
    shown = tuple(found[:limit])
    cursor = shown[-1].id if len(found) > limit else None
    return TurnsShown(shown, tuple(effects_of(store, asked)), cursor)


def show_turn(desk: Desk, asked: Asked) -> dict[str, Any]:
    return seen_turn(turns_of(desk), asked.path["turn"], is_inside=asked.visitor.may(Right.INSIDE))


def effects_of(store: TurnStore, asked: Asked) -> list[UnknownEffect]:
    """Those that wait for a person, as the visitor may see them."""
    return seen_effects(store, is_inside=asked.visitor.may(Right.INSIDE))


def list_mailboxes(desk: Desk, asked: Asked) -> list[MailboxDepth]:  # noqa: ARG001
    return [] if desk.mailboxes is None else mailboxes.list_mailboxes(desk.mailboxes)


def show_mailbox(desk: Desk, asked: Asked) -> MailboxShown:
    url, name = mailboxes_of(desk), asked.path["mailbox"]
    if name not in [each.name for each in mailboxes.list_mailboxes(url)]:
        raise NotFound(f"no mailbox {name} holds anything")
    return MailboxShown(
        mailboxes.mailbox_depth(url, name),
        tuple(mailboxes.peek_mailbox(url, name, limit=_SHOWN)),
        tuple(mailboxes.mailbox_dead_letters(url, name, limit=_SHOWN)),
    )


def mailboxes_of(desk: Desk) -> str:
    """Raises NotFound."""
    if desk.mailboxes is None:
        raise NotFound("there is no place for mailboxes; name one with --mailboxes")
    return desk.mailboxes


def list_actions(desk: Desk, asked: Asked) -> list[Action]:  # noqa: ARG001
    return desk.actions()


# Forms


@dataclass(frozen=True)
class Field:
    """A field of a form, made from a parameter."""

    name: str
    #: text, number, checkbox or json.
    kind: str
    #: As people read it.
    type: str
    description: str
    is_required: bool
    #: What it begins with.
    value: str
    is_whole: bool = False


_KINDS = {"string": "text", "integer": "number", "number": "number", "boolean": "checkbox"}


def fields_of(view: WorkflowView, given: Mapping[str, str]) -> Sequence[Field]:
    """The form of a workflow, with what was typed before."""
    required = view.inputs.get("required", [])
    return [
        Field(
            name,
            _KINDS.get(schema.get("type", ""), "json"),
            _type_name(schema),
            schema.get("description", ""),
            name in required,
            given.get(f"input.{name}", _default_text(schema)),
            schema.get("type") == "integer",
        )
        for name, schema in view.inputs["properties"].items()
    ]


def _type_name(schema: Mapping[str, Any]) -> str:
    if schema.get("type") == "array":
        return f"list of {_type_name(schema['items'])}"
    return str(schema.get("title") or schema.get("type") or "JSON")


def _default_text(schema: Mapping[str, Any]) -> str:
    if "default" in schema:
        default = schema["default"]
        return default if isinstance(default, str) else json_text(default)
    if schema.get("type") in ("array", "object"):
        return json_text(_example(schema))
    return ""


def _example(schema: Mapping[str, Any]) -> Any:
    """A value of the right shape, to be typed over."""
    kind = schema.get("type")
    if kind == "array":
        return [_example(schema["items"])]
    if kind == "object":
        return {name: _example(each) for name, each in schema.get("properties", {}).items()}
    return {"string": "", "integer": 1, "number": 1.0, "boolean": False}.get(str(kind))
