"""A server in this process, with a store of its own, for what needs no process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp import Client

from afl.lang.compiler import compile_source
from afl.mcp.access import OPERATOR, Role
from afl.mcp.backend import Backend
from afl.mcp.server import create_server
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore
from afl.turns.memory import MemoryTurns


def text_of(content: object) -> str:
    """The text of what a tool or a resource gave."""
    return str(getattr(content, "text"))  # noqa: B009 - other kinds of content have none


def backend_with(*texts: str) -> Backend:
    """A backend that was given these programs."""
    store = MemoryStore()
    programs = [compile_source(each) for each in texts]
    return Backend(store, Evaluator(store), MemoryTurns, programs)


@asynccontextmanager
async def client_of(backend: Backend, role: Role = OPERATOR) -> AsyncIterator[Client]:
    async with Client(create_server(backend, role)) as client:
        yield client


def talk(
    backend: Backend, main: Callable[[Client], Awaitable[None]], role: Role = OPERATOR
) -> None:
    async def run() -> None:
        async with client_of(backend, role) as client:
            with anyio.fail_after(20):
                await main(client)

    anyio.run(run)


async def called(client: Client, tool: str, /, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    answer = result.structured_content
    assert isinstance(answer, dict)
    return answer


def do_one(backend: Backend, facet: str, result: dict[str, Any]) -> None:
    """Do the next task of a facet, as a worker would."""
    (task,) = backend.store.claim_tasks([facet], 1)
    backend.evaluator.complete_task(task, result)
