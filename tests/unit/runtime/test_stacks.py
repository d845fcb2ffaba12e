"""Where what was raised comes from."""

from __future__ import annotations

import json

import pytest

from afl.backoff import parse_duration
from afl.errors import AflError
from afl.runtime.stacks import raised_at
from afl.work.errors import TimedOut


def test_the_line_is_the_last_one_of_the_file_that_was_asked() -> None:
    def outer() -> None:
        inner()

    def inner() -> None:
        json.loads("{")

    with pytest.raises(json.JSONDecodeError) as raised:
        outer()
    line = inner.__code__.co_firstlineno + 1
    assert raised_at(raised.value) == f"{__file__}:{line} in {inner.__qualname__}"


def test_what_was_never_raised_comes_from_nowhere() -> None:
    assert raised_at(TimedOut("it took too long")) is None


def test_what_we_raise_ourselves_is_nobody_elses_fault() -> None:
    with pytest.raises(AflError) as raised:
        parse_duration("soon")
    trace = raised.value.__traceback__
    assert trace is not None
    raised.value.__traceback__ = trace.tb_next  # without the line of this test
    assert raised_at(raised.value) is None
