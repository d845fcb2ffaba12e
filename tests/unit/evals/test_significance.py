from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afl.errors import UsageError
from afl.evals.significance import Interval, paired_p_value, wilson


@pytest.mark.parametrize(
    ("successes", "total", "expected"),
    [  # R. G. Newcombe, Statistics in Medicine 17 (1998), table I, method 3
        (81, 263, (0.2553, 0.3662)),
        (15, 148, (0.0624, 0.1605)),
        (0, 20, (0.0, 0.1611)),
        (1, 29, (0.0061, 0.1718)),
        (20, 20, (0.8389, 1.0)),
    ],
)
def test_an_interval_is_the_one_of_wilson(
    successes: int, total: int, expected: tuple[float, float]
) -> None:
    assert wilson(successes, total) == pytest.approx(expected, abs=5.1e-5)


def test_without_samples_everything_is_possible() -> None:
    assert wilson(0, 0) == Interval(0.0, 1.0)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_an_interval_holds_what_was_seen(seen: tuple[int, int]) -> None:
    successes, total = seen
    narrow, wide = wilson(successes, total, 0.8), wilson(successes, total, 0.99)
    assert 0 <= wide.low <= narrow.low <= successes / total <= narrow.high <= wide.high <= 1


@pytest.mark.parametrize("confidence", [0, 1, 95])
def test_a_confidence_is_a_share(confidence: float) -> None:
    with pytest.raises(UsageError, match="between 0 and 1"):
        wilson(1, 2, confidence)


@pytest.mark.parametrize(
    ("improved", "worsened", "expected"),
    [(0, 0, 1.0), (1, 0, 1.0), (3, 3, 1.0), (5, 0, 0.0625), (6, 0, 0.03125), (9, 1, 0.021484375)],
)
def test_a_difference_is_tested_exactly(improved: int, worsened: int, expected: float) -> None:
    assert paired_p_value(improved, worsened) == expected
    assert paired_p_value(worsened, improved) == expected


def test_thousands_of_changes_are_no_problem() -> None:
    assert paired_p_value(3000, 1000) < 1e-100
