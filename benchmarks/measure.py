"""Timing, and the shape of a result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from afl.clock import SYSTEM_CLOCK


def best_of(rounds: int, *actions: Callable[[], object]) -> list[float]:
    """The best time of each action in seconds. Rounds alternate, so that noise hits all alike."""
    best = [float("inf")] * len(actions)
    for _ in range(rounds):
        for index, action in enumerate(actions):
            started = SYSTEM_CLOCK.monotonic()
            action()
            best[index] = min(best[index], SYSTEM_CLOCK.monotonic() - started)
    return best


def judged(value: float, aim: float, **facts: Any) -> dict[str, Any]:
    """A number that should stay at or below its aim."""
    return {"value": round(value, 3), "aim": aim, "met": value <= aim, **facts}


def judged_at_least(value: float, aim: float, **facts: Any) -> dict[str, Any]:
    """A number that should reach its aim."""
    return {"value": round(value, 3), "aim": aim, "met": value >= aim, **facts}


def percentile(ordered: list[float], percent: int) -> float:
    """The smallest that so many percent do not exceed."""
    return ordered[-(-len(ordered) * percent // 100) - 1]
