"""`afl handlers`: say where the handlers of facets are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from afl.cli.common import PROBLEMS, Json, Store, counted, opened, settings, store_of, write_json

if TYPE_CHECKING:
    from afl.operations.handlers import Verdict
    from afl.runtime.entities import HandlerRegistration

app = typer.Typer(
    name="handlers", help="Say where the handlers of facets are.", no_args_is_help=True
)

Facet = Annotated[str, typer.Argument(metavar="FACET", help="Its qualified name.")]


@app.command()
def add(
    context: typer.Context,
    facet: Facet,
    module_uri: Annotated[
        str,
        typer.Argument(metavar="MODULE", help="A dotted module, a .py file, or a file:// URI."),
    ],
    entrypoint: Annotated[
        str, typer.Option("--entrypoint", metavar="NAME", help="Its function.")
    ] = "handle",
    version: Annotated[
        str, typer.Option("--version", metavar="TEXT", help="For people.")
    ] = "1.0.0",
    checksum: Annotated[
        str,
        typer.Option(
            "--checksum",
            metavar="TEXT",
            help="sha256:… is verified before the code runs; auto computes it; a changed one loads "
            "the code again.",
        ),
    ] = "",
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="DURATION", help="How long one attempt may take.")
    ] = "30s",
    isolation: Annotated[
        str,
        typer.Option("--isolation", metavar="KIND", help="thread, or process: it can be killed."),
    ] = "thread",
    on_lost: Annotated[
        str,
        typer.Option(
            "--on-lost",
            metavar="WHAT",
            help="What to do when its worker died: redeliver, or unknown: a person decides.",
        ),
    ] = "redeliver",
    retry_max: Annotated[
        int | None,
        typer.Option("--retry-max", metavar="N", min=1, help="How often it is tried in all."),
    ] = None,
    retry_backoff: Annotated[
        str | None,
        typer.Option(
            "--retry-backoff", metavar="DURATION", help="Wait before the second try; then doubled."
        ),
    ] = None,
    metadata: Annotated[
        str | None,
        typer.Option("--metadata", metavar="JSON", help="An object that the handler is given."),
    ] = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """Register the handler of a facet, in place of the one that it had. Workers notice at once."""
    from afl.backoff import parse_duration
    from afl.operations import handlers

    new = handlers.NewHandler(
        facet,
        module_uri,
        entrypoint,
        version=version,
        checksum=checksum,
        timeout_ms=round(parse_duration(timeout) * 1000),
        isolation=isolation,
        on_lost=on_lost,
        retry_max=retry_max,
        retry_backoff=retry_backoff,
        metadata=_object(metadata),
    )
    config = settings(context, store_url=store)
    with store_of(config) as found:
        registration = handlers.add(found, new, config.handlers.paths)
    if json:
        write_json(handlers.view(registration))
    else:
        typer.echo(f"Registered {facet}: {registration.module_uri}, {registration.entrypoint}.")


def _object(text: str | None) -> dict[str, Any]:
    from json import loads

    from afl.errors import UsageError

    if text is None:
        return {}
    try:
        value = loads(text)
    except ValueError as error:
        raise UsageError(f"--metadata is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise UsageError('--metadata is a JSON object, such as {"region": "eu"}')
    return value


@app.command("list")
def list_(context: typer.Context, store: Store = None, json: Json = False) -> None:
    """List the registered handlers."""
    from afl.operations import handlers

    with opened(context, store) as found:
        registrations = handlers.list_handlers(found)
    if json:
        write_json([handlers.view(each) for each in registrations])
    else:
        _show_handlers(registrations)


def _show_handlers(registrations: list[HandlerRegistration]) -> None:
    from afl.cli.tables import message_of, show_table

    columns = ("facet", "module", "entrypoint", "version", "state", "problem")
    rows = [
        (
            each.facet_name,
            each.module_uri,
            each.entrypoint,
            each.version,
            "enabled" if each.is_enabled else "disabled",
            message_of(each.load_error),
        )
        for each in registrations
    ]
    show_table(columns, rows, "No handlers are registered.")


@app.command()
def show(context: typer.Context, facet: Facet, store: Store = None, json: Json = False) -> None:
    """Show the registration of a facet."""
    from afl.operations import handlers

    with opened(context, store) as found:
        registration = handlers.find(found, facet)
    if json:
        write_json(handlers.view(registration))
    else:
        _show_handler(registration)


def _show_handler(registration: HandlerRegistration) -> None:
    from afl.cli.common import as_json
    from afl.cli.tables import clock_time, show_facts, span
    from afl.operations.reading import moment

    timeout = registration.timeout_ms
    show_facts(
        {
            "facet": registration.facet_name,
            "module": registration.module_uri,
            "entrypoint": registration.entrypoint,
            "version": registration.version,
            "checksum": registration.checksum,
            "timeout": span(timeout / 1000) if timeout else "none",
            "isolation": registration.isolation,
            "on lost": registration.on_lost,
            "state": "enabled" if registration.is_enabled else "disabled",
            "requirements": ", ".join(registration.requirements),
            "metadata": as_json(registration.metadata) if registration.metadata else "",
            "updated": clock_time(moment(registration.updated)),
            "problem": str((registration.load_error or {}).get("message", "")),
        }
    )


@app.command()
def remove(context: typer.Context, facet: Facet, store: Store = None, json: Json = False) -> None:
    """Forget the handler of a facet. Its tasks wait until it has another one."""
    from afl.operations import handlers

    with opened(context, store) as found:
        handlers.remove(found, facet)
    if json:
        write_json({"facet": facet, "removed": True})
    else:
        typer.echo(f"Removed the handler of {facet}.")


@app.command()
def enable(context: typer.Context, facet: Facet, store: Store = None, json: Json = False) -> None:
    """Let workers claim tasks of a facet again."""
    _enable(context, facet, store, json, is_enabled=True)


@app.command()
def disable(context: typer.Context, facet: Facet, store: Store = None, json: Json = False) -> None:
    """Let no worker claim tasks of a facet. They wait."""
    _enable(context, facet, store, json, is_enabled=False)


def _enable(
    context: typer.Context, facet: str, store: str | None, json: bool, *, is_enabled: bool
) -> None:
    from afl.operations import handlers

    with opened(context, store) as found:
        changed = handlers.enable(found, facet, is_enabled=is_enabled)
    if json:
        write_json(handlers.view(changed))
    else:
        typer.echo(f"The handler of {facet} is {'enabled' if is_enabled else 'disabled'}.")


@app.command()
def verify(
    context: typer.Context,
    facet: Annotated[
        str | None, typer.Argument(metavar="FACET", help="Only this one; else all.")
    ] = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """Say which registered handlers cannot be loaded. They are loaded as a worker in this folder
    would, each in a process of its own."""
    from afl.operations import handlers

    config = settings(context, store_url=store)
    with store_of(config) as found:
        wanted = [handlers.find(found, facet)] if facet else handlers.list_handlers(found)
    verdicts = [handlers.verify(each, config.handlers.paths) for each in wanted]
    if json:
        write_json(verdicts)
    else:
        _show_verdicts(verdicts)
    if not all(each.ok for each in verdicts):
        raise typer.Exit(PROBLEMS)


def _show_verdicts(verdicts: list[Verdict]) -> None:
    for each in verdicts:
        if each.ok:
            typer.echo(f"OK: {each.facet}: {each.module_uri}, {each.entrypoint}")
        else:
            typer.echo(f"WRONG: {each.facet}: {each.problem}")
    wrong = sum(not each.ok for each in verdicts)
    typer.echo(f"{counted(len(verdicts), 'handler')}, {wrong} wrong")
