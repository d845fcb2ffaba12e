"""`afl servers`: look at the workers of a store, and take them out of service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from afl.cli.common import Json, Store, opened, write_json

if TYPE_CHECKING:
    from afl.operations.fleet import ServerView

app = typer.Typer(name="servers", help="Look at workers, and drain them.")

ServerId = Annotated[str, typer.Argument(metavar="SERVER", help="Its id, or the beginning of it.")]
Alive = Annotated[bool, typer.Option("--alive", help="Only those that were heard of lately.")]


@app.callback(invoke_without_command=True)
def servers(
    context: typer.Context, alive: Alive = False, store: Store = None, json: Json = False
) -> None:
    """Look at workers, and drain them. Without a command, list them."""
    if context.invoked_subcommand is None:
        _list(context, alive, store, json)


@app.command("list")
def list_(
    context: typer.Context, alive: Alive = False, store: Store = None, json: Json = False
) -> None:
    """List worker processes: those that are alive first."""
    _list(context, alive, store, json)


def _list(context: typer.Context, alive: bool, store: str | None, json: bool) -> None:
    from afl.operations import fleet

    with opened(context, store) as found:
        shown = fleet.list_servers(found, only_alive=alive)
    if json:
        write_json(shown)
    else:
        _show_servers(shown)


def _show_servers(shown: list[ServerView]) -> None:
    from afl.cli.tables import short, show_table, span

    columns = (
        *("server", "name", "service", "state", "phase", "beat"),
        *("in flight", "handled", "version"),
    )
    rows = [
        (
            short(each.server),
            each.name,
            each.service,
            _state(each),
            each.phase,
            f"{span(each.beat_age_s)} ago",
            str(each.in_flight),
            str(each.handled),
            each.version,
        )
        for each in shown
    ]
    show_table(columns, rows, "There are no servers.")
    for each in shown:
        # Not cut: they tell which process, and where.
        if each.error:
            typer.echo(f"error of {short(each.server)}: {each.error.get('message', '')}")
        for incident in each.incidents:
            typer.echo(f"incident of {short(each.server)}: {incident.get('message', '')}")


def _state(server: ServerView) -> str:
    words = [server.state]
    words += [f"{server.wanted} asked"] if server.wanted and server.is_alive else []
    words += ["silent"] if server.state in ("startup", "running") and not server.is_alive else []
    return ", ".join(words)


@app.command()
def drain(
    context: typer.Context, server: ServerId, store: Store = None, json: Json = False
) -> None:
    """Let a worker take no more work. It finishes what it has, and stays."""
    from afl.operations import finding, fleet

    with opened(context, store) as found:
        wanted = finding.find_server(found, server)
        fleet.drain(found, wanted)
    _tell(wanted.uuid, "drain", "is asked to drain; it answers with its next beat", json)


@app.command()
def undrain(
    context: typer.Context, server: ServerId, store: Store = None, json: Json = False
) -> None:
    """Let a worker that was drained take work again."""
    from afl.operations import finding, fleet

    with opened(context, store) as found:
        wanted = finding.find_server(found, server)
        fleet.undrain(found, wanted)
    _tell(wanted.uuid, "", "may take work again; it answers with its next beat", json)


def _tell(server: str, wanted: str, words: str, as_json: bool) -> None:
    if as_json:
        write_json({"server": server, "wanted": wanted})
    else:
        typer.echo(f"Server {server} {words}.")
