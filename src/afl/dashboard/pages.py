"""What pages show beside what the API answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from afl.dashboard.boards import BoardView
from afl.dashboard.desk import Asked, Desk
from afl.dashboard.views import effects_of, fields_of, offer_of, turns_of, workflow_view
from afl.lang.graph.svg import to_svg
from afl.operations import fleet, tasks, turns
from afl.operations.reading import TimelineRow
from afl.runtime.entities import RunnerState, TaskState
from afl.turns.api import TurnState

#: Steps of one page of a run.
_ROWS = 100

Extra = Mapping[str, Any]


def extra(template: str, desk: Desk, asked: Asked, form: Mapping[str, str]) -> Extra:
    """What the template needs beside the answer. `form` is what was typed, if it was refused."""
    found = _EXTRAS.get(template)
    return {} if found is None else found(desk, asked, form)


# Lists


def _overview(desk: Desk, asked: Asked, form: Mapping[str, str]) -> Extra:  # noqa: ARG001
    waiting = [] if desk.turns is None else turns.unknown_effects(desk.turns)
    return {"bars": _bars(fleet.fleet(desk.store).throughput), "unknown": len(waiting)}


def _runs(desk: Desk, asked: Asked, form: Mapping[str, str]) -> Extra:  # noqa: ARG001
    return {
        "counts": desk.store.count_runs(),
        "workflows": desk.store.list_run_workflows(),
        "states": [each.value for each in RunnerState],
    }


def _tasks(desk: Desk, asked: Asked, form: Mapping[str, str]) -> Extra:  # noqa: ARG001
    return {
        "counts": desk.store.count_tasks(),
        "queues": tasks.queues(desk.store),
        "states": [each.value for each in TaskState],
    }


def _servers(desk: Desk, asked: Asked, form: Mapping[str, str]) -> Extra:  # noqa: ARG001
    return {"beats": {each.uuid: each.ping_time for each in desk.store.get_all_servers()}}


def _turns(desk: Desk, asked: Asked, form: Mapping[str, str]) -> Extra:  # noqa: ARG001
    return {"states": [each.value for each in TurnState], "has_turns": desk.turns is not None}


@dataclass(frozen=True)
class Bar:
    """A minute of the throughput, of 100 in height."""

    time: datetime | None
    handled: int
    failed: int
    height: float
    failed_height: float


def _bars(minutes: Sequence[fleet.Minute]) -> list[Bar]:
    most = max((each.handled + each.failed for each in minutes), default=0) or 1
    return [
        Bar(
            each.time,
            each.handled,
            each.failed,
            round(100 * (each.handled + each.failed) / most, 1),
            round(100 * each.failed / most, 1),
        )
        for each in minutes
    ]


# A run


@dataclass(frozen=True)
class Row:
    """A step, with its bar in percent of the time of the run."""

    row: TimelineRow
    left: float
    width: float


def _run(desk: Desk, asked: Asked, form: Mapping[str, str]) -> Extra:  # noqa: ARG001
    view = desk.boards.look(asked.path["run"])
    rows = view.rows()
    said = asked.query.get("from", "")
    first = min(int(said) if said.isdecimal() and len(said) < 10 else 0, max(len(rows) - 1, 0))
    first -= first % _ROWS
    return {
        "view": view,
        "svg": _svg(view),
        "rows": [_row(view, each) for each in rows[first : first + _ROWS]],
        "total": len(rows),
        "first": first,
        "page_rows": _ROWS,
        "step": view.steps.get(asked.query.get("step", "")),
        "source": view.source_lines(),
        "tallies": _tallies(view),
    }


def _tallies(view: BoardView) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for each in view.steps.values():
        found[each.state] = found.get(each.state, 0) + 1
    return found


def _svg(view: BoardView) -> str:
    """Without its own style, which the policy of our pages forbids: `graph.css` has it."""
    graph = view.graph()
    states = {each.key: each.state for each in graph.nodes if each.state is not None}
    text = to_svg(graph.graph, states=states)
    head, _, rest = text.partition("<style>")
    return head + rest.partition("</style>")[2]


def _row(view: BoardView, row: TimelineRow) -> Row:
    began, took = view.summary.started, max(view.summary.duration_s, 0.001)
    if began is None or row.started is None:
        return Row(row, 0, 0)
    left = min(max((row.started - began).total_seconds() / took, 0), 0.995)
    ended = 1.0 if row.ended is None else (row.ended - began).total_seconds() / took
    return Row(row, round(100 * left, 2), round(max(100 * (min(ended, 1) - left), 0.5), 2))


# Forms


def _submit(desk: Desk, asked: Asked, form: Mapping[str, str]) -> Extra:
    name = form.get("workflow") or asked.query.get("workflow")
    if name is None:
        return {"chosen": None}
    chosen = workflow_view(offer_of(desk, name))
    return {"chosen": chosen, "fields": fields_of(chosen, form), "key": form.get("key", "")}


def _turn(desk: Desk, asked: Asked, form: Mapping[str, str]) -> Extra:  # noqa: ARG001
    store = turns_of(desk)
    record = store.get(asked.path["turn"])
    unknown = [each for each in effects_of(store, asked) if each.turn_id == record.id]
    return {
        "turn": record,
        "question": turns.open_question(store, record),
        "unknown": unknown,
    }


def _form(desk: Desk, asked: Asked, form: Mapping[str, str]) -> Extra:  # noqa: ARG001
    return {"form": form}


_EXTRAS: dict[str, Callable[[Desk, Asked, Mapping[str, str]], Extra]] = {
    "overview.html": _overview,
    "runs.html": _runs,
    "run.html": _run,
    "submit.html": _submit,
    "tasks.html": _tasks,
    "servers.html": _servers,
    "turns.html": _turns,
    "turn.html": _turn,
    "handlers.html": _form,
    "handler.html": _form,
}
