"""What a tool is: its name, what it takes and gives, who may call it, and what it does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, TypeVar

import anyio.to_thread

from afl.mcp.access import Role
from afl.mcp.arguments import Arguments, Result
from afl.mcp.backend import Backend

R = TypeVar("R")
T = TypeVar("T")

#: Calls that may wait for runs at the same time, apart from those that only ask the store.
_WAITERS = 500


@dataclass(frozen=True)
class Hints:
    """What a client may assume of a tool."""

    is_read_only: bool = False
    is_destructive: bool = False
    #: The same call again changes nothing more.
    is_idempotent: bool = False


READS = Hints(is_read_only=True, is_idempotent=True)


@dataclass(frozen=True)
class Call:
    """One call of a tool."""

    backend: Backend
    #: Of whoever called.
    role: Role
    #: Tells whoever called how far it has come.
    report: Callable[[float, str], Awaitable[None]]
    waiters: anyio.CapacityLimiter

    async def wait(self, work: Callable[..., T], *arguments: Any) -> T:
        """Do what blocks for long, where it keeps no other call from the store. Whoever leaves
        leaves it behind: it must end by itself."""
        return await anyio.to_thread.run_sync(
            partial(work, *arguments), limiter=self.waiters, abandon_on_cancel=True
        )


def new_waiters() -> anyio.CapacityLimiter:
    return anyio.CapacityLimiter(_WAITERS)


Run = Callable[[Call, Any], Awaitable[Result]]


@dataclass(frozen=True)
class Tool:
    name: str
    title: str
    #: For the model that chooses it.
    description: str
    arguments: type[Arguments]
    result: type[Result]
    run: Run
    hints: Hints = Hints()
    #: Whether a call changes anything, so that only the operator may make it.
    acts: Callable[[Any], bool] = lambda _arguments: True
    #: Some of its calls only look.
    looks_too: bool = False


def never(_arguments: Any) -> bool:
    """Of a tool that only looks."""
    return False


def in_thread(work: Callable[[Backend, Any], Result]) -> Run:
    """A tool that asks the store and answers. What has begun is finished, whoever leaves."""

    @wraps(work)
    def on_backend(call: Call, arguments: Any) -> Result:
        return work(call.backend, arguments)

    return in_thread_for_caller(on_backend)


def in_thread_for_caller(work: Callable[[Call, Any], Result]) -> Run:
    """The same, if the answer depends on who asks."""

    @wraps(work)
    async def run(call: Call, arguments: Any) -> Result:
        return await anyio.to_thread.run_sync(work, call, arguments)

    return run
