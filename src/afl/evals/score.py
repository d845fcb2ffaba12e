"""What an evaluator says about an output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from afl.errors import UsageError


@dataclass(frozen=True)
class Score:
    """Raises UsageError if the value is not from 0 to 1."""

    value: float
    passed: bool
    #: For people.
    reason: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.value <= 1:
            raise UsageError(f"a score is from 0 (worst) to 1 (best), not {self.value}")


def score_of(verdict: Any) -> Score:
    """What an evaluator returned; yes and no will do. Raises UsageError for anything else."""
    if isinstance(verdict, Score):
        return verdict
    if isinstance(verdict, bool):
        return Score(float(verdict), verdict)
    raise UsageError(f"an evaluator returns a Score, True or False, not {verdict!r}")
