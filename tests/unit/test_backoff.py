"""Backoff: delays grow to a limit; durations read and write the same."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afl.backoff import Backoff, format_duration, parse_duration
from afl.errors import ConfigurationError, UsageError

backoffs = st.builds(
    lambda initial, factor, more, jitter: Backoff(initial, factor, initial + more, jitter),
    st.floats(0, 1e6),
    st.floats(1, 1e3),
    st.floats(0, 1e9),
    st.floats(0, 1),
)


def test_delays_double_up_to_the_maximum() -> None:
    backoff = Backoff(initial=1, factor=2, maximum=10)
    assert [backoff.delay(attempt) for attempt in range(1, 7)] == [1, 2, 4, 8, 10, 10]


def test_a_factor_of_one_is_a_constant_delay() -> None:
    assert Backoff(3, 1, 10).delay(10_000) == 3


def test_ten_thousand_attempts_do_not_overflow() -> None:
    assert Backoff(0.1, 10, 60).delay(10_000) == 60
    assert Backoff(0, 10, 60).delay(10_000) == 0


@given(backoffs, st.integers(1, 10_000), st.randoms(use_true_random=False))
def test_a_delay_is_never_negative_nor_above_the_maximum(
    backoff: Backoff, attempt: int, rng: random.Random
) -> None:
    assert 0 <= backoff.delay(attempt, rng) <= backoff.maximum


@given(backoffs, st.integers(1, 100), st.integers())
def test_the_same_random_gives_the_same_delay(backoff: Backoff, attempt: int, seed: int) -> None:
    first = backoff.delay(attempt, random.Random(seed))
    assert first == backoff.delay(attempt, random.Random(seed))


def test_full_jitter_uses_the_whole_range() -> None:
    backoff = Backoff(initial=8, factor=1, maximum=8, jitter=1)
    rng = random.Random(1)
    delays = [backoff.delay(1, rng) for _ in range(1000)]
    assert min(delays) < 0.1
    assert max(delays) > 7.9


def test_half_jitter_keeps_the_first_half() -> None:
    backoff = Backoff(initial=8, factor=1, maximum=8, jitter=0.5)
    assert all(4 <= backoff.delay(1) <= 8 for _ in range(1000))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"initial": -1.0}, "initial is -1.0"),
        ({"factor": 0.5}, "factor is 0.5"),
        ({"jitter": 1.5}, "jitter is 1.5"),
        ({"initial": 5.0, "maximum": 4.0}, "maximum is 4.0; expected at least initial"),
        ({"maximum": float("inf")}, "maximum is inf"),
        ({"factor": float("nan")}, "factor is nan"),
    ],
)
def test_a_senseless_backoff_is_refused_by_name_and_value(
    arguments: dict[str, float], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Backoff(**arguments)


def test_there_is_no_attempt_before_the_first() -> None:
    with pytest.raises(UsageError, match="not 0"):
        Backoff().delay(0)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("250ms", 0.25),
        ("5s", 5),
        ("2m", 120),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("1d1h1m1s1ms", 90061.001),
        (" 5s ", 5),
        ("0s", 0),
        ("90", 90),
        ("1.5", 1.5),
        (90, 90),
        (0.25, 0.25),
    ],
)
def test_durations_are_read(text: str | float, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "value",
    [
        "", "s", "5 s", "-5s", "5x", "30m1h", "5s5s", "1e3", "٥s", "9" * 400, "9" * 400 + "s",
        -1, float("nan"), float("inf"), True,
    ],
)  # fmt: skip
def test_what_is_no_duration_is_refused_and_named(value: str | float) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_duration(value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.25, "250ms"),
        (0.0015, "1.5ms"),
        (5, "5s"),
        (1.5, "1.5s"),
        (100, "1m40s"),
        (5400, "1h30m"),
        (172800, "2d"),
    ],
)
def test_durations_are_written_for_people(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.floats(min_value=0, allow_infinity=False, allow_nan=False))
def test_what_is_written_reads_back_exactly(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


def test_a_negative_duration_cannot_be_written() -> None:
    with pytest.raises(ConfigurationError):
        format_duration(-1)
