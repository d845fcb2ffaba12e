"""What a place of a program can see, and what is known about the values there."""

from __future__ import annotations

import pytest

from afl.lang import ast
from afl.lang.names import Names
from afl.lang.parser import parse
from afl.lang.scopes import Attributes, Scope
from afl.lang.types import type_name
from afl.lang.validation import check
from afl.lang.validation.rule import Report, Rule

PROGRAM = """
namespace farm {{
    schema Owner {{ name: String, age: Int }}
    schema Hen {{ owner: Owner, eggs: [Long], note: Json }}
    facet Penned(side: Long = 2) => (fence: Double)
    facet Nest(straw: Long, hen: Hen)
    event facet Collect(hen: Hen) => (eggs: [Long], sum: Long, ok: Boolean, by: Owner)
    workflow Morning(hens: [Hen], first: Hen, limit: Double, name: String, any: Json)
        => (result: Json) with Penned(side = 3) as pen
        andThen {{
            got = Collect(hen = $.first)
            nest = Nest(straw = 3, hen = $.first)
            me = Owner(name = "Flo", age = 40)
            yard = Collect(hen = $.first) with Penned(side = 4)
            who = Stranger(of = "night")
            yield Morning(result = {expression})
        }}
        andThen {{ far = Collect(hen = $.first) }}
}}
"""


def scope_at_yield(text: str) -> tuple[Scope, ast.YieldStmt]:
    """The view from the first yield of a text."""
    seen: list[tuple[Scope, ast.YieldStmt]] = []

    def look(_report: Report, statement: ast.YieldStmt, scope: Scope) -> None:
        seen.append((scope, statement))

    check(Names(parse(text)), rules=[Rule("probe", (), yields=look)])
    return seen[0]


def type_of(expression: str) -> str:
    scope, statement = scope_at_yield(PROGRAM.format(expression=expression))
    return type_name(scope.type_of(statement.call.args[0].value))


# Types of values


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # literals
        ('"x"', "String"),
        ("1", "Long"),
        ("1.0", "Double"),
        ("true", "Boolean"),
        ("null", "unknown"),
        # inputs
        ("$.name", "String"),
        ("$.hens", "[farm.Hen]"),
        ("$.first", "farm.Hen"),
        ("$.first.owner", "farm.Owner"),
        ("$.first.owner.age", "Int"),
        ("$.first.eggs", "[Long]"),
        ("$.first.note.anything", "unknown"),
        ("$.first.wings", "unknown"),
        ("$.any", "Json"),
        ("$.any.deep", "unknown"),
        ("$.pen", "unknown"),
        ("$.nowhere", "unknown"),
        # steps
        ("got.eggs", "[Long]"),
        ("got.sum", "Long"),
        ("got.by.name", "String"),
        ("got.nothing", "unknown"),
        ("got", "Json"),
        ("nest.straw", "Long"),
        ("nest.hen.owner", "farm.Owner"),
        ("nest.loose", "unknown"),
        ("me", "farm.Owner"),
        ("me.age", "Int"),
        ("yard.fence", "Double"),
        ("yard.side", "Long"),
        ("who.anything", "unknown"),
        ("who", "Json"),
        ("far.ok", "Boolean"),
        ("nobody.x", "unknown"),
        # operators
        ('"a" ++ 1', "String"),
        ("got.sum + 1", "Long"),
        ("got.sum * $.limit", "Double"),
        ("got.sum / 2", "Double"),
        ("got.sum > 2", "Boolean"),
        ("!got.ok", "Boolean"),
        ("-got.sum", "Long"),
        ("-$.limit", "Double"),
        ("got.ok && $.any", "Boolean"),
        ("$.any + 1", "unknown"),
        # collections
        ("[1, 2]", "[Long]"),
        ("[[1], [2]]", "[[Long]]"),
        ("[me, got.by]", "[farm.Owner]"),
        ('[1, "x"]', "[unknown]"),
        ("[1, 2.5]", "[unknown]"),
        ("[]", "[unknown]"),
        ("#{a: 1}", "Json"),
        ("$.hens[0]", "farm.Hen"),
        ("got.eggs[1 + 1]", "Long"),
        ("[[1]][0][0]", "Long"),
        ('$.any["k"]', "unknown"),
        ("$.hens[0].owner", "unknown"),
    ],
)
def test_the_type_of_a_value_is_what_its_declarations_say(expression: str, expected: str) -> None:
    assert type_of(expression) == expected


@pytest.mark.parametrize(
    ("iterable", "expression", "expected"),
    [
        ("$.boxes", "box", "n.Box"),
        ("$.boxes", "$.box.side", "Long"),
        ("$.boxes", "box.side", "Long"),
        ("[1, 2]", "box", "Long"),
        ("$.any", "box.side", "unknown"),
        ("$.name", "box", "unknown"),
        ("[[1.5]]", "box", "[Double]"),
    ],
)
def test_a_loop_variable_has_the_type_of_the_elements(
    iterable: str, expression: str, expected: str
) -> None:
    scope, statement = scope_at_yield(
        "namespace n { schema Box { side: Long }"
        " workflow W(boxes: [Box], any: Json, name: String) => (r: Json)"
        f" andThen foreach box in {iterable} {{ yield W(r = {expression}) }} }}"
    )
    assert type_name(scope.type_of(statement.call.args[0].value)) == expected


# What is seen


def view(text: str) -> Scope:
    return scope_at_yield(text)[0]


def attributes(scope: Scope, step: str) -> Attributes:
    found = scope.step(step)
    assert found is not None
    return found.attributes


