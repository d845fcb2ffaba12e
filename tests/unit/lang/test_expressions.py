"""What expressions are worth, and what is said when they are worth nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afl.lang import ast
from afl.lang.expressions import Environment, EvaluationError, evaluate
from afl.lang.parser import parse

INPUTS = {"n": 7, "name": "Ada", "none": None, "user": {"tags": ["a", "b"], "age": 3}, "flag": True}
STEPS: dict[str, Mapping[str, Any]] = {"s": {"out": 5, "empty": None, "deep": {"x": {"y": 1}}}}


def expression(text: str) -> ast.Expr:
    default = parse(f"facet F(x: Json = {text})").facets[0].sig.params[0].default
    assert default is not None
    return default


def value(text: str, **more: Any) -> Any:
    return evaluate(expression(text), Environment(INPUTS, STEPS.__getitem__, **more))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("7 / 2", 3.5),
        ("7 % 4", 3),
        ("-$.n", -7),
        ('"a" ++ 1 ++ true ++ null ++ 1.5', "a1true1.5"),
        ('"" ++ [1, "x"] ++ #{k: null}', '[1, "x"]{"k": null}'),
        ("$.name", "Ada"),
        ("$.none", None),
        ("$.user.age", 3),
        ("$.user.tags[1]", "b"),
        ('$.user["age"]', 3),
        ("s.out", 5),
        ("s.empty", None),
        ("s.deep.x.y", 1),
        ("s", {"out": 5, "empty": None, "deep": {"x": {"y": 1}}}),
        ("[1, $.n]", [1, 7]),
        ('#{a: 1, "b c": s.out}', {"a": 1, "b c": 5}),
        ("1 == 1.0", True),
        ("true == 1", False),
        ("[1, true] == [1.0, 1]", False),
        ("#{a: 1} == #{a: 1.0}", True),
        ("null == null", True),
        ('"a" < "b"', True),
        ("2 >= 3", False),
        ("$.n != 7", False),
        ("7 in [1, 7]", True),
        ("true in [1]", False),
        ('"age" in $.user', True),
        ('"da" in $.name', True),
        ("8 not in [1, 7]", True),
        ('$.user.tags contains "a"', True),
        ('$.name startsWith "A"', True),
        ('$.name endsWith "A"', False),
        ("!$.flag", False),
        ("$.flag && $.n > 1", True),
        ("false || $.n == 7", True),
        ("false && $.missing", False),
        ("true || $.missing", True),
        ("9223372036854775806 + 1", 2**63 - 1),
        ("-9223372036854775807 - 1", -(2**63)),
        ("#{a: [1, #{b: 2}], c: 3} == #{c: 3, a: [1.0, #{b: 2}]}", True),
        ("#{a: [1, #{b: 2}], c: 3} == #{a: [1, #{b: 4}], c: 3}", False),
        ("#{a: 1} == #{b: 1}", False),
        ("[1, 2] == [1]", False),
        ("[] == #{}", False),
        ("[[1], 2] == [[1], 3]", False),
    ],
)
def test_an_expression_has_its_value(text: str, expected: Any) -> None:
    result = value(text)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize("text", ["r.sku", "$.r.sku"])
def test_the_loop_variable_reads_with_and_without_the_dollar(text: str) -> None:
    assert value(text, variable="r", value={"sku": "x1"}) == "x1"


def test_the_loop_variable_hides_an_input_of_its_name() -> None:
    assert value("$.n", variable="n", value=1) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 / 0", "Division by zero"),
        ("1 % 0", "Division by zero"),
        ("$.name + 1", "Type error in '+': expected a number, got a String; join text with '++'"),
        ("true + 1", "Type error in '+': expected a number, got a Boolean"),
        ("-$.name", "Type error in '-': expected a number, got a String"),
        ("!$.n", "Type error in '!': expected a Boolean, got a number"),
        ("$.n && true", "Type error in '&&': expected a Boolean, got a number"),
        ("true && null", "Type error in '&&': expected a Boolean, got null"),
        ('1 < "a"', "Type error in '<': a number and a String"),
        ("1 in 2", "Type error in 'in': a number and a number"),
        ('1 startsWith "a"', "Type error in 'startsWith': a number and a String"),
        ("1.0e308 * 10", "Number out of range in '*'"),
        ("9223372036854775807 + 1", "Number out of range in '+'"),
        ("-9223372036854775807 - 2", "Number out of range in '-'"),
        ("$.n * 9223372036854775807", "Number out of range in '*'"),
        ("-(-9223372036854775807 - 1)", "Number out of range in '-'"),
        ("$.missing", "Input parameter 'missing' not found"),
        ("$.user.nope", "Property 'nope' not found in $.user"),
        ("$.none.x", "Cannot access 'x': $.none is null"),
        ("$.name.x", "Cannot access 'x': $.name is a String, not a map"),
        ("t.out", "Step 't' not found"),
        ("s.nope", "Attribute 'nope' of step 's' not found"),
        ("[1][1]", "Index error: there is no element '1'"),
        ('#{a: 1}["b"]', "Index error: there is no element 'b'"),
        ('$.name["x"]', "Index error: a String has no element 'x'"),
        ("[1][true]", "Index error: a list has no element 'true'"),
    ],
)
def test_what_cannot_be_computed_is_explained(text: str, message: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        value(text)
    assert caught.value.message == message


def test_an_error_names_the_innermost_place() -> None:
    with pytest.raises(EvaluationError, match=r"Division by zero at line 1, column 28"):
        value("1 + [2, (3 / 0)][0]")


def nested(levels: int) -> Any:
    made: Any = 1
    for level in range(levels):
        made = [made] if level % 2 else {"in": made}
    return made


@pytest.mark.parametrize("text", ["[$.v]", "#{a: 1, b: $.v}", "[1, #{a: $.v}][0]", "s"])
def test_a_value_that_would_be_nested_too_deep_is_refused(text: str) -> None:
    def result(levels: int) -> Any:
        value = nested(levels)
        return evaluate(expression(text), Environment({"v": value}, {"s": {"v": value}}.get))  # type: ignore[arg-type]

    room = 2 if "#{a: $.v}" in text else 1
    result(250 - room)
    with pytest.raises(EvaluationError, match="Value is nested more than 250 deep at line 1"):
        result(251 - room)


def test_a_value_that_is_only_read_may_be_deep() -> None:
    value = nested(2000)
    environment = Environment({"v": value, "w": nested(2000)}, STEPS.__getitem__)
    assert evaluate(expression("$.v"), environment) is value
    assert evaluate(expression("$.v == $.w && $.v != $.w[0]"), environment) is True


def test_python_objects_are_not_reached_through_names() -> None:
    with pytest.raises(EvaluationError):
        value("$.name.__class__")


numbers = st.integers(-(10**6), 10**6)


@given(numbers, numbers, numbers)
def test_arithmetic_agrees_with_python(a: int, b: int, c: int) -> None:
    environment = Environment({"a": a, "b": b, "c": c}, STEPS.__getitem__)
    assert evaluate(expression("$.a - $.b * $.c + -$.a"), environment) == a - b * c + -a
