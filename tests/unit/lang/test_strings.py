"""String literals: only escapes are decoded, and what was quoted is read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afl.lang.codes import ESCAPE, UNKNOWN_ESCAPE, Code
from afl.lang.parser import parse
from afl.lang.strings import decode, quote

#: Text that UTF-8 can hold.
texts = st.text(st.characters(exclude_categories=["Cs"]))


class Reports(list[tuple[Code, str, int]]):
    """What was reported while decoding."""

    def __call__(self, code: Code, message: str, offset: int) -> None:
        self.append((code, message, offset))


def value_of(literal: str) -> str:
    reports = Reports()
    value = decode(literal, reports)
    assert reports == []
    return value


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        (r'""', ""),
        (r'"plain"', "plain"),
        (r'"\n\t\r\b\f\v\a\0"', "\n\t\r\b\f\v\a\0"),
        (r'"\"\\\/\'"', "\"\\/'"),
        (r'"\x41\u00e9\U0001F370"', "Aé🍰"),
        (r'"\\n"', "\\n"),
        (r'"\\\n"', "\\\n"),
        ('"crème brûlée"', "crème brûlée"),
        ('"two\nlines"', "two\nlines"),
        ('"joined \\\nline"', "joined line"),
        ('"joined \\\r\nline"', "joined line"),
        (r'"\ud83c\udf70"', "🍰"),
    ],
)
def test_a_literal_stands_for(literal: str, value: str) -> None:
    assert value_of(literal) == value


@given(texts)
def test_a_quoted_value_is_read_back(value: str) -> None:
    assert value_of(quote(value)) == value


@given(texts)
def test_a_quoted_value_is_a_literal_of_the_language(value: str) -> None:
    (facet,) = parse(f"facet Note(text: String = {quote(value)})").facets
    default = facet.sig.params[0].default
    assert getattr(default, "value", None) == value


@given(texts.filter(lambda text: '"' not in text and "\\" not in text))
def test_text_without_escapes_stands_for_itself(text: str) -> None:
    assert value_of(f'"{text}"') == text


@pytest.mark.parametrize(
    ("literal", "message", "offset"),
    [
        (r'"ab\u12"', r"Malformed escape '\u': 4 hexadecimal digits must follow", 3),
        (r'"\x4"', r"Malformed escape '\x': 2 hexadecimal digits must follow", 1),
        (r'"\xg0"', r"Malformed escape '\x': 2 hexadecimal digits must follow", 1),
        (r'"\U00110000"', r"Malformed escape '\U': 8 hexadecimal digits must follow", 1),
    ],
)
def test_a_malformed_escape_is_reported_and_kept(literal: str, message: str, offset: int) -> None:
    reports = Reports()
    assert decode(literal, reports) == literal[1:-1]
    assert reports == [(ESCAPE, message, offset)]


def test_half_of_a_surrogate_pair_is_reported_and_replaced() -> None:
    reports = Reports()
    assert decode(r'"a\ud83cb"', reports) == "a\ufffdb"
    assert reports == [(ESCAPE, "Malformed escape: half of a surrogate pair is no character", 0)]


def test_an_unknown_escape_is_reported_and_kept() -> None:
    reports = Reports()
    assert decode(r'"50\% \q"', reports) == r"50\% \q"
    assert reports == [
        (UNKNOWN_ESCAPE, r"Unknown escape '\%' in a string", 3),
        (UNKNOWN_ESCAPE, r"Unknown escape '\q' in a string", 6),
    ]


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        ("", '""'),
        ('say "hi"', r'"say \"hi\""'),
        ("C:\\temp", r'"C:\\temp"'),
        ("one\n", r'"one\n"'),
        ("crème 🍰", '"crème 🍰"'),
        ("\x07\u200b\U000e0001", r'"\u0007\u200b\U000e0001"'),
    ],
)
def test_a_value_is_quoted_with_as_few_escapes_as_possible(value: str, literal: str) -> None:
    assert quote(value) == literal


def test_text_of_several_lines_keeps_its_line_ends() -> None:
    assert quote("a\nb\n") == '"a\nb\n"'
