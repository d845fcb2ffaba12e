"""`afl mcp`: let an LLM use afl."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, NoReturn

import typer

from afl.cli.common import OK, Library, Store, compiled, require_there, service_settings, store_of

if TYPE_CHECKING:
    from afl.config import Config
    from afl.mcp.access import Address, Tokens
    from afl.mcp.backend import Backend
    from afl.runtime.persistence import PersistenceAPI

Programs = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILE|DIR", help="AFL whose workflows are tools from the start."),
]


def mcp(
    context: typer.Context,
    paths: Programs = None,
    http: Annotated[
        str | None,
        typer.Option(
            "--http",
            metavar="[HOST:]PORT",
            help="Serve HTTP here, with tokens, instead of stdin and stdout; 0 is any port.",
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="The token of who may act."),
    ] = None,
    read_token_file: Annotated[
        Path | None,
        typer.Option("--read-token-file", metavar="FILE", help="The token of who may look."),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Let nobody act, whatever the token.")
    ] = False,
    task_list: Annotated[
        str | None,
        typer.Option("--task-list", metavar="NAME", help="Whose workers do runs started here."),
    ] = None,
    store: Store = None,
    scripts: Annotated[
        bool, typer.Option("--scripts", help="Run the script blocks of programs.")
    ] = False,
    handler_path: Annotated[
        list[str] | None,
        typer.Option(
            "--handler-path", metavar="DIR", help="A folder that registered handlers may be in."
        ),
    ] = None,
    library: Library = None,
) -> None:
    """Serve the Model Context Protocol: tools to run workflows and to operate, and each workflow as
    a tool of its own. On stdin and stdout, whoever started it is the operator."""
    from afl.errors import UsageError

    place = _place(http, token_file, read_token_file, read_only)
    config = service_settings(
        context,
        store_url=store,
        worker_task_list=task_list,
        scripts_enabled=scripts or None,
        handlers_paths=handler_path or None,
        language_library_paths=library or None,
    )
    if config.store.url.startswith("memory:"):
        raise UsageError(
            "a store in memory is this process's own, so no worker could do a run; name another "
            "one with --store"
        )
    if read_only:
        require_there(config.store.url)
    _require_sdk()
    if place is None:
        _serve_stdio(config, paths or [], read_only)
    else:
        _serve_http(config, paths or [], place)


class Place(NamedTuple):
    """Where HTTP is served, and for whom."""

    address: Address
    tokens: Tokens
    #: They were made here, so somebody has to be told.
    is_made: bool


def _place(
    http: str | None, token_file: Path | None, read_token_file: Path | None, read_only: bool
) -> Place | None:
    """None for standard input and output. Raises UsageError, ConfigurationError."""
    from dataclasses import replace

    from afl.errors import UsageError
    from afl.mcp.access import Address, Tokens, tokens_for

    if http is None:
        if token_file or read_token_file:
            raise UsageError("tokens are for --http; on stdin and stdout there is nobody else")
        return None
    address = Address.parse(http)
    tokens, is_made = tokens_for(address, Tokens.read(token_file, read_token_file))
    return Place(address, replace(tokens, is_read_only=read_only), is_made)


def _require_sdk() -> None:
    from importlib.util import find_spec

    from afl.errors import ConfigurationError

    if find_spec("mcp") is None:
        raise ConfigurationError("the MCP server needs its SDK: pip install 'afl[mcp]'")


def _serve_stdio(config: Config, paths: list[str], read_only: bool) -> None:
    import anyio

    from afl.mcp.access import OPERATOR, READER
    from afl.mcp.stdio import serve_stdio

    with store_of(config) as store:
        backend = _backend(config, store, paths)

        def leave() -> NoReturn:
            backend.close()
            store.close()
            sys.stderr.flush()
            os._exit(OK)

        anyio.run(serve_stdio, backend, READER if read_only else OPERATOR, leave)
        backend.close()


def _serve_http(config: Config, paths: list[str], place: Place) -> None:
    import anyio

    from afl.mcp.http import serve_http

    def tell(bound: Address) -> None:
        if place.is_made:
            _tell_tokens(place.tokens)
        typer.echo(f"MCP: {bound.url}", err=True)

    with store_of(config) as store:
        backend = _backend(config, store, paths)
        anyio.run(serve_http, backend, place.tokens, place.address, tell)
        backend.close()


def _tell_tokens(tokens: Tokens) -> None:
    if not tokens.is_read_only:
        typer.echo(f"Token of the operator: {tokens.operator}", err=True)
    typer.echo(f"Token to look only: {tokens.reader}", err=True)


def _backend(config: Config, store: PersistenceAPI, paths: list[str]) -> Backend:
    from afl import __version__
    from afl.bootstrap import evaluator
    from afl.mcp.backend import Backend, Options
    from afl.turns.opening import open_turns

    programs = [compiled(config, paths)] if paths else []
    options = Options(
        task_list=config.worker.task_list,
        library_paths=config.language.library_paths,
        strict=config.language.strict,
        handler_paths=config.handlers.paths,
        version=__version__,
    )
    return Backend(
        store, evaluator(store, config), lambda: open_turns(config.store.url), programs, options
    )
