"""Timing, and the shape of a result."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
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


class Stolen:
    """How much of the processors' work others on the same hardware took, since this was made. What
    was measured meanwhile is slower by that, and by what they do to caches and clock rates."""

    _PLACE = Path("/proc/stat")
    #: Fields of its first line that are no work: idle, waiting for a disk. The eighth is stolen.
    _IDLE, _STOLEN = slice(3, 5), 7

    def __init__(self) -> None:
        self._before = self._times()

    def percent(self) -> float | None:
        """None where nobody tells."""
        spent = [now - before for now, before in zip(self._times(), self._before, strict=True)]
        work = sum(spent[: self._STOLEN + 1]) - sum(spent[self._IDLE])
        return round(100 * spent[self._STOLEN] / work, 1) if spent and work else None

    def _times(self) -> list[int]:
        if not self._PLACE.exists():
            return []
        return [int(each) for each in self._PLACE.read_text().splitlines()[0].split()[1:]]


def percentile(ordered: list[float], percent: int) -> float:
    """The smallest that so many percent do not exceed."""
    return ordered[-(-len(ordered) * percent // 100) - 1]
