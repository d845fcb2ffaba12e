"""`afl dashboard`: look at everything in a browser, and act."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from afl.cli.common import OK, Library, Store, compiled, service_settings, store_of
from afl.cli.running import ending_in_time, run_group

if TYPE_CHECKING:
    from afl.config import Config
    from afl.dashboard.server import Dashboard
    from afl.gateway.access import Token

_PORT = 8765
#: Pages are read again: nobody waits long for one.
_DRAIN_S = 5.0

Programs = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILE|DIR", help="AFL whose workflows can be submitted at once."),
]


def dashboard(
    context: typer.Context,
    paths: Programs = None,
    host: Annotated[str, typer.Option("--host", metavar="HOST", help="Listen here.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", help="Listen here; 0 is any port.")
    ] = _PORT,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="Who may sign in, a line for each: NAME ROLE TOKEN. Else two tokens are made.",
        ),
    ] = None,
    store: Store = None,
    mailboxes: Annotated[
        str | None,
        typer.Option("--mailboxes", metavar="URL", help="Where mailboxes are; else in the store."),
    ] = None,
    handler_path: Annotated[
        list[str] | None,
        typer.Option(
            "--handler-path", metavar="DIR", help="A folder that registered handlers may be in."
        ),
    ] = None,
    library: Library = None,
) -> None:
    """Serve pages to look at runs, tasks, servers, handlers, turns and mailboxes, and to act on
    them; the same things as JSON below /api."""
    config = service_settings(
        context,
        store_url=store,
        handlers_paths=handler_path or None,
        language_library_paths=library or None,
    )
    code = _served(config, paths or [], (host, port), token_file, mailboxes)
    if code != OK:
        raise typer.Exit(code)


def _served(
    config: Config,
    paths: list[str],
    place: tuple[str, int],
    token_file: Path | None,
    mailboxes: str | None,
) -> int:
    """Serve until the end; the exit code."""
    from afl.serving.extras import require_dashboard

    require_dashboard()
    from afl.dashboard.server import Dashboard
    from afl.runtime.lifecycle import LoopGroup
    from afl.serving.pages import open_desk

    programs = [compiled(config, paths)] if paths else []
    tokens, made = _tokens(token_file, place[0])
    with (
        ending_in_time() as has_ended,
        store_of(config) as store,
        open_desk(config, store, programs=programs, mailboxes=mailboxes) as desk,
    ):
        loop = Dashboard(desk, tokens=tokens, host=place[0], port=place[1])
        group = LoopGroup([loop], shutdown_timeout=_DRAIN_S)
        _tell(loop, made)
        code = run_group(group)
        has_ended(group, code)
    return code


def _tokens(path: Path | None, host: str) -> tuple[tuple[Token, ...], bool]:
    """Who may sign in, and whether they were made here. Raises ConfigurationError, UsageError."""
    import secrets

    from afl.dashboard.sessions import WELCOME
    from afl.errors import ConfigurationError, UsageError
    from afl.gateway.access import Role, Token, is_loopback
    from afl.serving.tokens import read_tokens

    if path is not None:
        try:
            return read_tokens(path.read_text(encoding="utf-8"), WELCOME), False
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"the tokens in {path} cannot be read: {error}") from None
    if not is_loopback(host):
        # Shown, they would stay in a log; and behind one address, each replica would have others.
        raise ConfigurationError(
            f"{host} is reached from outside, and nobody has a token. Give --token-file, with a "
            "line for each: NAME ROLE TOKEN; the roles are operator and reader"
        )
    made = (
        Token(secrets.token_urlsafe(24)),
        Token(secrets.token_urlsafe(24), "reader", Role.READER),
    )
    return made, True


def _tell(loop: Dashboard, made: bool) -> None:
    """Say where it is, as soon as that is known; and the tokens that nobody knows yet."""

    def say() -> None:
        loop.wait_until_listening()
        if (url := loop.url) is not None:  # else it has ended already
            typer.echo(f"Dashboard: {url}", err=True)

    if made:
        for each in loop.tokens:
            typer.echo(f"Token of the {each.name}, shown once: {each.secret}", err=True)
    threading.Thread(target=say, name="afl-dashboard-tells", daemon=True).start()
