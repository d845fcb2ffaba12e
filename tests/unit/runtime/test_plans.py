"""Plans are made once, also for many who ask at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.workers.shop import PATIENCE_S, PROGRAM, Shop

from afl.errors import NotFound, StoreUnavailable
from afl.runtime.entities import FlowDefinition
from afl.runtime.memory_store import MemoryStore
from afl.runtime.plans import PlanCache, flow_id_of

FLOW = flow_id_of(PROGRAM)
MANY = 8


class SlowStore(MemoryStore):
    """Answers when it may, and counts who asked."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Semaphore(0)
        self.may_answer = threading.Event()
        self.asked = 0
        self.is_away = False

    def get_flow(self, flow_id: str) -> FlowDefinition | None:
        self.asked += 1
        self.begun.release()
        assert self.may_answer.wait(PATIENCE_S)
        if self.is_away:
            raise StoreUnavailable("it is away")
        return super().get_flow(flow_id)


@pytest.fixture
def store() -> SlowStore:
    made = SlowStore()
    Shop(made).send()
    return made


def test_of_many_who_ask_at_once_one_reads(store: SlowStore) -> None:
    cache = PlanCache(store)
    with ThreadPoolExecutor(MANY) as pool:
        first = pool.submit(cache.get, FLOW)
        assert store.begun.acquire(timeout=PATIENCE_S)
        others = [pool.submit(cache.get, FLOW) for _ in range(MANY - 1)]
        store.may_answer.set()
        plans = [each.result(PATIENCE_S) for each in (first, *others)]
    assert len(set(map(id, plans))) == 1
    assert store.asked == 1


def test_who_waited_for_a_reader_that_failed_reads_for_itself(store: SlowStore) -> None:
    cache = PlanCache(store)
    store.is_away = True
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(cache.get, FLOW)
        assert store.begun.acquire(timeout=PATIENCE_S)
        second = pool.submit(cache.get, FLOW)
        store.may_answer.set()
        errors = [each.exception(PATIENCE_S) for each in (first, second)]
    assert [type(each) for each in errors] == [StoreUnavailable] * 2
    store.is_away = False
    assert cache.get(FLOW) is cache.get(FLOW)


def test_a_program_that_is_not_there_is_named(store: SlowStore) -> None:
    store.may_answer.set()
    with pytest.raises(NotFound, match="no-such"):
        PlanCache(store).get("no-such")
