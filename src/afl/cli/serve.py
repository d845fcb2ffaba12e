"""`afl serve`: run the agents of an app as a service."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from afl.cli.common import OK, Store, service_settings
from afl.cli.running import ending_in_time, run_group

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from afl.config import Config
    from afl.gateway.http_loop import HttpLoop
    from afl.serving.app import App
    from afl.serving.service import Service

#: What the extra `serve` brings.
_OF_SERVERS = ("anyio", "fastapi", "httpx", "starlette", "uvicorn")


def serve(
    context: typer.Context,
    app: Annotated[
        str, typer.Argument(metavar="APP", help="module:name or file.py:name; the name is app.")
    ],
    drain_deadline: Annotated[
        str | None,
        typer.Option(
            "--drain-deadline",
            metavar="DURATION",
            help="How long turns may take after SIGTERM; without a default.",
        ),
    ] = None,
    host: Annotated[
        str | None, typer.Option("--host", metavar="HOST", help="Take turns by HTTP here.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", metavar="PORT", help="Take turns by HTTP here; 0 is any port."),
    ] = None,
    health_port: Annotated[
        int | None,
        typer.Option("--health-port", metavar="PORT", help="Answer probes here; 0 is any port."),
    ] = None,
    dashboard_port: Annotated[
        int | None,
        typer.Option(
            "--dashboard-port", metavar="PORT", help="Show the dashboard here; 0 is any port."
        ),
    ] = None,
    store: Store = None,
    mailboxes: Annotated[
        str | None,
        typer.Option("--mailboxes", metavar="URL", help="Where mailboxes are; else in the store."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="What it calls itself in journals and logs."),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="Who may use it, a line for each: NAME ROLE TOKEN. Else a token is made.",
        ),
    ] = None,
) -> None:
    """Take turns for the agents of an app, by HTTP and from mailboxes, until SIGTERM. A stop
    finishes or hands over the turns that go on; a second signal checkpoints them at once."""
    config = service_settings(
        context,
        store_url=store,
        lifecycle_drain_deadline=drain_deadline,
        lifecycle_health_port=health_port,
        serve_host=host,
        serve_port=port,
        serve_dashboard_port=dashboard_port,
        serve_mailboxes=mailboxes,
        serve_name=name,
        serve_tokens=None if token_file is None else _read(token_file),
    )
    code = _served(app, config)
    if code != OK:
        raise typer.Exit(code)


def _read(path: Path) -> str:
    from afl.errors import UsageError

    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the tokens in {path} cannot be read: {error}") from None


def _served(target: str, config: Config) -> int:
    """Serve until the end; the exit code."""
    from afl.serving.loading import load_app

    app = load_app(target)
    with ending_in_time() as has_ended, _opener()(app, config) as service:
        if config.store.url.startswith("memory:"):
            typer.echo("warning: turns are kept in memory, and die with this process", err=True)
        _tell(app, service)
        with service.shown():
            code = run_group(service.group)
            has_ended(service.group, code)
    return code


def _opener() -> Callable[[App, Config], AbstractContextManager[Service]]:
    from afl.errors import ConfigurationError

    try:
        from afl.serving.service import open_service
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _OF_SERVERS:
            raise
        raise ConfigurationError(
            f"serving needs {error.name}, which is not installed: pip install 'afl[serve]'"
        ) from error
    return open_service


def _tell(app: App, service: Service) -> None:
    """Say where it is, as soon as that is known; and the token that nobody knows yet."""
    names = ", ".join(each.name for each in app.agents)
    places: list[tuple[str, HttpLoop]] = [(f"Turns for {names}", service.api)]
    places += [("Dashboard", each) for each in service.dashboards]

    def say() -> None:
        for what, loop in places:
            loop.wait_until_listening()
            if (url := loop.url) is not None:  # else it has ended already
                typer.echo(f"{what}: {url}", err=True)

    if service.admission.made is not None:
        typer.echo(f"Token, shown once: {service.admission.made}", err=True)
    threading.Thread(target=say, name="afl-serve-tells", daemon=True).start()
