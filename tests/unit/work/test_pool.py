"""Threads that are started when needed, reused, and replaced when one hangs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from tests.work.running import PATIENCE_S, Gate, eventually

from afl.work.pool import Pool

Task = Callable[[], object]


def do(task: Task) -> None:
    task()


@pytest.fixture
def pool() -> Iterator[Pool[Task]]:
    with closing(Pool(3, do, "pool-in-test")) as pool:
        yield pool
    eventually(lambda: not workers())


def workers() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("pool-in-test")]


def test_nothing_is_started_before_there_is_something_to_do(pool: Pool[Task]) -> None:
    assert pool.size == 0
    assert workers() == []


def test_a_thread_is_used_again(pool: Pool[Task]) -> None:
    idents: list[int] = []
    for count in range(1, 20):
        pool.put([lambda: idents.append(threading.get_ident())])
        eventually(lambda count=count: len(idents) == count)  # type: ignore[misc]
    assert len(set(idents)) <= 2
    assert pool.size <= 2


def test_long_work_has_as_many_threads_as_it_may(pool: Pool[Task]) -> None:
    gates = [Gate() for _ in range(4)]
    pool.put([lambda gate=gate: gate(None) for gate in gates])  # type: ignore[misc]
    for gate in gates[:3]:
        gate.wait_for_begin()
    assert pool.size == 3
    assert pool.has_waiting
    assert not gates[3].has_begun.is_set()
    gates[1].may_end.set()
    gates[3].wait_for_begin()
    for gate in gates:
        gate.may_end.set()


def test_first_come_first_served(pool: Pool[Task]) -> None:
    gate, order = Gate(), []
    single: Pool[Task] = Pool(1, do, "pool-in-test")
    with closing(single):
        single.put([lambda: gate(None)])
        gate.wait_for_begin()
        single.put([lambda number=number: order.append(number) for number in range(100)])  # type: ignore[misc]
        gate.may_end.set()
        eventually(lambda: len(order) == 100)
    assert order == list(range(100))


def test_what_a_thread_leaves_to_itself_is_done(pool: Pool[Task]) -> None:
    done = threading.Event()
    pool.put([lambda: pool.put([done.set])])
    assert done.wait(PATIENCE_S)


def test_an_abandoned_thread_leaves_what_it_left_to_itself_to_others(pool: Pool[Task]) -> None:
    done = threading.Event()

    def leave_something() -> None:
        pool.abandon(threading.get_ident())
        pool.put([done.set])

    pool.put([leave_something])
    assert done.wait(PATIENCE_S)


def test_a_hung_thread_is_replaced_and_ends_when_it_returns(pool: Pool[Task]) -> None:
    gates = [Gate() for _ in range(3)]
    idents: dict[Gate, int] = {}

    def hang(gate: Gate) -> None:
        idents[gate] = threading.get_ident()
        gate(None)

    pool.put([lambda gate=gate: hang(gate) for gate in gates])  # type: ignore[misc]
    for gate in gates:
        gate.wait_for_begin()
    stack = pool.abandon(idents[gates[0]])
    assert stack is not None
    assert "may_end.wait" in stack
    assert pool.abandon(idents[gates[0]]) is None
    assert pool.size == 2
    next_one = Gate()
    pool.put([lambda: next_one(None)])
    next_one.wait_for_begin()
    assert len(workers()) == 4
    gates[0].may_end.set()
    eventually(lambda: len(workers()) == 3)
    for gate in (*gates, next_one):
        gate.may_end.set()


def test_a_thread_of_others_is_not_abandoned(pool: Pool[Task]) -> None:
    assert pool.abandon(threading.get_ident()) is None


def test_what_an_item_raises_ends_no_thread(pool: Pool[Task]) -> None:
    def leave() -> None:
        raise SystemExit

    done = threading.Event()
    pool.put([leave, done.set])
    assert done.wait(PATIENCE_S)


def test_closing_lets_threads_end_and_does_what_is_left(pool: Pool[Task]) -> None:
    gate, done = Gate(), threading.Event()
    pool.put([lambda: gate(None)])
    gate.wait_for_begin()
    pool.put([done.set])
    pool.close()
    gate.may_end.set()
    assert done.wait(PATIENCE_S)
    eventually(lambda: not workers())


def test_a_burst_of_short_items_wakes_few_threads() -> None:
    """Waking one costs more than the item; only what blocks is worth another thread."""
    done = threading.Event()
    items, limit = 10_000, 1_000

    with closing(Pool(limit, do, "pool-in-test")) as pool:

        def note(number: int) -> None:
            if number == items - 1:
                done.set()

        pool.put([lambda number=number: note(number) for number in range(items)])  # type: ignore[misc]
        assert done.wait(PATIENCE_S)
        # How many depends on who runs beside it; a thread for each item would reach the limit.
        assert pool.size < limit // 2


def test_many_threads_put_and_all_is_done() -> None:
    done: list[None] = []
    with closing(Pool(8, do, "pool-in-test")) as pool:

        def put() -> None:
            for _ in range(500):
                pool.put([lambda: done.append(None)])

        putters = [threading.Thread(target=put) for _ in range(8)]
        for each in putters:
            each.start()
        for each in putters:
            each.join()
        eventually(lambda: len(done) == 4000)
