"""`afl prune`: remove runs, and turns, that ended long ago."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from afl.cli.common import Json, Store, counted, require_there, settings, store_of, write_out

if TYPE_CHECKING:
    from afl.config import Config
    from afl.operations.runs import PruneReport
    from afl.runtime.persistence import PersistenceAPI


def prune(
    context: typer.Context,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="DURATION",
            help="Ended longer ago than this, such as 30d; with its unit.",
        ),
    ] = None,
    turns_older_than: Annotated[
        str | None,
        typer.Option(
            "--turns-older-than",
            metavar="DURATION",
            help="Turns, too, that ended before that, such as 30d; with its unit.",
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

    from afl.config import NEVER

    _require_unit("--older-than", older_than)
    _require_unit("--turns-older-than", turns_older_than)
    config = settings(
        context, store_url=store, retention_runs=older_than, retention_turns=turns_older_than
    )
    require_there(config.store.url)
    with store_of(config) as opened:
        report = _pruned(opened, config.retention.runs, dry_run)
    has_turns = config.retention.turns != NEVER
    turns = _pruned_turns(config, dry_run) if has_turns else 0
    if json:
        facts = {"runs": report.runs, "steps": report.steps, "tasks": report.tasks, "turns": turns}
        write_out(dumps({"removed": not dry_run, **facts}))
        return
    also = f" and {counted(turns, 'turn')}" if has_turns else ""
    if dry_run:
        typer.echo(f"Would remove {counted(report.runs, 'run')}{also}.")
    else:
        steps, tasks = counted(report.steps, "step"), counted(report.tasks, "task")
        typer.echo(f"Removed {counted(report.runs, 'run')} with {steps} and {tasks}{also}.")


def _require_unit(flag: str, given: str | None) -> None:
    """A number alone would be seconds, and who types 3 has days in mind: nothing comes back."""
    from afl.errors import UsageError

    number = (given or "").strip()
    if number.replace(".", "", 1).isdigit():
        raise UsageError(
            f"{flag} {number}: {number} what? Write {number}d for days, {number}h for hours, "
            f"{number}m for minutes or {number}s for seconds"
        )


def _pruned(store: PersistenceAPI, keep: str, dry_run: bool) -> PruneReport:
    from afl.operations import runs

    if dry_run:
        return runs.PruneReport(runs=len(runs.prunable(store, keep)))
    return runs.prune(store, keep)


def _pruned_turns(config: Config, dry_run: bool) -> int:
    from contextlib import closing

    from afl.operations.turns import prunable_turns, prune_turns
    from afl.turns import open_turns

    with closing(open_turns(config.store.url)) as turns:
        return (prunable_turns if dry_run else prune_turns)(turns, config.retention.turns)
