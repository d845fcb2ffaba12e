"""The server over streamable HTTP, for who has a token."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import anyio
import uvicorn
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from pydantic import AnyHttpUrl
from starlette.applications import Starlette

from afl.errors import ConfigurationError
from afl.mcp.access import READ, READER, Address, Tokens
from afl.mcp.backend import Backend
from afl.mcp.server import create_server

#: What open requests get to end, when the process is told to stop.
_DRAIN_S = 2


def make_app(backend: Backend, tokens: Tokens, address: Address) -> Starlette:
    """The ASGI app; its path is `/mcp`. Nothing is answered without a token."""
    issuer = AnyHttpUrl(address.url)
    # A call that comes without a user cannot get here; if it did, it could only look.
    return create_server(backend, READER).streamable_http_app(
        host=address.host,
        auth=AuthSettings(
            issuer_url=issuer,
            resource_server_url=None,
            required_scopes=[READ],
            validate_token_resource=False,
        ),
        token_verifier=_Verifier(tokens),
    )


class _Verifier:
    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def verify_token(self, token: str) -> AccessToken | None:
        role = self._tokens.role_of(token)
        if role is None:
            return None
        # The client id is what a session is bound to: nobody goes on with another role's.
        return AccessToken(token=token, client_id=role.name, scopes=list(role.scopes))


async def serve_http(
    backend: Backend, tokens: Tokens, address: Address, listening: Callable[[Address], None]
) -> None:
    """Serve until SIGTERM or SIGINT. `listening` is told the address, with the port that it got.

    Raises ConfigurationError if nobody can listen there.
    """
    with _bound(address) as (found, bound):
        config = uvicorn.Config(
            make_app(backend, tokens, bound),
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=_DRAIN_S,
        )
        server = _Server(config)
        async with anyio.create_task_group() as group:
            group.start_soon(_stop_when_told, backend, server)
            listening(bound)
            await server.serve(sockets=[found])
            group.cancel_scope.cancel()


@contextmanager
def _bound(address: Address) -> Iterator[tuple[socket.socket, Address]]:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        found = socket.create_server((address.host, address.port), family=family)
    except OSError as error:
        raise ConfigurationError(
            f"--http {address.host}:{address.port}: cannot listen there: {error.strerror}"
        ) from None
    with found:
        yield found, replace(address, port=found.getsockname()[1])


class _Server(uvicorn.Server):
    """Signals are ours: uvicorn would raise them again at the end, and so not exit with 0."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _stop_when_told(backend: Backend, server: uvicorn.Server) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            # Asked twice, it does not wait for open requests.
            server.force_exit = server.should_exit
            server.should_exit = True
            backend.request_stop()
