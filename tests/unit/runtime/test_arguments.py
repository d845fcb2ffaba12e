"""What a call hands over, and what its mixins ask for, where something is wrong with that."""

from __future__ import annotations

from typing import Any

import pytest

from afl.lang import ast
from afl.lang.expressions import Environment, EvaluationError
from afl.lang.names import Declared, Names
from afl.lang.parser import parse
from afl.runtime.arguments import Policy, call_values, completed, policy_of

STEPS: dict[str, dict[str, Any]] = {}
NOTHING = Environment({}, STEPS.__getitem__)


def declared(names: Names, name: str) -> Declared:
    found = names.find(name)
    assert found is not None
    return found


def called(names: Names, text: str) -> tuple[ast.CallExpr, Declared]:
    workflow = parse(f"workflow W() andThen {{ s = {text} }}").workflows[0]
    assert isinstance(workflow.body, ast.AndThenBlock)
    call = workflow.body.block.steps[0].call
    return call, declared(names, call.name)


def values(text: str, call: str) -> dict[str, Any]:
    names = Names(parse(text))
    return call_values(names, "", *called(names, call), NOTHING)


def policy(call: str) -> Policy:
    names = Names(parse("event facet F(n: Long = 1)"))
    return policy_of(names, "", *called(names, call), NOTHING, {})


@pytest.mark.parametrize(
    ("call", "circle"),
    [
        ("A()", "A → B → A"),
        ("B(b = 1)", "B → A → B"),
        ("F() with A()", "A → B → A"),
        ("F() with A() as a", "A → B → A"),
        ("C()", "B → A → B"),
        ("Self()", "Self → Self"),
    ],
)
def test_mixins_in_a_circle_are_named(call: str, circle: str) -> None:
    text = """facet A(a: Json = 1) with B()
    facet B(b: Long = 2) with A() as a
    facet C() with B()
    facet Self() with Self()
    facet F()"""
    with pytest.raises(EvaluationError) as caught:
        values(text, call)
    assert caught.value.message == f"Mixins add each other in a circle: {circle}"
    assert caught.value.location is not None


def test_one_mixin_may_come_in_two_ways() -> None:
    text = """facet Base(n: Long = 1)
    facet One() with Base()
    facet Two() with Base()
    facet F() with One() as one with Two() as two"""
    assert values(text, "F() with Base()") == {"n": 1, "one": {"n": 1}, "two": {"n": 1}}


IMPLICIT = """facet Note(user: Json)
facet User(id: String) with Note()
implicit user = User(id = "x")
facet Audit(user: Json)"""


@pytest.mark.parametrize("call", ["Audit()", "Note()"])
def test_an_implicit_that_needs_itself_does_without(call: str) -> None:
    assert values(IMPLICIT, call) == {"user": {"id": "x"}}


def test_implicits_that_need_each_other_end() -> None:
    text = """facet HasB(b: Json)
    facet HasA(a: Json)
    facet A() with HasB()
    facet B() with HasA()
    implicit a = A()
    implicit b = B()
    facet F(a: Json)"""
    assert values(text, "F()") == {"a": {"b": {}}}


def test_mixins_of_the_signature_of_a_workflow_may_have_implicits() -> None:
    text = """facet Tenant(tenant: String)
    facet Place(id: String)
    implicit tenant = Place(id = "y")
    workflow W(n: Long = 1) with Tenant()"""
    names = Names(parse(text))
    assert completed(names, None, declared(names, "W"), {}) == {"n": 1, "tenant": {"id": "y"}}


@pytest.mark.parametrize(
    ("mixin", "message"),
    [
        ("afl.Timeout()", 'afl.Timeout: after is missing; expected a duration, such as "5m"'),
        ('afl.Timeout(after = "106751991168d")', "Number out of range in 'afl.Timeout'"),
        ('afl.Retry(backoff = "106751991168d")', "Number out of range in 'afl.Retry'"),
        ("afl.Retry(backoff = 1.0e300)", "Number out of range in 'afl.Retry'"),
        ("afl.Retry(max = 0)", "afl.Retry: max is 0; expected a whole number, at least 1"),
    ],
)
def test_what_cannot_be_asked_of_the_runtime_is_explained(mixin: str, message: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        policy(f"F() with {mixin}")
    assert caught.value.message == message
    assert caught.value.location is not None


def test_the_longest_wait_has_64_bits() -> None:
    asked = policy('F() with afl.Retry(max = 9223372036854775807, backoff = "106751991167d")')
    assert asked == Policy(max_attempts=2**63 - 1, backoff_ms=106751991167 * 86_400_000)
