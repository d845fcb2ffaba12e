"""`afl migrate`: bring the tables of a database up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from afl.cli.common import PROBLEMS, Json, Store, require_there, settings, write_json

if TYPE_CHECKING:
    from afl.operations.migrating import SchemaState


def migrate(
    context: typer.Context,
    store: Store = None,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit with 1 if something is behind.")
    ] = False,
    json: Json = False,
) -> None:
    """Bring the tables of a database up to date: of runs, mailboxes, turns, keys and evaluations.

    Whoever opens a database does it, too. This is for databases where workers may not.
    """
    from afl.db.drivers import driver_wanted
    from afl.operations.migrating import migrate_all, schema_states

    url = settings(context, store_url=store).store.url
    if check:
        require_there(url)
    with driver_wanted(url):
        found = schema_states(url) if check else migrate_all(url)
    if json:
        write_json([_facts(each, is_done=not check) for each in found])
    else:
        for each in found:
            typer.echo(_line(each, is_done=not check))
    if check and any(each.is_behind for each in found):
        raise typer.Exit(PROBLEMS)


def _facts(state: SchemaState, *, is_done: bool) -> dict[str, object]:
    return {
        "component": state.component,
        "from": state.found,
        "to": state.newest if is_done else state.found,
        "newest": state.newest,
    }


def _line(state: SchemaState, *, is_done: bool) -> str:
    if not state.is_behind:
        return f"{state.component}: version {state.found}, up to date"
    if is_done:
        return f"{state.component}: from version {state.found} to {state.newest}"
    return f"{state.component}: version {state.found}, behind {state.newest}"
