"""The same code on a thread that blocks and on an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from afl.agents.adapters.scripted import ScriptedAdapter, says
from afl.agents.calling import Blocking, Calling, Waiting, run_blocking
from afl.agents.model import ModelAnswer, ModelRequest


class OnlyBlocking:
    def answer(self, request: ModelRequest) -> ModelAnswer:
        return says(threading.current_thread().name)


class OnlyAsync:
    async def answer_async(self, request: ModelRequest) -> ModelAnswer:
        return says("waited")


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


async def work(calling: Calling) -> list[Any]:
    text = (await calling.model(ModelRequest("claude", ()))).text
    return [text, await calling.function(lambda: 2), await calling.function(lambda: double(2))]


def test_on_a_thread() -> None:
    run = asyncio.run
    calling = Blocking(ScriptedAdapter([says("hi")]), lambda each: run(each))  # type: ignore[arg-type]
    assert run_blocking(work(calling)) == ["hi", 2, 4]


def aside(call: Callable[[], Any]) -> asyncio.Future[Any]:
    return asyncio.ensure_future(asyncio.to_thread(call))


def test_on_an_event_loop() -> None:
    assert asyncio.run(work(Waiting(ScriptedAdapter([says("hi")]), aside))) == ["hi", 2, 4]


def test_calls_follow_each_other_also_after_a_cancellation() -> None:
    steps: list[str] = []
    has_begun, may_end = threading.Event(), threading.Event()

    def slow() -> None:
        steps.append("begun")
        has_begun.set()
        assert may_end.wait(20)
        steps.append("ended")

    async def turn() -> None:
        calling = Waiting(None, aside)
        try:
            await calling.function(slow)
        finally:
            await calling.function(lambda: steps.append("cleaned up"))

    async def cancelled() -> None:
        task = asyncio.ensure_future(turn())
        assert await asyncio.to_thread(has_begun.wait, 20)
        task.cancel()
        await asyncio.sleep(0)
        may_end.set()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(cancelled())
    assert steps == ["begun", "ended", "cleaned up"]


def test_each_way_takes_adapters_of_the_other_one() -> None:
    run = asyncio.run
    blocking = Blocking(OnlyAsync(), lambda each: run(each))  # type: ignore[arg-type]
    assert run_blocking(work(blocking))[0] == "waited"
    thread = asyncio.run(work(Waiting(OnlyBlocking(), aside)))[0]
    assert thread != threading.main_thread().name


def test_what_is_raised_comes_out() -> None:
    async def broken() -> None:
        raise ValueError("told to")

    with pytest.raises(ValueError, match="told to"):
        run_blocking(broken())


def test_a_blocking_call_that_suspends_is_a_mistake_that_is_told() -> None:
    async def suspending() -> None:
        await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="waits for an event loop"):
        run_blocking(suspending())
