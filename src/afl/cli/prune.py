"""`afl prune`: remove runs that ended long ago."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from afl.cli.common import Json, Store, counted, settings, store_of, write_out

if TYPE_CHECKING:
    from afl.operations.runs import PruneReport
    from afl.runtime.persistence import PersistenceAPI


def prune(
    context: typer.Context,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than", metavar="DURATION", help="Ended longer ago than this, such as 30d."
        ),
    ] = None,
    store: Store = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be removed.")
    ] = False,
    json: Json = False,
) -> None:
    """Remove runs that ended long ago, with all that belongs to them."""
    from json import dumps

    config = settings(context, store_url=store, retention_runs=older_than)
    with store_of(config) as opened:
        report = _pruned(opened, config.retention.runs, dry_run)
    if json:
        facts = {"runs": report.runs, "steps": report.steps, "tasks": report.tasks}
        write_out(dumps({"removed": not dry_run, **facts}))
    elif dry_run:
        typer.echo(f"Would remove {counted(report.runs, 'run')}.")
    else:
        steps, tasks = counted(report.steps, "step"), counted(report.tasks, "task")
        typer.echo(f"Removed {counted(report.runs, 'run')} with {steps} and {tasks}.")


def _pruned(store: PersistenceAPI, keep: str, dry_run: bool) -> PruneReport:
    from afl.operations import runs

    if dry_run:
        return runs.PruneReport(runs=len(runs.prunable(store, keep)))
    return runs.prune(store, keep)
