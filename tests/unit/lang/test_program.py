"""A compiled program: looked up by name, the same wherever it was compiled, never changed."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from afl.errors import UsageError
from afl.lang.compiler import compile_source, compile_sources
from afl.lang.decoder import CompiledFormatError
from afl.lang.diagnostics import InvalidProgram
from afl.lang.parser import parse
from afl.lang.program import Program, UnknownWorkflow
from afl.lang.sources import load_files

ROOT = Path(__file__).parents[3]
VALID = sorted((ROOT / "tests/language/rules").glob("valid_*.afl"))
EXAMPLES = sorted({each.parent for each in (ROOT / "examples").rglob("*.afl")})

TEXT = """
workflow Close() andThen { }
namespace shop {
    schema Line { sku: String }
    event facet Charge(sum: Long) => (id: String)
    facet Note(text: String)
    workflow Checkout(lines: [Line]) andThen { paid = Charge(sum = 1) }
    workflow Close() andThen { }
}
namespace stock { workflow Refill() andThen { } workflow Close() andThen { } }
"""


@pytest.fixture
def program() -> Program:
    return compile_source(TEXT)


# Contents


def test_declarations_are_there_by_qualified_name(program: Program) -> None:
    assert set(program.declarations) == {
        *("Close", "shop.Line", "shop.Charge", "shop.Note", "shop.Checkout", "shop.Close"),
        *("stock.Refill", "stock.Close"),
    }
    assert {each.qualified for each in program} == set(program.declarations)


def test_declarations_are_there_by_kind(program: Program) -> None:
    assert set(program.workflows) == {
        *("Close", "shop.Checkout", "shop.Close", "stock.Refill", "stock.Close"),
    }
    assert set(program.event_facets) == {"shop.Charge"}
    assert set(program.schemas) == {"shop.Line"}


# Workflows by name


def test_a_workflow_is_found_by_its_qualified_name(program: Program) -> None:
    assert program.workflow("stock.Close").qualified == "stock.Close"


def test_a_workflow_is_found_by_its_short_name_if_only_one_has_it(program: Program) -> None:
    assert program.workflow("Checkout").qualified == "shop.Checkout"


def test_a_workflow_of_the_top_level_has_its_short_name_to_itself(program: Program) -> None:
    assert program.workflow("Close").qualified == "Close"


def test_a_short_name_of_two_workflows_is_refused_with_both() -> None:
    program = compile_source("namespace a { workflow W() } namespace b { workflow W() }")
    with pytest.raises(UnknownWorkflow) as caught:
        program.workflow("W")
    assert str(caught.value) == "workflow 'W' is ambiguous: it could be a.W, b.W"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Chekout", "Checkout"),
        ("shop.Chekout", "shop.Checkout"),
        ("checkout", "Checkout"),
        ("Refil", "Refill"),
    ],
)
def test_a_misspelled_workflow_is_refused_with_a_guess(
    program: Program, name: str, meant: str
) -> None:
    with pytest.raises(UnknownWorkflow) as caught:
        program.workflow(name)
    assert str(caught.value) == f"there is no workflow '{name}'; did you mean '{meant}'?"


def test_an_unknown_workflow_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnknownWorkflow) as caught:
        compile_source("workflow Sow() workflow Reap()").workflow("Zzz")
    assert str(caught.value) == "there is no workflow 'Zzz': it has Sow, Reap"


def test_a_program_without_workflows_says_so() -> None:
    with pytest.raises(UnknownWorkflow) as caught:
        compile_source("facet F()").workflow("F")
    assert str(caught.value) == "there is no workflow 'F': the program has no workflows"


def test_an_unknown_workflow_is_a_wrong_request() -> None:
    assert issubclass(UnknownWorkflow, UsageError)


@pytest.mark.parametrize("name", ["Charge", "shop.Charge", "shop.Line", ""])
def test_what_is_no_workflow_is_not_found_as_one(program: Program, name: str) -> None:
    with pytest.raises(UnknownWorkflow):
        program.workflow(name)


# Identity


def test_layout_and_comments_do_not_change_a_program() -> None:
    one = compile_source("facet F(a: Long)\n\nworkflow W() andThen { s = F(a = 1) }")
    two = compile_source(
        "// twice\nfacet F(\n  a: Long,\n)\nworkflow W() andThen {\n\n s = F(a = 1); }", "x.afl"
    )
    assert one == two
    assert hash(one) == hash(two)
    assert one.digest == two.digest


@pytest.mark.parametrize(
    "other",
    [
        "facet F(b: Long)",
        "facet F(a: Int)",
        "facet G(a: Long)",
        "event facet F(a: Long)",
        "facet F(a: Long = 1)",
        "facet F(a: Long) facet G()",
        "namespace n { facet F(a: Long) }",
    ],
)
def test_another_meaning_is_another_program(other: str) -> None:
    assert compile_source("facet F(a: Long)") != compile_source(other)


def test_kinds_of_numbers_and_truth_are_different_meanings() -> None:
    programs = {compile_source(f"facet F(a: Json = {each})") for each in ("1", "1.0", "true")}
    assert len(programs) == 3


def test_a_digest_is_that_of_the_compiled_json_without_places(program: Program) -> None:
    text = program.to_json(include_locations=False)
    assert program.digest == hashlib.sha256(text.encode("utf-8")).hexdigest()


def test_a_program_is_not_equal_to_something_else(program: Program) -> None:
    assert program != program.to_dict()
    assert program.digest[:12] in repr(program)


# Immutability


@pytest.mark.parametrize(
    "change",
    [
        lambda each: each.declarations.update({}),
        lambda each: each.workflows.pop("shop.Close"),
        lambda each: setattr(each, "tree", None),
        lambda each: setattr(each, "names", None),
        lambda each: setattr(each, "warnings", ()),
        lambda each: setattr(each.tree, "facets", []),
        lambda each: each.tree.facets.append(None),
        lambda each: each.tree.workflows.clear(),
    ],
)
def test_a_program_refuses_to_change(program: Program, change: Callable[[Any], None]) -> None:
    before = program.to_json()
    with pytest.raises((AttributeError, TypeError)):
        change(program)
    assert program.to_json() == before


def test_what_is_given_out_is_no_way_in(program: Program) -> None:
    digest = program.digest
    data = program.to_dict()
    data["namespaces"].clear()
    assert program.to_dict() != data
    assert compile_source(TEXT).digest == digest


def test_a_program_can_be_copied_and_sent(program: Program) -> None:
    assert copy.deepcopy(program.tree) == program.tree
    assert pickle.loads(pickle.dumps(program.tree)) == program.tree


# There and back


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
@pytest.mark.parametrize("indent", [None, 2])
def test_a_valid_program_survives_json(path: Path, indent: int | None) -> None:
    check_round_trip(compile_sources(load_files([path])), indent)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_survives_json(path: Path) -> None:
    program = compile_sources(load_files([path]), strict=True)
    assert program.workflows
    check_round_trip(program, None)


def check_round_trip(program: Program, indent: int | None) -> None:
    again = Program.from_json(program.to_json(indent=indent))
    assert again == program
    assert again.to_json() == program.to_json()
    assert again.warnings == program.warnings == ()
    assert Program.from_dict(program.to_dict(include_locations=False)) == program
    assert Program.from_json(program.to_json().encode("utf-8")) == program


def test_a_program_comes_back_with_its_warnings() -> None:
    program = compile_source("workflow W() andThen { s = Gone() }")
    assert [each.code for each in Program.from_json(program.to_json()).warnings] == ["AFL213"]


def test_text_of_every_script_survives_json() -> None:
    program = compile_source('facet Greet(x: String = "Grüße \\u2028 \U0001f4e6 \\n \\"")')
    assert Program.from_json(program.to_json()) == program
    assert "Grüße" in program.to_json()


def test_locations_can_be_left_out(program: Program) -> None:
    assert '"location"' in program.to_json()
    assert '"location"' not in program.to_json(include_locations=False)


def test_readers_of_the_joined_list_alone_are_served(program: Program) -> None:
    data = program.to_dict()

    def joined(node: dict[str, Any]) -> dict[str, Any]:
        kinds = ("namespaces", "facets", "eventFacets", "workflows", "implicits", "schemas")
        rest = {key: value for key, value in node.items() if key not in kinds}
        return rest | {"declarations": [joined(each) for each in node.get("declarations", ())]}

    assert Program.from_dict(joined(data)) == program


# Garbage


@pytest.mark.parametrize(
    "text",
    ["", "{", "nonsense", "[1,", b"\xff\xfe", '{"type": "Program"'],
)
def test_what_is_no_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(UsageError, match=r"^compiled AFL is no JSON: "):
        Program.from_json(text)


@pytest.mark.parametrize("text", ["[]", "null", "1", '"Program"', "{}", '{"type": "WorkflowDecl"}'])
def test_json_of_something_else_is_refused(text: str) -> None:
    with pytest.raises(CompiledFormatError, match="type 'Program'"):
        Program.from_json(text)


@pytest.mark.parametrize(
    "part",
    [
        {"facets": 3},
        {"facets": [{}]},
        {"facets": [None]},
        {"declarations": [{"type": "FacetDecl"}]},
        {"facets": [{"name": "F", "params": [{"name": "x", "type": 5}]}]},
        {"facets": [{"name": "F", "params": [{"name": "x"}]}]},
        {"facets": [{"name": "F", "location": 7}]},
        {"namespaces": [{"name": "n", "uses": 7}]},
        {"workflows": [{"name": "W", "body": {"type": "AndThenBlock", "steps": [3]}}]},
        {"implicits": [{"name": "i", "call": {}}]},
    ],
    ids=json.dumps,
)
def test_a_damaged_program_is_refused(part: dict[str, Any]) -> None:
    with pytest.raises(CompiledFormatError, match="malformed") as caught:
        Program.from_dict({"type": "Program", **part})
    assert isinstance(caught.value, UsageError)


def test_a_program_that_breaks_rules_is_refused_also_as_json() -> None:
    data = compile_source("facet F() workflow W() andThen { s = F() }").to_dict()
    data["workflows"][0]["body"]["steps"][0]["call"]["target"] = "gone.F"
    with pytest.raises(InvalidProgram, match=r"Unknown facet 'gone\.F'"):
        Program.from_dict(data)


def test_a_script_is_compiled_with_its_text_and_never_again() -> None:
    # Another Python may have compiled it, one that knows more.
    data = compile_source('workflow W() script "x = 1"').to_dict()
    data["workflows"][0]["body"]["code"] = "x = = 1"
    with pytest.raises(InvalidProgram, match="no Python"):
        compile_source('workflow W() script "x = = 1"')
    assert Program.from_dict(data).to_dict() == data


def test_a_tree_becomes_a_program_if_it_keeps_the_rules() -> None:
    assert Program.of(parse("facet F()")) == compile_source("facet F()")
    with pytest.raises(InvalidProgram):
        Program.of(parse("schema S { }"))
    with pytest.raises(InvalidProgram):
        Program.of(parse("workflow W() andThen { s = Gone() }"), strict=True)
