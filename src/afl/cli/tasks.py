"""`afl tasks`: look at the work that workers do, mend it, give it up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from afl.cli.common import (
    Before,
    Json,
    Limit,
    Store,
    engine_on,
    opened,
    tell_more,
    write_json,
)

if TYPE_CHECKING:
    from afl.operations.tasks import QueueView, TaskView

app = typer.Typer(name="tasks", help="Look at tasks, and act on them.", no_args_is_help=True)

TaskId = Annotated[str, typer.Argument(metavar="TASK", help="Its id, or the beginning of it.")]


@app.command("list")
def list_(
    context: typer.Context,
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            metavar="STATE",
            help="pending, running, completed, failed, ignored, canceled or dead_letter.",
        ),
    ] = None,
    facet: Annotated[
        str | None, typer.Option("--facet", metavar="NAME", help="Tasks of this facet.")
    ] = None,
    task_list: Annotated[
        str | None, typer.Option("--task-list", metavar="NAME", help="Tasks of this list.")
    ] = None,
    dead_letters: Annotated[
        bool,
        typer.Option("--dead-letters", help="Those that were given up after too many tries."),
    ] = False,
    unserved: Annotated[
        bool, typer.Option("--unserved", help="Those that wait, and nobody can do them.")
    ] = False,
    run: Annotated[
        str | None, typer.Option("--run", metavar="RUN", help="Tasks of this run.")
    ] = None,
    before: Before = None,
    limit: Limit = 50,
    store: Store = None,
    json: Json = False,
) -> None:
    """List tasks, newest first."""
    from afl.errors import UsageError
    from afl.operations import finding, tasks
    from afl.runtime.entities import TaskState

    if sum((state is not None, dead_letters, unserved)) > 1:
        raise UsageError("give one of --state, --dead-letters and --unserved")
    with opened(context, store) as found:
        page = tasks.task_page(
            found,
            state=TaskState.DEAD_LETTER if dead_letters else state,
            facet=facet,
            task_list=task_list,
            run=None if run is None else finding.find_run(found, run).workflow_id,
            only_unserved=unserved,
            limit=limit,
            cursor=before,
        )
    if json:
        write_json(page.tasks)
    else:
        _show_tasks(page.tasks)
    tell_more(page.cursor)


def _show_tasks(shown: Sequence[TaskView]) -> None:
    from afl.cli.tables import clock_time, message_of, short, show_table

    columns = ("task", "facet", "state", "run", "attempts", "updated", "error")
    rows = [
        (
            short(each.task),
            each.facet,
            _state(each),
            short(each.run),
            str(each.attempts),
            clock_time(each.updated),
            message_of(each.error),
        )
        for each in shown
    ]
    show_table(columns, rows, "There are no such tasks.")


def _state(task: TaskView) -> str:
    if task.is_unserved:
        return f"{task.state}, unserved"
    return f"{task.state}, held" if task.is_held else task.state


@app.command()
def queues(context: typer.Context, store: Store = None, json: Json = False) -> None:
    """Show what waits. For each facet: how many tasks, since when, and who serves it."""
    from afl.operations import tasks

    with opened(context, store) as found:
        shown = tasks.queues(found)
    if json:
        write_json(shown)
    else:
        _show_queues(shown)


def _show_queues(shown: Sequence[QueueView]) -> None:
    from afl.cli.tables import count_text, show_table, span

    columns = ("task list", "facet", "waiting", "held", "oldest", "served")
    rows = [
        (
            each.task_list,
            each.facet,
            count_text(each.waiting),
            count_text(each.held),
            span(each.oldest_age_s) if each.oldest_age_s else "",
            "nobody" if each.is_unserved else "yes",
        )
        for each in shown
    ]
    show_table(columns, rows, "Nothing waits.")


@app.command()
def show(context: typer.Context, task: TaskId, store: Store = None, json: Json = False) -> None:
    """Show a task: what is asked, who has it, what went wrong."""
    from afl.operations import finding, tasks

    with opened(context, store) as found:
        view = tasks.view(finding.find_task(found, task), tasks.serving(found))
    if json:
        write_json(view)
    else:
        _show_task(view)


def _show_task(view: TaskView) -> None:
    from afl.cli.common import as_json
    from afl.cli.tables import clock_time, show_facts

    show_facts(
        {
            "task": view.task,
            "facet": view.facet,
            "state": _state(view),
            "run": view.run,
            "task list": view.task_list,
            "attempts": str(view.attempts),
            "created": clock_time(view.created),
            "updated": clock_time(view.updated),
            "owner": view.owner,
            "lease ends": clock_time(view.lease_expires),
            "due": clock_time(view.not_before),
            "key": view.idempotency_key,
            "inputs": as_json(view.inputs),
            **_error_facts(view.error or {}),
        }
    )
    if view.is_unserved:
        typer.echo(
            f"\nNobody can do it: no enabled handler is registered for {view.facet}, and no server "
            "that is alive serves it. It waits until one comes; `afl tasks discard` gives it up."
        )


def _error_facts(error: Mapping[str, Any]) -> dict[str, str]:
    """What went wrong, and in which line of a handler."""
    named = [str(error[each]) for each in ("type", "message") if error.get(each)]
    return {"error": ": ".join(named), "raised at": str(error.get("raised_at", ""))}


@app.command()
def retry(context: typer.Context, task: TaskId, store: Store = None, json: Json = False) -> None:
    """Try a failed task or a dead letter again. What failed because of it comes back, too."""
    from afl.operations import finding, tasks

    with engine_on(context, store) as (found, engine):
        wanted = finding.find_task(found, task)
        tasks.retry(engine, wanted)
    _tell(wanted.uuid, "pending", "will be tried again", json)


@app.command()
def discard(
    context: typer.Context,
    task: TaskId,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="What the step fails with.")
    ] = "discarded by an operator",
    store: Store = None,
    json: Json = False,
) -> None:
    """Give a task up. No handler will ever come, or its failure was seen. The step of a task that
    waits fails with the reason."""
    from afl.operations import finding, tasks

    with engine_on(context, store) as (found, engine):
        wanted = finding.find_task(found, task)
        is_changed = tasks.discard(engine, wanted, reason)
    _tell(wanted.uuid, "ignored", "is given up" if is_changed else "was given up before", json)


def _tell(task: str, state: str, words: str, as_json: bool) -> None:
    if as_json:
        write_json({"task": task, "state": state})
    else:
        typer.echo(f"Task {task} {words}.")
