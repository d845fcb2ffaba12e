"""Timing, and the shape of a result."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
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


def in_turns(
    rounds: int, measures: Mapping[str, Callable[[], float]]
) -> dict[str, Sequence[float]]:
    """What each of them gives in each round."""
    turns = [[measure() for measure in measures.values()] for _ in range(rounds)]
    return dict(zip(measures, zip(*turns, strict=True), strict=True))


def times(values: Sequence[float], others: Sequence[float]) -> float:
    """How many times others, measured in turns with them: the median, because single rounds on a
    shared machine are half as fast or twice as fast as the next."""
    return statistics.median(mine / other for mine, other in zip(values, others, strict=True))


def judged(value: float, aim: float, **facts: Any) -> dict[str, Any]:
    """A number that should stay at or below its aim."""
    return {"value": round(value, 3), "aim": aim, "met": value <= aim, **facts}


def judged_at_least(value: float, aim: float, **facts: Any) -> dict[str, Any]:
    """A number that should reach its aim."""
    return {"value": round(value, 3), "aim": aim, "met": value >= aim, **facts}


def percentile(ordered: list[float], percent: int) -> float:
    """The smallest that so many percent do not exceed."""
    return ordered[-(-len(ordered) * percent // 100) - 1]
