"""Two ways to call others from the same code: on a thread that blocks, or on an event loop.

What calls models and tools is written once, as coroutines. `Blocking` calls run to their end
without suspending, so `run_blocking` can run such a coroutine on any thread, without a loop.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from afl.agents.listening import AsyncStreamingAdapter, QuickListener, StreamingAdapter
from afl.agents.listening import Listener as Listener
from afl.agents.model import AsyncModelAdapter, ModelAdapter, ModelAnswer, ModelRequest
from afl.turns.driving import run_blocking as run_blocking

if TYPE_CHECKING:
    from asyncio import Future

AnyAdapter: TypeAlias = ModelAdapter | AsyncModelAdapter


#: Calls something on a thread; the future belongs to the event loop of the caller.
Aside: TypeAlias = "Callable[[Callable[[], Any]], Future[Any]]"
#: Waits on the calling thread for something to be awaited.
Runner = Callable[[Awaitable[Any]], Any]


class Calling(Protocol):
    async def model(self, request: ModelRequest, listener: Listener | None = None) -> ModelAnswer:
        """Ask the adapter. If it can, it tells the listener what it hears."""

    async def function(self, call: Callable[[], Any]) -> Any:
        """Call code of others, which may block, or give something to be awaited."""


class Blocking:
    """Each call blocks the thread."""

    def __init__(self, adapter: AnyAdapter | None, run: Runner) -> None:
        self._adapter = adapter
        self._run = run

    async def model(self, request: ModelRequest, listener: Listener | None = None) -> ModelAnswer:
        adapter = self._adapter
        assert adapter is not None, "who asks models has an adapter"
        if listener is not None and isinstance(adapter, StreamingAdapter):
            return adapter.stream(request, listener)
        if isinstance(adapter, ModelAdapter):
            return adapter.answer(request)
        if isinstance(listener, QuickListener) and isinstance(adapter, AsyncStreamingAdapter):
            answer: ModelAnswer = self._run(adapter.stream_async(request, listener))
        else:
            answer = self._run(adapter.answer_async(request))
        return answer

    async def function(self, call: Callable[[], Any]) -> Any:
        value = call()
        return self._run(value) if inspect.isawaitable(value) else value


class Waiting:
    """Calls wait on the event loop; code that may block is called `aside`, on a thread.

    For one turn: its calls follow each other, also after it was cancelled. So nothing is cleaned up
    while somebody still uses it.
    """

    def __init__(self, adapter: AnyAdapter | None, aside: Aside) -> None:
        self._adapter = adapter
        self._aside = aside
        self._unfinished: Future[Any] | None = None

    async def model(self, request: ModelRequest, listener: Listener | None = None) -> ModelAnswer:
        adapter = self._adapter
        assert adapter is not None, "who asks models has an adapter"
        # Who might block does not listen on the event loop.
        if isinstance(listener, QuickListener) and isinstance(adapter, AsyncStreamingAdapter):
            return await adapter.stream_async(request, listener)
        if listener is not None and isinstance(adapter, StreamingAdapter):
            return await self._answer(partial(adapter.stream, request, listener))
        if isinstance(adapter, AsyncModelAdapter):
            return await adapter.answer_async(request)
        return await self._answer(partial(adapter.answer, request))

    async def _answer(self, ask: Callable[[], ModelAnswer]) -> ModelAnswer:
        answer: ModelAnswer = await self.function(ask)
        return answer

    async def function(self, call: Callable[[], Any]) -> Any:
        is_waiting = inspect.iscoroutinefunction(call)
        value = call() if is_waiting else await self._on_thread(call)
        return await value if inspect.isawaitable(value) else value

    async def _on_thread(self, call: Callable[[], Any]) -> Any:
        import asyncio  # most processes do without it

        if self._unfinished is not None:
            await asyncio.wait([self._unfinished])
        self._unfinished = called = self._aside(call)
        # Whoever is cancelled meanwhile leaves it alone; nobody may be there to hear its error.
        called.add_done_callback(lambda each: each.cancelled() or each.exception())
        return await asyncio.shield(called)
