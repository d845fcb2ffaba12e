"""Old runs go by themselves, at one store by one of many."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.unit.operations.stage import Stage

from afl.clock import SYSTEM_CLOCK, FakeClock
from afl.errors import StoreUnavailable
from afl.operations.retention import INTERVAL_S, LOCK, RetentionLoop
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import Pruned

HOUR_S = 3600
_PATIENCE_S = 30.0


def loop_of(stage: Stage, keep: str = "30d") -> RetentionLoop:
    return RetentionLoop(stage.store, keep, clock=stage.clock)


def count(stage: Stage) -> int:
    return len(stage.store.get_all_runners())


def test_old_runs_are_removed_and_others_stay(stage: Stage) -> None:
    for _ in range(25):
        stage.greet()
    stage.clock.advance(31 * 24 * HOUR_S)
    stage.greet()
    stage.talk("why?")
    loop_of(stage).run(max_iterations=1)
    assert count(stage) == 2


def test_never_removes_none(stage: Stage) -> None:
    stage.greet()
    stage.clock.advance(3650 * 24 * HOUR_S)
    loop_of(stage, "never").run(max_iterations=1)
    assert count(stage) == 1


def test_one_of_many_does_it(stage: Stage) -> None:
    stage.greet()
    assert stage.store.acquire_lock(LOCK, 60_000, owner="another one")
    loop_of(stage, "0s").run(max_iterations=1)
    assert count(stage) == 1
    stage.clock.advance(61)
    loop_of(stage, "0s").run(max_iterations=1)
    assert count(stage) == 0


class _Failing(MemoryStore):
    """Cannot be reached at the first look."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock=clock)
        self.looks = 0

    def prune_runs(self, keep_ms: int, limit: int = 100) -> Pruned:
        self.looks += 1
        if self.looks == 1:
            raise StoreUnavailable("gone for a moment")
        return super().prune_runs(keep_ms, limit)


def test_an_outage_ends_nothing_and_a_stop_is_heard_at_once() -> None:
    clock = FakeClock()
    store = _Failing(clock)
    loop = RetentionLoop(store, "30d", clock=clock)
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(loop.run)
        deadline = SYSTEM_CLOCK.monotonic() + _PATIENCE_S
        while store.looks < 2:
            assert SYSTEM_CLOCK.monotonic() < deadline
            if clock.waiters:
                clock.advance(INTERVAL_S)
        loop.request_stop()
        ended.result(timeout=_PATIENCE_S)


def test_it_beats_while_it_rests() -> None:
    clock = FakeClock()
    loop = RetentionLoop(MemoryStore(clock=clock), "30d", clock=clock)
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(loop.run)
        deadline = SYSTEM_CLOCK.monotonic() + _PATIENCE_S
        for _ in range(12):
            while not clock.waiters:
                assert SYSTEM_CLOCK.monotonic() < deadline
            clock.advance(10)
        assert loop.heartbeat.elapsed() == pytest.approx(0, abs=10.1)
        loop.request_stop()
        ended.result(timeout=_PATIENCE_S)
