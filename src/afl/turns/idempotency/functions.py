"""Functions that act once for each key."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import wraps
from typing import Any, TypeVar

from afl.clock import SYSTEM_CLOCK, Clock
from afl.errors import StoreUnavailable, UsageError
from afl.turns.effects import current_effect
from afl.turns.idempotency.api import Held, IdempotencyStore, Kept
from afl.turns.idempotency.holding import AsyncKeeper, Keeper, begun, begun_async, keep
from afl.turns.values import as_kept, decode, digest, encode

R = TypeVar("R")


def idempotent(
    store: IdempotencyStore, *, clock: Clock = SYSTEM_CLOCK
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Let a function, or a coroutine function, act once for each `idempotency_key`, which its
    callers give by that name.

    Without one, the key of the tool call that they are part of is used; outside of all tools the
    call raises UsageError. Arguments and result must be JSON, and what this gives is the value of
    that JSON, also the first time: a tuple is a list, a dataclass a dict. The same key with the
    same arguments gives the same result; with others it raises KeyReused. A call that raises has
    not acted, and the next one does. Twins wait.
    """

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        name = f"{function.__module__}.{function.__qualname__}"

        def asked(key: str | None, args: Any, kwargs: Any) -> tuple[str, str]:
            return f"{name}:{key or _own_key(name)}", digest(encode([args, kwargs]))

        @wraps(function)
        def once(*args: Any, idempotency_key: str | None = None, **kwargs: Any) -> Any:
            found = begun(store, *asked(idempotency_key, args, kwargs), clock)
            if isinstance(found, Kept):
                return decode(found.answer)
            return _act(store, found, lambda: function(*args, **kwargs), clock)

        @wraps(function)
        async def once_async(*args: Any, idempotency_key: str | None = None, **kwargs: Any) -> Any:
            found = await begun_async(store, *asked(idempotency_key, args, kwargs))
            if isinstance(found, Kept):
                return decode(found.answer)
            call: Callable[[], Any] = lambda: function(*args, **kwargs)  # noqa: E731
            return await _act_async(store, found, call)

        return once_async if inspect.iscoroutinefunction(function) else once  # type: ignore[return-value]

    return decorate


def _own_key(name: str) -> str:
    effect = current_effect()
    if effect is None:
        raise UsageError(f"{name} needs an idempotency_key")
    return effect.key


def _act(store: IdempotencyStore, held: Held, call: Callable[[], Any], clock: Clock) -> Any:
    with Keeper(store, held, clock) as keeper:
        try:
            answer, result = as_kept(call())
        except BaseException:
            _release(store, keeper.stop())
            raise
        keep(store, keeper.stop(), answer, clock)
    return result


async def _act_async(
    store: IdempotencyStore, held: Held, call: Callable[[], Awaitable[Any]]
) -> Any:
    async with AsyncKeeper(store, held) as keeper:
        try:
            answer, result = as_kept(await call())
        except BaseException:
            await asyncio.to_thread(_release, store, await keeper.stop())
            raise
        await asyncio.to_thread(keep, store, await keeper.stop(), answer)
    return result


def _release(store: IdempotencyStore, held: Held) -> None:
    with suppress(StoreUnavailable):  # then twins wait until the lease is over
        store.release(held)
