"""Blocking calls of many coroutines: each gets its own outcome, on few threads."""

from __future__ import annotations

import asyncio
import threading

import anyio.to_thread
import pytest
from tests.gateway.scene import PATIENCE_S

from afl.clock import SYSTEM_CLOCK
from afl.gateway.batches import Batches


def run(scenario: object) -> None:
    asyncio.run(asyncio.wait_for(scenario, PATIENCE_S))  # type: ignore[arg-type]


def test_each_call_has_its_own_outcome() -> None:
    threads: set[int] = set()

    def work(number: int) -> int:
        threads.add(threading.get_ident())
        if number % 7 == 0:
            raise ValueError(number)
        return number

    async def scenario() -> None:
        batches = Batches()
        calls = [batches.call(lambda number=number: work(number)) for number in range(1000)]  # type: ignore[misc]
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert [each for each in found if not isinstance(each, ValueError)] == [
            number for number in range(1000) if number % 7
        ]

    run(scenario())
    assert len(threads) <= 4
    assert threading.get_ident() not in threads


def test_one_who_goes_away_disturbs_nobody() -> None:
    go = threading.Event()

    async def scenario() -> None:
        batches = Batches()
        tasks = [
            asyncio.create_task(batches.call(lambda: SYSTEM_CLOCK.wait(go, PATIENCE_S)))
            for _ in range(20)
        ]
        await asyncio.sleep(0)
        for each in tasks[::2]:
            each.cancel()
        go.set()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert found[1::2] == [True] * 10
        assert all(isinstance(each, asyncio.CancelledError) for each in found[::2])

    run(scenario())


def test_without_a_thread_callers_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_thread(*args: object, **options: object) -> None:
        raise RuntimeError("can't start new thread")

    async def scenario() -> None:
        with pytest.raises(RuntimeError, match="new thread"):
            await Batches().call(lambda: 1)

    monkeypatch.setattr(anyio.to_thread, "run_sync", no_thread)
    run(scenario())
