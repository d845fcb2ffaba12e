"""The server on standard input and output. Standard output is the protocol's alone: while this
serves, whatever else is printed goes to standard error."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import NoReturn

import anyio
from mcp.server.stdio import stdio_server

from afl.mcp.access import Role
from afl.mcp.backend import Backend
from afl.mcp.server import create_server

#: What calls in hand get to answer, when the process is told to stop.
_LAST_WORDS_S = 2.0
_LOOK_S = 0.05


async def serve_stdio(backend: Backend, role: Role, leave: Callable[[], NoReturn]) -> None:
    """Serve until the other side closes its end.

    `leave` ends the process when a signal does: a thread may read standard input for ever, and
    nothing can wake it.
    """
    server = create_server(backend, role)
    async with anyio.create_task_group() as group:
        group.start_soon(_leave_when_told, backend, leave)
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
        group.cancel_scope.cancel()


async def _leave_when_told(backend: Backend, leave: Callable[[], NoReturn]) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            backend.request_stop()
            with anyio.move_on_after(_LAST_WORDS_S):
                while backend.calls:
                    await anyio.sleep(_LOOK_S)
            # What was answered last is on its way to standard output.
            await anyio.sleep(_LOOK_S)
            leave()
