"""Checking a program: all problems at once, as values, and messages that others rely on."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import afl
from afl.lang import ast, codes
from afl.lang.ast import SourceLocation, frozen
from afl.lang.codes import Severity
from afl.lang.diagnostics import Diagnostic
from afl.lang.names import Names
from afl.lang.parser import parse
from afl.lang.validation import RULES, ValidationError, ValidationResult, check, validate
from afl.lang.validation.cycles import find_cycles
from afl.lang.validation.rule import PLACES, Report, Rule
from afl.runtime import script_child

TWO_ERRORS_AND_A_WARNING = """facet Jam(fruit: String) => (jar: String)
workflow Cook(fruit: String) andThen {
    a = Jam(fruit = $.frut)
    b = Jam(fruit = c.jar)
    d = Peel(fruit = $.fruit)
}
"""


def messages(text: str) -> list[str]:
    return [each.message for each in validate(parse(text)).errors]


# The result


def test_a_sound_program_is_valid() -> None:
    result = validate(parse("facet Jam(fruit: String)"))
    assert result == ValidationResult([])
    assert result.is_valid
    assert result.errors == []
    assert result.warnings == []


def test_nothing_is_a_sound_program() -> None:
    assert validate(ast.Program()).is_valid


def test_all_problems_are_collected_and_none_is_raised() -> None:
    result = validate(parse(TWO_ERRORS_AND_A_WARNING))
    assert not result.is_valid
    assert [each.code for each in result.errors] == ["AFL220", "AFL221"]
    assert [each.code for each in result.warnings] == ["AFL213"]
    assert [each.code for each in result.diagnostics] == ["AFL220", "AFL221", "AFL213"]


def test_problems_come_in_reading_order() -> None:
    result = validate(parse(TWO_ERRORS_AND_A_WARNING))
    places = [(each.line, each.column) for each in result.diagnostics]
    assert places == sorted(places) == [(3, 21), (4, 21), (5, 9)]


def test_warnings_alone_leave_a_program_valid() -> None:
    assert validate(parse("workflow Cook() andThen { a = Peel() }")).is_valid


def test_strict_rejects_what_is_worth_a_warning() -> None:
    result = validate(parse("workflow Cook() andThen { a = Peel() }"), strict=True)
    assert not result.is_valid
    assert [each.severity for each in result.errors] == [Severity.ERROR]


def test_the_tree_is_not_changed_by_checking_it() -> None:
    tree = parse(TWO_ERRORS_AND_A_WARNING)
    validate(tree)
    assert tree == parse(TWO_ERRORS_AND_A_WARNING)
    assert validate(tree) == validate(tree)


def test_the_names_that_others_know_are_there() -> None:
    assert afl.validate is validate
    assert afl.ValidationResult is ValidationResult
    assert afl.ValidationError is ValidationError


# A problem as text


def test_a_problem_says_its_line_and_column() -> None:
    error = validate(parse(TWO_ERRORS_AND_A_WARNING)).errors[1]
    assert str(error) == "Reference to undefined step 'c' at line 4, column 21"
    assert (error.line, error.column) == (4, 21)


def test_a_problem_of_a_tree_without_places_has_none() -> None:
    tree = ast.Program(schemas=ast.frozen([ast.SchemaDecl("Jar")]))
    (error,) = validate(tree).errors
    assert str(error) == "Schema 'Jar' must be defined inside a namespace"
    assert error.line is None
    assert error.column is None


def test_a_validation_error_can_be_made_by_hand() -> None:
    error = ValidationError("AFL101", Severity.ERROR, "Too salty", SourceLocation(2, 7))
    assert str(error) == "Too salty at line 2, column 7"


def test_problems_know_the_source_they_are_in() -> None:
    (error,) = validate(parse("schema Jar { }", "pantry.afl")).errors
    assert error.source_id == "pantry.afl"


# Messages that programs look for

CONTRACT = [
    ("facet A() facet A()", "Duplicate facet name 'A' (previously defined at line 1)"),
    ("event facet A() event facet A()", "Duplicate event facet name 'A'"),
    ("workflow A() workflow A()", "Duplicate workflow name 'A'"),
    ("namespace n { schema A { } schema A { } }", "Duplicate schema name 'A'"),
    ("namespace n { schema A { x: Long, x: Long } }", "Duplicate schema field name 'x'"),
    ("workflow W() andThen { s = W2() s = W2() } facet W2()", "Duplicate step name 's'"),
    ("workflow W() andThen { yield W(x = $.a) }", "Invalid input reference '$.a'"),
    ("workflow W() andThen { yield W(x = s.a) }", "Reference to undefined step 's'"),
    (
        "facet F() => (x: Long, y: Long) workflow W() andThen { s = F() yield W(v = s.a) }",
        "Invalid attribute 'a' for step 's': valid attributes are [x, y]",
    ),
    ("workflow W() andThen { yield X() }", "Invalid yield target 'X'"),
    ("workflow W() andThen { yield W() yield W() }", "Duplicate yield target 'W'"),
    ("namespace n { use X }", "Invalid use statement: namespace 'X' does not exist"),
    ("workflow W() andThen { s = a.b.F() }", "Unknown facet 'a.b.F'"),
    (
        "namespace a { facet F() } namespace b { facet F() } workflow W() andThen { s = F() }",
        "Ambiguous facet reference 'F'",
    ),
    (
        "namespace a { schema T { } } namespace b { schema T { } } facet F(x: T)",
        "Ambiguous schema reference 'T'",
    ),
    ("facet F(x: T)", "Unknown type 'T'"),
    ("facet F() => (x: [a.T])", "Unknown schema 'a.T'"),
    (
        "namespace n { schema S { } workflow W() andThen { s = S(f = 1) } }",
        "Unknown field 'f' for schema 'S'",
    ),
    (
        "facet M() namespace n { schema S { } workflow W() andThen { s = S() with M() } }",
        "cannot have mixins",
    ),
    ("schema S { }", "Schema 'S' must be defined inside a namespace"),
    ('facet F(x: Json = -"a")', "cannot negate String operand"),
    ("facet F(x: Json = -true)", "cannot negate Boolean operand"),
    ("event facet F() prompt { }", "'template' directive"),
    ('event facet F() prompt { template "{x}" }', "Invalid placeholder '{x}' in template"),
    ('event facet F() prompt { system "{x}" template "" }', "Invalid placeholder '{x}' in system"),
    ('facet F() script " "', "Script block must contain code"),
    ("facet F() script { a = }", "This script is no Python: invalid syntax"),
    (
        "namespace n { schema S { } workflow W() andThen { s = S() catch { } } }",
        "Schema 'S' cannot have a catch",
    ),
    ("facet A() with B() facet B() with A()", "These mixins never end: A → B → A"),
    ("facet A() with A()", "These mixins never end: A → A"),
    ("event facet F(a: Long = $.r) => (r: Long)", "Invalid input reference '$.r'"),
    ("event facet F() with afl.Timeout()", "Facet 'Timeout' needs parameter 'after'"),
]


@pytest.mark.parametrize(("text", "part"), CONTRACT, ids=[part for _, part in CONTRACT])
def test_a_message_contains_what_programs_look_for(text: str, part: str) -> None:
    found = messages(text)
    assert len(found) == 1, found
    assert part in found[0]


@pytest.mark.parametrize(("literal", "kind"), [('"a"', "String"), ("true", "Boolean")])
def test_arithmetic_on_a_literal_names_the_type(literal: str, kind: str) -> None:
    (message,) = messages(f"facet F(x: Json = 1 + {literal})")
    assert "arithmetic" in message
    assert kind in message.partition("arithmetic")[2]


def test_a_name_in_two_namespaces_is_no_duplicate() -> None:
    assert messages("facet A() namespace n { facet A() } namespace m { facet A() }") == []


def test_an_unknown_bare_facet_is_no_error() -> None:
    assert messages("workflow W() andThen { s = Elsewhere(x = 1) t = Other(v = s.any) }") == []


@pytest.mark.parametrize(
    "code",
    [
        "a = 1",
        "return 1",
        "await a",
        "yield 1",
        "break",
        "nonlocal a",
        "def f(n):\n    return n",
        "async def f(n):\n    return await n",
        "import os",
        "a.__class__",
        "from __future__ import annotations",
        "match 1:\n    case 1: pass",
        "  a = 1",
        "a = (",
        "# -*- coding: nothing -*-",
    ],
)
def test_a_script_is_refused_if_its_own_process_could_not_compile_it(code: str) -> None:
    error = script_child.run(code, {"params": {}, "result": {}}, script_child.Printed(100))
    found = validate(ast.Program(facets=frozen([script_facet(code)]))).errors
    assert bool(found) == (error is not None and error.startswith("Syntax error: "))


def script_facet(code: str) -> ast.FacetDecl:
    return ast.FacetDecl(ast.FacetSig("F"), ast.ScriptBlock(code=code))


def test_a_script_that_python_warns_about_is_accepted(recwarn: pytest.WarningsRecorder) -> None:
    assert messages('facet F(n: Long) script { a = "\\d" if n is 1 else 2 }') == []
    assert not recwarn.list


def test_a_script_with_a_nul_is_no_python() -> None:
    (message,) = messages("facet F() script \"a = '\\0'\"")
    assert message.startswith("This script is no Python: ")


def test_a_script_that_is_too_deep_for_this_process_is_left_to_its_own() -> None:
    assert messages(f"facet F() script {{ a = {'-' * 20_000}1 }}") == []


def test_a_place_that_is_cut_off_is_the_last_line_of_the_script() -> None:
    (found,) = validate(parse("facet F() script {\n  if a:\n\n}")).errors
    assert found.location is not None
    assert found.location.line == 2


# Several files


def test_a_duplicate_in_another_file_names_that_file() -> None:
    tree = ast.Program.merge([parse("\n\nfacet A()", "b.afl"), parse("facet A()", "a.afl")])
    (error,) = validate(tree).errors
    assert error.source_id == "b.afl"
    assert error.message == "Duplicate facet name 'A' (previously defined at line 1 of a.afl)"


def test_of_two_kinds_with_one_name_the_later_in_the_text_is_reported() -> None:
    (error,) = validate(parse("workflow A()\nfacet A()")).errors
    assert error.message == "Duplicate facet name 'A' (previously defined at line 1)"
    assert error.line == 2


# Rules


EVERYTHING = """
namespace n {
    schema S { f: Long }
    implicit i = F(a = 1)
    facet M()
    facet F(a: Long = 1) with M()
    event facet P() prompt { template "t" }
    workflow W() script "x"
        andThen { s = F(a = 1 + 2) with M() yield W(r = s.a) }
        andThen foreach v in [1] { }
        andThen when { case _ => { } }
        andThen script "y"
        catch { }
}
"""


@pytest.mark.parametrize("place", PLACES)
def test_every_kind_of_place_is_shown_to_rules(place: str) -> None:
    seen: list[tuple[Any, ...]] = []
    probe = Rule("probe", (), **{place: lambda *what: seen.append(what)})
    check(Names(parse(EVERYTHING)), rules=[probe])
    assert seen
    assert all(isinstance(what[0], Report) for what in seen)


def test_a_rule_of_ones_own_can_be_added() -> None:
    def no_shouting(report: Report, declared: Any) -> None:
        if declared.name.isupper():
            report(codes.DUPLICATE_STEP, f"'{declared.name}' shouts", declared.node, "lower it")

    rule = Rule("no shouting", (codes.DUPLICATE_STEP,), declaration=no_shouting)
    result = check(Names(parse("facet Calm()\nfacet LOUD()")), rules=[*RULES, rule])
    (found,) = result.diagnostics
    assert found == Diagnostic(
        "AFL203", Severity.ERROR, "'LOUD' shouts", found.location, hint="lower it"
    )
    assert found.line == 2


def test_without_rules_nothing_is_found() -> None:
    assert check(Names(parse(TWO_ERRORS_AND_A_WARNING)), rules=[]).diagnostics == []


def test_a_rule_reports_without_a_place_if_there_is_none() -> None:
    rule = Rule("vague", (), program=lambda report: report(codes.RECURSION, "Somewhere", None))
    (found,) = check(Names(ast.Program()), rules=[rule]).diagnostics
    assert found.location is None


# Large programs


def test_bodies_may_nest_deeper_than_the_stack_of_python() -> None:
    # Parsed text is bounded; a tree made by a program is not.
    block = ast.Block(yield_stmts=ast.frozen([ast.YieldStmt(ast.CallExpr("F"))]))
    for _ in range(sys.getrecursionlimit() + 100):
        step = ast.StepStmt("s", ast.CallExpr("F"), ast.AndThenBlock(block))
        block = ast.Block(ast.frozen([step]))
    tree = ast.Program(
        facets=ast.frozen([ast.FacetDecl(ast.FacetSig("F"))]),
        workflows=ast.frozen([ast.WorkflowDecl(ast.FacetSig("W"), ast.AndThenBlock(block))]),
    )
    assert validate(tree).diagnostics == []


def test_a_chain_of_calls_may_be_longer_than_the_stack_of_python() -> None:
    length = sys.getrecursionlimit() + 100
    links = [f"facet F{n}() andThen {{ s = F{n + 1}() }}" for n in range(length)]
    text = "\n".join([*links, f"facet F{length}() andThen {{ s = F0() }}"])
    (error,) = validate(parse(text)).errors
    assert error.code == "AFL360"


# Circles


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ({}, []),
        ({"a": "b", "b": ""}, []),
        ({"a": "a"}, [["a", "a"]]),
        ({"a": "b", "b": "c", "c": "a"}, [["a", "b", "c", "a"]]),
        ({"x": "a", "a": "b", "b": "a"}, [["a", "b", "a"]]),
        ({"a": "bc", "b": "d", "c": "d", "d": ""}, []),
        ({"a": "ab", "b": "b"}, [["a", "a"], ["b", "b"]]),
    ],
)
def test_each_circle_is_found_once(graph: dict[str, str], expected: list[list[str]]) -> None:
    assert find_cycles(graph, lambda node: graph.get(node, "")) == expected
