"""What may be spent on models, counted over all calls that share a budget."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from afl.agents.errors import BudgetExceeded
from afl.agents.model import Usage
from afl.errors import UsageError

_MILLION = 1_000_000


@dataclass(frozen=True)
class Price:
    """Of a million tokens each, in any currency that the budget is in, too."""

    input: float
    output: float
    #: None: as other input.
    cache_read: float | None = None
    cache_write: float | None = None

    def of(self, usage: Usage) -> float:
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        return (
            usage.input_tokens * self.input
            + usage.output_tokens * self.output
            + usage.cache_read_tokens * read
            + usage.cache_write_tokens * write
        ) / _MILLION


@dataclass(frozen=True)
class Spent:
    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    cost: float = 0.0


class Budget:
    """Limits on calls, tokens and cost; None: no limit. Safe to share between threads.

    A limit is looked at before each call, so the call that reaches it is the last one, and those
    that run beside it. A cost needs the `prices` of all models that are used, by their names.
    """

    def __init__(
        self,
        *,
        max_calls: int | None = None,
        max_tokens: int | None = None,
        max_cost: float | None = None,
        prices: Mapping[str, Price] | None = None,
    ) -> None:
        self.max_calls = max_calls
        self.max_tokens = max_tokens
        self.max_cost = max_cost
        self._prices = dict(prices or {})
        self._lock = threading.Lock()
        self._spent = Spent()

    @property
    def spent(self) -> Spent:
        return self._spent

    def begin(self, model: str) -> None:
        """Count a call that is about to be made. Raises BudgetExceeded; UsageError if its cost
        would not be known."""
        if self.max_cost is not None and model not in self._prices:
            raise UsageError(
                f"the budget has a max_cost but no price of {model}; add it to `prices`"
            )
        with self._lock:
            self._require_rest()
            self._spent = Spent(self._spent.calls + 1, self._spent.usage, self._spent.cost)

    def record(self, model: str, usage: Usage) -> None:
        """Count what a call used."""
        price = self._prices.get(model)
        cost = price.of(usage) if price is not None else 0.0
        with self._lock:
            spent = self._spent
            self._spent = Spent(spent.calls, spent.usage + usage, spent.cost + cost)

    def _require_rest(self) -> None:
        spent = self._spent
        _require(spent.calls, self.max_calls, "model calls", "max_calls")
        _require(spent.usage.total, self.max_tokens, "tokens", "max_tokens")
        _require(round(spent.cost, 6), self.max_cost, "in cost", "max_cost")


def _require(spent: float, limit: float | None, what: str, name: str) -> None:
    if limit is not None and spent >= limit:
        raise BudgetExceeded(
            f"the budget of {limit:g} {what} is spent ({spent:g}); allow more with {name} and go on"
        )
