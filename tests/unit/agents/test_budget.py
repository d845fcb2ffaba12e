"""What may be spent on models."""

from __future__ import annotations

import threading

import pytest

from afl.agents.budget import Budget, Price
from afl.agents.errors import BudgetExceeded
from afl.agents.model import Usage
from afl.errors import UsageError


def test_without_limits_everything_is_only_counted() -> None:
    budget = Budget()
    for _ in range(3):
        budget.begin("m")
        budget.record("m", Usage(1, 2, 3, 4))
    assert budget.spent.calls == 3
    assert budget.spent.usage == Usage(3, 6, 9, 12)
    assert budget.spent.usage.total == 30
    assert budget.spent.cost == 0


def test_the_call_that_reaches_a_limit_is_the_last_one() -> None:
    budget = Budget(max_tokens=10)
    budget.begin("m")
    budget.record("m", Usage(4, 5))
    budget.begin("m")
    budget.record("m", Usage(1))
    with pytest.raises(BudgetExceeded, match=r"the budget of 10 tokens is spent \(10\)"):
        budget.begin("m")


def test_cached_input_has_its_own_price() -> None:
    usage = Usage(1_000_000, 1_000_000, 1_000_000, 1_000_000)
    assert Price(1, 2).of(usage) == 5
    assert Price(1, 2, cache_read=0.1, cache_write=1.25).of(usage) == 4.35


def test_a_cost_needs_a_price() -> None:
    budget = Budget(max_cost=1, prices={"m": Price(1, 1)})
    budget.begin("m")
    with pytest.raises(UsageError, match="no price of other"):
        budget.begin("other")
    assert budget.spent.calls == 1


def test_threads_never_begin_more_calls_than_allowed() -> None:
    budget, begun = Budget(max_calls=20), list[int]()
    together = threading.Barrier(8)

    def call() -> None:
        together.wait(10)
        for _ in range(10):
            try:
                budget.begin("m")
            except BudgetExceeded:
                return
            begun.append(1)

    threads = [threading.Thread(target=call) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(begun) == 20