def test_a_block_sees_its_own_steps_and_those_of_its_siblings() -> None:
    scope = view(PROGRAM.format(expression="1"))
    assert scope.step_names() == ["got", "nest", "me", "yard", "who", "far"]
    assert scope.step("far") is not None
    assert scope.step("nobody") is None


def test_a_step_of_the_block_hides_that_of_a_sibling_even_before_it_is_made() -> None:
    seen: dict[str | None, bool] = {}

    def look(_report: Report, _call: ast.CallExpr, _declared: object, scope: Scope) -> None:
        seen[scope.current] = scope.step("b") is not None

    text = (
        "workflow W() andThen { a = F() b = G() c = F() } andThen { b = H() } andThen { d = H() }"
    )
    check(Names(parse(text)), rules=[Rule("probe", (), call=look)])
    assert seen == {"a": False, "b": False, "c": True, "d": True}


def test_the_owner_of_a_block_is_its_declaration() -> None:
    owner = view(PROGRAM.format(expression="1")).owner
    assert owner.label == "workflow 'Morning'"
    assert owner.namespace == "farm"
    assert list(owner.inputs.types) == ["hens", "first", "limit", "name", "any", "pen"]
    assert set(owner.targets) == {"Morning", "farm.Morning", "Penned", "pen"}
    assert not owner.inputs.is_open


def test_the_owner_of_a_step_body_is_the_step() -> None:
    scope = view(
        "facet M(m: Long)"
        " namespace n { facet F(a: Long) => (b: Long) with M(m = 1)"
        " workflow W(w: Long) andThen { s = n.F(a = 1) with K(k = 2) as kay andThen {"
        " yield F(b = 2) } } }"
    )
    assert scope.owner.label == "step 's'"
    assert set(scope.owner.inputs.types) == {"a", "b", "m", "kay"}
    assert set(scope.owner.targets) == {"F", "n.F", "M", "K", "kay"}
    assert scope.step_names() == ["s"]


def test_the_owner_is_the_first_of_its_targets() -> None:
    scope = view("facet M() workflow W() with M() andThen { yield W() }")
    assert next(iter(scope.owner.targets)) == "W"


def test_a_mixin_does_not_hide_its_owner() -> None:
    scope = view(
        "namespace a { facet W(x: Long) } namespace b { workflow W() with a.W(x = 1) andThen {"
        " yield W() } }"
    )
    target = scope.owner.targets["W"]
    assert target is not None
    assert target.qualified == "b.W"


def test_nobody_knows_what_an_undeclared_facet_holds() -> None:
    scope = view("workflow W() andThen { s = Unknown() yield W() }")
    assert attributes(scope, "s").is_open
    assert view("workflow W() andThen { s = U() andThen { yield U() } }").owner.inputs.is_open


def test_nobody_knows_what_an_undeclared_mixin_lends() -> None:
    text = "facet F() => (a: Long) workflow W() {} andThen {{ s = F() with M(){} yield W() }}"
    assert attributes(view(text.format("", "")), "s").is_open
    assert not attributes(view(text.format("", " as m")), "s").is_open
    assert view(text.format("with M()", "")).owner.inputs.is_open


def test_a_facet_with_returns_shows_them_and_one_without_shows_its_parameters() -> None:
    scope = view(
        "facet A(x: Long) => (y: Long) facet B(x: Long)"
        " workflow W() andThen { a = A(x = 1) b = B(x = 1) yield W() }"
    )
    a, b = attributes(scope, "a"), attributes(scope, "b")
    assert (list(a.types), a.is_open) == (["y"], False)
    assert (list(b.types), b.is_open) == (["x"], True)


def test_a_caught_step_has_an_error() -> None:
    scope = view(
        "facet A() => (y: Long) workflow W() andThen { a = A() catch { } b = A() yield W() }"
    )
    assert list(attributes(scope, "a").types) == ["y", "error", "error_type"]
    assert list(attributes(scope, "b").types) == ["y"]


def test_a_catch_sees_errors_of_its_owner_and_of_the_failed_steps() -> None:
    scope = view("facet A() => (y: Long) workflow W() andThen { a = A() } catch { yield W() }")
    assert list(attributes(scope, "a").types) == ["y", "error", "error_type"]
    assert list(scope.owner.inputs.types) == ["error", "error_type"]


@pytest.mark.parametrize(
    ("kind", "script", "inputs", "is_open"),
    [
        ("facet", "", ["a"], False),
        ("workflow", "", ["a"], False),
        ("event facet", "", ["a", "b"], False),
        ("facet", 'script "x"', ["a", "b"], False),
    ],
)
def test_results_are_inputs_of_blocks_that_come_after_them(
    kind: str, script: str, inputs: list[str], is_open: bool
) -> None:
    owner = view(f"{kind} F(a: Long) => (b: Long) {script} andThen {{ yield F() }}").owner
    assert list(owner.inputs.types) == inputs
    assert owner.inputs.is_open is is_open


def test_a_script_in_front_of_a_facet_without_returns_may_leave_anything() -> None:
    assert view('facet F(a: Long) script "x" andThen { yield F() }').owner.inputs.is_open


def test_nearer_attributes_hide_others_and_come_first() -> None:
    both = Attributes({"a": "Long", "b": "Long"}).over(Attributes({"c": None, "b": "String"}))
    assert list(both.types.items()) == [("a", "Long"), ("b", "Long"), ("c", None)]
    assert not both.is_open
    assert both.over(Attributes({}, is_open=True)).is_open
