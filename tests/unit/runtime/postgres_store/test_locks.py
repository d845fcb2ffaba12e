"""Locks by the clock of the server, in transactions that began earlier."""

from __future__ import annotations

import threading

from tests.unit.runtime.postgres_store.conftest import Opened

from afl.clock import SYSTEM_CLOCK
from afl.runtime.persistence import IterationChanges, View
from afl.runtime.postgres_store import PostgresStore
from afl.testing.contracts.store.exam import Background

PATIENCE_S = 20.0


def test_who_began_earlier_does_not_take_a_lock_for_one_from_the_future(opened: Opened) -> None:
    ours, theirs = opened(), opened()
    has_begun, may_end = threading.Event(), threading.Event()

    def first(_view: View) -> tuple[IterationChanges, None]:
        has_begun.set()
        assert may_end.wait(PATIENCE_S)
        return IterationChanges(), None

    def slow(view: View) -> tuple[IterationChanges, None]:
        view.now_ms()  # of the whole transaction, in which the lock comes next
        assert theirs.acquire_lock("key", 60_000, owner="them")
        return IterationChanges(), None

    ours.decide_later(first)
    assert has_begun.wait(PATIENCE_S)
    ours.decide_later(slow)
    asked = Background(lambda: ours.acquire_lock("key", 60_000, owner="us"), PATIENCE_S)
    _wait_for_queue(ours, 2)
    may_end.set()
    assert asked.answer() is False
    lock = theirs.check_lock("key")
    assert lock is not None
    assert lock.owner == "them"


def test_a_lock_is_extended_and_released_in_the_transaction_that_took_it(opened: Opened) -> None:
    """Whose time is that of its beginning."""
    store = opened()
    has_begun, may_end = threading.Event(), threading.Event()

    def first(_view: View) -> tuple[IterationChanges, None]:
        has_begun.set()
        assert may_end.wait(PATIENCE_S)
        return IterationChanges(), None

    store.decide_later(first)
    assert has_begun.wait(PATIENCE_S)
    taken = Background(lambda: store.acquire_lock("key", 60_000), PATIENCE_S)
    _wait_for_queue(store, 1)
    extended = Background(lambda: store.extend_lock("key", 90_000), PATIENCE_S)
    _wait_for_queue(store, 2)
    may_end.set()
    assert (taken.answer(), extended.answer()) == (True, True)


def _wait_for_queue(store: PostgresStore, length: int) -> None:
    """Until so many wait for their turn, and will share a transaction."""
    while store.writer.queue_length < length:
        SYSTEM_CLOCK.sleep(0.005)
