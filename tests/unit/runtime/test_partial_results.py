"""Parts of results are recorded in order, without keeping an event loop waiting."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from tests.workers.shop import PATIENCE_S, Aside, Shop, running

from afl.clock import SYSTEM_CLOCK, FakeClock
from afl.errors import StoreUnavailable
from afl.runtime.agent_poller import AgentPoller
from afl.runtime.dispatch import HandlerContext
from afl.runtime.json_values import NotJson
from afl.runtime.memory_store import MemoryStore
from afl.runtime.partial_results import _THREADS, LoopParts, written_patiently
from afl.runtime.task_source import TaskWork
from afl.work.attempts import Attempt


class Writer:
    """Records parts as slowly, or as badly, as a test wants."""

    def __init__(self, *problems: Exception | None) -> None:
        self.problems = list(problems)
        self.written: list[dict[str, Any]] = []
        self.threads: set[threading.Thread] = set()
        self.may_write = threading.Event()
        self.may_write.set()
        self.has_begun = threading.Event()

    def __call__(self, values: Mapping[str, Any]) -> None:
        self.has_begun.set()
        assert self.may_write.wait(PATIENCE_S)
        self.threads.add(threading.current_thread())
        problem = self.problems.pop(0) if self.problems else None
        if problem is not None:
            raise problem
        self.written.append(dict(values))


def attempt_of(clock: Any) -> Attempt:
    shop = Shop(MemoryStore())
    shop.weigh_all("a")
    [task] = shop.store.claim_tasks(["Weigh"], 1)
    return Attempt(TaskWork(task), clock)


def test_parts_are_recorded_in_order_while_the_loop_goes_on() -> None:
    write = Writer()

    async def handle() -> None:
        write.may_write.clear()
        parts = LoopParts(write, "shop.Weigh")
        for number in range(20):
            parts.add({"grams": number})
        await asyncio.sleep(0)
        assert write.written == []
        write.may_write.set()
        await parts.settled()

    asyncio.run(handle())
    assert write.written == [{"grams": number} for number in range(20)]
    assert threading.current_thread() not in write.threads


def test_a_part_is_what_it_was_when_it_was_shown() -> None:
    write = Writer()

    async def handle() -> None:
        parts = LoopParts(write, "shop.Weigh")
        values: dict[str, Any] = {"grams": 1}
        parts.add(values)
        values["grams"] = 2
        await parts.settled()

    asyncio.run(handle())
    assert write.written == [{"grams": 1}]


def test_what_nobody_wants_any_more_is_given_up() -> None:
    write = Writer()

    async def handle() -> None:
        write.may_write.clear()
        parts = LoopParts(write, "shop.Weigh")
        for number in range(3):
            parts.add({"grams": number})
        await asyncio.sleep(0)
        parts.give_up()
        write.may_write.set()
        with pytest.raises(asyncio.CancelledError):
            await parts.settled()

    asyncio.run(handle())
    assert len(write.written) <= 1


def test_giving_up_what_is_being_recorded_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    write = Writer()
    write.may_write.clear()

    async def handle() -> None:
        parts = LoopParts(write, "shop.Weigh")
        parts.add({"grams": 1})
        while not write.has_begun.is_set():
            await asyncio.sleep(0)
        parts.give_up()
        with pytest.raises(asyncio.CancelledError):
            await parts.settled()
        write.may_write.set()
        await all_threads_used()

    asyncio.run(handle())
    assert write.written == [{"grams": 1}]
    assert not caplog.messages


async def all_threads_used() -> None:
    """Each thread that records parts has done with what it did before."""
    meeting = threading.Barrier(_THREADS, timeout=PATIENCE_S)
    all_parts = [LoopParts(lambda _: meeting.wait(), "shop.Weigh") for _ in range(_THREADS)]
    for each in all_parts:
        each.add({})
    await asyncio.gather(*(each.settled() for each in all_parts))


def test_what_no_step_can_hold_is_refused_at_once() -> None:
    async def handle() -> None:
        with pytest.raises(NotJson, match=r"partial result of shop\.Weigh: grams is a set"):
            LoopParts(Writer(), "shop.Weigh").add({"grams": {1}})

    asyncio.run(handle())


def test_a_part_that_cannot_be_recorded_is_told_at_the_end() -> None:
    write = Writer(None, ValueError("refused"))

    async def handle() -> None:
        parts = LoopParts(write, "shop.Weigh")
        for number in range(3):
            parts.add({"grams": number})
        with pytest.raises(ValueError, match="refused"):
            await parts.settled()

    asyncio.run(handle())
    assert write.written == [{"grams": 0}]


def test_a_thread_without_a_loop_waits_for_the_record() -> None:
    write = Writer()
    LoopParts(write, "shop.Weigh").add({"grams": 1})
    assert write.written == [{"grams": 1}]


def test_without_parts_there_is_nothing_to_wait_for() -> None:
    asyncio.run(LoopParts(Writer(), "shop.Weigh").settled())


def test_an_outage_is_waited_for() -> None:
    write = Writer(StoreUnavailable("out"), StoreUnavailable("out"))
    written_patiently(write, {"grams": 1}, attempt_of(SYSTEM_CLOCK), 15.0, SYSTEM_CLOCK)
    assert write.written == [{"grams": 1}]


def test_an_outage_is_not_waited_for_longer_than_the_claim_may_hold() -> None:
    clock = FakeClock()
    write = Writer(*[StoreUnavailable("out")] * 100)
    aside = Aside(lambda: written_patiently(write, {}, attempt_of(clock), 0.1, clock))
    clock.wait_for_waiters(1)
    clock.advance(0.05)
    with pytest.raises(StoreUnavailable):
        aside.join()


def test_who_is_cancelled_waits_for_no_store() -> None:
    clock = FakeClock()
    attempt = attempt_of(clock)
    attempt.cancel()
    with pytest.raises(StoreUnavailable):
        written_patiently(Writer(StoreUnavailable("out")), {}, attempt, 60.0, clock)


def test_parts_that_the_result_does_not_repeat_count() -> None:
    shop = Shop(MemoryStore())

    async def weigh(payload: dict[str, Any], context: HandlerContext) -> None:
        for number in range(5):
            context.update({"grams": number})

    poller = AgentPoller(shop.store, shop.evaluator)
    poller.register("Weigh", weigh)
    with running(poller):
        assert shop.outputs(shop.weigh_all("a")) == {"grams": [4]}
