"""Inputs are read by their declared types, and all that is wrong with them is said at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from afl import compile_source
from afl.errors import UsageError
from afl.lang.program import Program
from afl.operations.inputs import InvalidInputs, check_inputs, parse_inputs

PROGRAM = compile_source("""
namespace shop

schema Line { sku: String, count: Int, tags: [String] }

workflow Buy(
    order: String,
    total: Double,
    count: Long,
    gift: Boolean,
    lines: [Line],
    extra: Json,
    currency: String = "EUR"
) => (order: String) andThen {
    yield Buy(order = $.order)
}
""")

GOOD: dict[str, Any] = {
    "order": "o1",
    "total": 9.5,
    "count": 3,
    "gift": False,
    "lines": [{"sku": "a", "count": 1, "tags": ["x"]}],
    "extra": {"anything": [1, None]},
}


def check(program: Program = PROGRAM, **inputs: Any) -> None:
    check_inputs(program, program.workflow("Buy"), inputs)


def problems(**inputs: Any) -> list[str]:
    with pytest.raises(InvalidInputs) as caught:
        check(**{**GOOD, **inputs})
    return list(caught.value.problems)


def test_inputs_that_fit_pass() -> None:
    check(**GOOD)
    check(**GOOD, currency="USD")


@pytest.mark.parametrize("name", sorted(GOOD))
def test_null_passes_for_every_type(name: str) -> None:
    check(**{**GOOD, name: None})


def test_whole_numbers_pass_for_a_double() -> None:
    check(**{**GOOD, "total": 9})


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("order", 5, "order: expected String, got 5 (a whole number)"),
        ("count", "3", 'count: expected Long, got "3" (text)'),
        ("count", 3.5, "count: expected Long, got 3.5 (a number)"),
        ("count", True, "count: expected Long, got true (a boolean)"),
        (
            "count",
            2**63,
            "count: expected Long, got 9223372036854775808 (a number of more than 64 bits)",
        ),
        ("total", True, "total: expected Double, got true (a boolean)"),
        ("total", float("nan"), "total: expected Double, got NaN (not a finite number)"),
        ("gift", 1, "gift: expected Boolean, got 1 (a whole number)"),
        ("lines", {"sku": "a"}, 'lines: expected [shop.Line], got {"sku": "a"} (an object)'),
        ("lines", ["a"], 'lines[0]: expected shop.Line, got "a" (text)'),
        (
            "lines",
            [GOOD["lines"][0], {"sku": "b", "count": "2", "tags": []}],
            'lines[1].count: expected Int, got "2" (text)',
        ),
        (
            "lines",
            [{"sku": "b", "count": 2, "tags": ["x", 1]}],
            "lines[0].tags[1]: expected String, got 1 (a whole number)",
        ),
        (
            "lines",
            [{"sku": "b", "tags": []}],
            "lines[0].count: is missing; expected Int",
        ),
        (
            "lines",
            [{"sku": "b", "count": 2, "tags": [], "cuont": 1}],
            "lines[0].cuont: schema shop.Line has no such field; did you mean 'count'?",
        ),
        (
            "extra",
            {"x": float("inf")},
            "extra: expected Json, got what is none: Out of range float values are not JSON "
            "compliant",
        ),
    ],
)
def test_a_value_of_another_type_is_a_problem(name: str, value: Any, problem: str) -> None:
    [found] = problems(**{name: value})
    assert found.startswith(problem)


def test_an_unknown_input_is_a_problem_with_a_suggestion() -> None:
    assert problems(ordr="x") == ["ordr: there is no such input; did you mean 'order'?"]
    [far] = problems(zzz="x")
    assert far.startswith("zzz: there is no such input; the workflow has order, total,")


def test_long_values_are_cut() -> None:
    [found] = problems(count="x" * 500)
    assert len(found) < 120


def test_all_problems_are_said_at_once() -> None:
    with pytest.raises(InvalidInputs) as caught:
        check(count="x", other=1)
    message = str(caught.value)
    assert message.startswith("the inputs do not fit workflow shop.Buy:\n")
    for name in ("order", "total", "gift", "lines", "extra"):
        assert f"  {name}: is missing; expected " in message
    assert "  count: expected Long" in message
    assert "  other: there is no such input" in message
    assert "currency" not in message


# Reading


def parse(*pairs: str, inputs: str | None = None) -> dict[str, Any]:
    return parse_inputs(pairs, inputs, PROGRAM, PROGRAM.workflow("Buy"))


def test_pairs_are_read_by_their_declared_types() -> None:
    assert parse("order=12", "count=12", "gift=true", 'lines=[{"sku": "a"}]', "order2=x=y") == {
        "order": "12",
        "count": 12,
        "gift": True,
        "lines": [{"sku": "a"}],
        "order2": "x=y",
    }


def test_a_text_is_taken_as_it_stands() -> None:
    assert parse('order="a" = b') == {"order": '"a" = b'}
    assert parse("order=") == {"order": ""}


def test_pairs_win_over_the_object() -> None:
    assert parse("count=2", inputs='{"count": 1, "order": "x"}') == {"count": 2, "order": "x"}


def test_an_object_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "inputs.json"
    path.write_text('{"order": "é"}', encoding="utf-8")
    assert parse(inputs=f"@{path}") == {"order": "é"}


@pytest.mark.parametrize(
    ("pairs", "inputs", "problem"),
    [
        (["order"], None, "--input order: expected name=value"),
        (["=5"], None, "--input =5: expected name=value"),
        (["count=1", "count=2"], None, "--input count is given twice"),
        (["count=three"], None, "--input count=three: expected Long, written as JSON"),
        (["extra=blue"], None, "--input extra=blue: expected Json, written as JSON, such as"),
        ([], "{", "--inputs is no JSON"),
        ([], "[1]", r"--inputs holds \[1\] \(a list\); expected an object"),
        ([], "@nowhere.json", "--inputs @nowhere.json cannot be read"),
    ],
)
def test_what_cannot_be_read_is_said(pairs: list[str], inputs: str | None, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        parse(*pairs, inputs=inputs)
