"""What was raised, as text that every store takes."""

from __future__ import annotations

import os

import pytest

from afl.error_text import kind_of, message_of, storable, text_of, trace_of, with_article
from afl.runtime.errors import StepFailure
from afl.runtime.rows.codec import to_json


class Mute(Exception):  # noqa: N818 - it says nothing
    def __str__(self) -> str:
        raise RuntimeError("no text")


class UnpricedError(KeyError):
    """Says the key, and nothing else."""


class UnknownError(KeyError):
    def __str__(self) -> str:
        return "there is no price for it"


class Exiting(Exception):  # noqa: N818
    def __str__(self) -> str:
        raise SystemExit(3)


class NoText(Exception):  # noqa: N818
    def __str__(self) -> str:
        return 3  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no"), "no"),
        (ValueError("grüße 😀"), "grüße 😀"),
        (ValueError("half \ud83d of it"), "half \\ud83d of it"),
        (ValueError(), "ValueError"),
        (FileNotFoundError(2, "gone", os.fsdecode(b"\xff")), "[Errno 2] gone: '\\udcff'"),
        (Mute(), "Mute"),
        (Exiting(), "Exiting"),
        (NoText(), "NoText"),
        (KeyError("kg"), "KeyError: 'kg'"),
        (KeyError(), "KeyError"),
        (UnpricedError("kg"), "UnpricedError: 'kg'"),
        (UnknownError("kg"), "there is no price for it"),
        (IndexError("list index out of range"), "list index out of range"),
        (SystemExit(3), "SystemExit: 3"),
        (StopIteration("kg"), "StopIteration: kg"),
        (StopAsyncIteration(), "StopAsyncIteration"),
        (ValueError(" \n"), "ValueError"),
        (ValueError(-1.5), "ValueError: -1.5"),
        (ValueError("нет"), "нет"),
    ],
    ids=lambda each: ascii(each) if isinstance(each, str) else type(each).__name__,
)
def test_every_error_has_a_text_that_can_be_kept(error: BaseException, text: str) -> None:
    assert text_of(error) == text
    to_json([text_of(error), kind_of(error), trace_of(error)])
    to_json(StepFailure.of(error).to_dict())
    assert StepFailure.of(error).message == text


def test_who_says_nothing_has_no_message() -> None:
    assert message_of(ValueError()) == message_of(Mute()) == ""


@pytest.mark.parametrize(
    ("name", "said"),
    [("int", "an int"), ("object", "an object"), ("list", "a list"), ("UUID", "a UUID")],
)
def test_the_name_of_a_class_has_its_article(name: str, said: str) -> None:
    assert with_article(name) == said


def test_an_interrupt_is_not_swallowed() -> None:
    class Slow(Exception):  # noqa: N818
        def __str__(self) -> str:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        text_of(Slow())


def test_text_becomes_plain_text() -> None:
    class Loud(str):
        def encode(self, *_anything: object) -> bytes:
            raise RuntimeError("no bytes")

    assert type(storable(Loud("loud"))) is str


def test_all_that_a_failure_says_can_be_kept() -> None:
    """Also what did not come from an error: a reason that somebody gave, the name of a file."""
    failure = StepFailure("\ud800", "\udfff", {"raised_at": "\udcff.py:3 in do", "line": 3})
    to_json(failure.to_dict())
    assert failure.message == "\\ud800"
    assert failure.place == {"raised_at": "\\udcff.py:3 in do", "line": 3}
