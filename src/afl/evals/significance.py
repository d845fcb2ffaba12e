"""How sure one can be of a share, and of a difference."""

from __future__ import annotations

from math import comb, sqrt
from statistics import NormalDist
from typing import NamedTuple

from afl.errors import UsageError


class Interval(NamedTuple):
    low: float
    high: float


def wilson(successes: int, total: int, confidence: float = 0.95) -> Interval:
    """Where the true share lies if so many of all succeeded: Wilson's score interval, which also
    holds for few samples and for shares near 0 and 1. All of it if there are no samples.

    Raises UsageError for a confidence that is not between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise UsageError(f"a confidence is between 0 and 1, such as 0.95, not {confidence}")
    if total == 0:
        return Interval(0.0, 1.0)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share = successes / total
    spread = z * sqrt(share * (1 - share) / total + z**2 / (4 * total**2))
    center, scale = share + z**2 / (2 * total), 1 + z**2 / total
    # Rounding must not exclude what was seen.
    low = 0.0 if successes == 0 else max((center - spread) / scale, 0.0)
    high = 1.0 if successes == total else min((center + spread) / scale, 1.0)
    return Interval(low, high)


def paired_p_value(improved: int, worsened: int) -> float:
    """How likely a difference at least as large is by chance alone: McNemar's exact test, for the
    same samples tried twice. Those that came out the same both times say nothing.
    """
    changed = improved + worsened
    tail = sum(comb(changed, k) for k in range(min(improved, worsened) + 1))
    return min(1.0, 2 * tail / (1 << changed))
