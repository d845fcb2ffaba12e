"""Anything, in any order: claims, kills, thieves, timeouts, outages, stops.

Whatever happens, every piece ends once, by whoever holds its claim; nothing is applied after a
claim was lost (the box checks both); and when all is over, nothing is left in between.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Awaitable, Callable

import pytest
from tests.engine.profile import IS_STORM
from tests.work.box import Box, Settled
from tests.work.running import PATIENCE_S, Running, eventually

from afl.clock import SYSTEM_CLOCK
from afl.work import run
from afl.work.attempts import Attempt
from afl.work.consumer import Consumer, Options
from afl.work.source import NO_ROOM, InProcess, InThread, Job, OnLoop

PIECES = 400 if IS_STORM else 120
SEEDS = range(40 if IS_STORM else 3)
#: For a process to start, on a busy machine too, and not for a thread to hang.
LEASE_S = 0.3


class Storm:
    """A box full of work, and what happens to it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.box = Box(lease_s=LEASE_S)
        self.starts: dict[str, int] = {}
        self._lock = threading.Lock()
        for number in range(PIECES):
            name = str(number)
            is_chained = number % 7 == 6
            then = [str(number + 1)] if number % 7 == 5 and number + 1 < PIECES else []
            self.box.put(name, self._job(), then=then, is_held=is_chained)

    def _job(self) -> Job:
        how: list[Callable[[], Job]] = [
            lambda: Job(InThread(self._sleep(self.random.choice([0, 0, 0.01])))),
            lambda: Job(InThread(self._sleep(0.6)), timeout_s=0.02),
            lambda: Job(InThread(self._raise)),
            lambda: Job(OnLoop(self._wait(self.random.choice([0, 0.01])))),
            lambda: Job(OnLoop(self._wait(3600)), timeout_s=0.02),
            lambda: Job(OnLoop(self._wait(3600)), patience_s=0.02),
        ]
        if self.random.random() < 0.02:
            echo = InProcess("tests.work.targets:echo", [1], lambda *_anything: None)
            return Job(echo)
        return self.random.choice(how)()

    def _note(self, attempt: Attempt) -> None:
        with self._lock:
            self.starts[attempt.work.id] = self.starts.get(attempt.work.id, 0) + 1

    def _sleep(self, seconds: float) -> Callable[[Attempt], str]:
        def work(attempt: Attempt) -> str:
            self._note(attempt)
            attempt.cancellation.wait(seconds)
            return "slept"

        return work

    def _wait(self, seconds: float) -> Callable[[Attempt], Awaitable[str]]:
        async def work(attempt: Attempt) -> str:
            self._note(attempt)
            await asyncio.sleep(seconds)
            return "waited"

        return work

    def _raise(self, attempt: Attempt) -> None:
        self._note(attempt)
        raise ValueError("as it happens")

    def disturb(self, stop: threading.Event) -> None:
        """Until all is over, or somebody says so."""
        while not self.box.is_empty() and not stop.is_set():
            self.random.choice([self._go_out, self._steal, self._be_slow, self._rest])()

    def _go_out(self) -> None:
        self.box.is_out = True
        self._rest()
        self.box.is_out = False

    def _steal(self) -> None:
        """Another worker takes something that runs here, and completes it or dies."""
        open_ones = [name for name, end in self.box.ends().items() if end is None]
        if not open_ones:
            return
        name = self.random.choice(open_ones)
        if name in self.box.waiting():
            return
        piece = self.box.steal(name)
        if self.random.random() < 0.5:
            done: Settled = self.box.complete(piece, "by a thief", NO_ROOM)
            assert done is not None

    def _be_slow(self) -> None:
        self.box.is_slow = True
        self._rest()
        self.box.is_slow = False
        self.box.settle()

    def _rest(self) -> None:
        SYSTEM_CLOCK.sleep(self.random.uniform(0, 0.02))


@pytest.mark.parametrize("seed", SEEDS)
def test_every_piece_ends_exactly_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_GRACE_S", 0.02)
    storm = Storm(seed)
    options = Options(concurrency=17, threads=5, poll_interval_s=0.05, drain_s=0.05)
    consumer = Consumer(storm.box, options)
    over = threading.Event()
    weather = threading.Thread(target=storm.disturb, args=(over,), daemon=True)
    weather.start()
    while not storm.box.is_empty():
        with Running(consumer) as running:
            running.has_ended.wait(storm.random.uniform(0.05, 0.4))
            running.stop.set()
            if storm.random.random() < 0.3:
                consumer.checkpoint()
    over.set()
    weather.join(PATIENCE_S)
    storm.box.is_slow = storm.box.is_out = False
    storm.box.settle()
    assert storm.box.is_empty()
    assert storm.box.waiting() == []
    assert consumer.in_flight == 0
    assert len(storm.starts) >= PIECES * 0.8  # the others were stolen before they began


def test_with_stops_alone_each_piece_begins_once() -> None:
    """Nobody is killed and no lease lapses: whoever began a piece ends it."""
    storm = Storm(1)
    storm.box.lease_s = 60.0
    consumer = Consumer(storm.box, Options(concurrency=17, threads=5, drain_s=60))
    while not storm.box.is_empty():
        with Running(consumer) as running:
            running.has_ended.wait(storm.random.uniform(0.0, 0.05))
    eventually(storm.box.is_empty)
    assert set(storm.starts.values()) == {1}
    assert consumer.leases_lost == 0
