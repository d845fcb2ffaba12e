"""What one turn may spend, as a value that travels with its request."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from afl.agents.budget import Budget, Price
from afl.errors import UsageError

#: Deadlines end with the year 9999.
_LONGEST_S = 1e11


@dataclass(frozen=True)
class TurnBudget:
    """None, or infinite: no limit. A cost needs the prices of the models that are used, in the
    configuration of the loop. Raises UsageError for limits with which nothing could be done."""

    max_tokens: int | None = None
    max_cost: float | None = None
    #: Of models.
    max_calls: int | None = None
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_tokens", "max_cost", "max_calls", "max_seconds"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UsageError(f"{name} is {value}; expected more than 0, or None for no limit")
            if value == math.inf:
                object.__setattr__(self, name, None)
        if self.max_seconds is not None and self.max_seconds > _LONGEST_S:
            raise UsageError(
                f"max_seconds is {self.max_seconds:g}; expected at most {_LONGEST_S:g}, or None "
                "for no limit"
            )

    def opened(self, prices: Mapping[str, Price]) -> Budget:
        """A fresh account for one turn."""
        return Budget(
            max_calls=self.max_calls,
            max_tokens=self.max_tokens,
            max_cost=self.max_cost,
            prices=prices,
        )
