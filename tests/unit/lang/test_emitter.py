"""The emitter as others call it: options, ids, what is left out. The shapes are in the goldens."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from afl.lang import ast
from afl.lang.emitter import JSONEmitter, emit_dict, emit_json
from afl.lang.parser import AFLParser, parse
from afl.lang.sources import FileOrigin, MongoDBOrigin, SourceEntry, SourceRegistry

TEXT = """
namespace garden {
    facet Dig(depth: Int = 1) => (soil: Int)
    workflow Plant(beds: [Int]) => (done: Boolean) andThen foreach bed in $.beds {
        d = Dig(depth = $.bed) andThen {
            inner = Dig()
        } catch { c = Dig() }
        sys.log("dug")
        yield Plant(done = true)
    } andThen when {
        case $.beds == [] => { d = Dig() }
        case _ => { }
    } andThen script "pass"
    event facet Rain() prompt { template "Rain?" }
    schema Bed { name: String }
    implicit tool = Dig()
}
"""


def nodes(value: Any) -> Iterator[dict[str, Any]]:
    """Every JSON object, parents first. `declarations` repeats others and is passed over."""
    if isinstance(value, list):
        for each in value:
            yield from nodes(each)
    elif isinstance(value, dict):
        yield value
        for key, each in value.items():
            if key != "declarations":
                yield from nodes(each)


def ids(text: str) -> dict[str, str]:
    """The ids of named nodes by their names."""
    return {each["name"]: each["id"] for each in nodes(emit_dict(parse(text))) if "id" in each
            and "name" in each}  # fmt: skip


# Calls


def test_the_functions_and_the_class_write_alike() -> None:
    tree = parse(TEXT)
    assert emit_dict(tree) == JSONEmitter().emit_dict(tree)
    assert emit_json(tree) == JSONEmitter().emit(tree)
    assert json.loads(emit_json(tree)) == emit_dict(tree)


def test_one_emitter_writes_many_programs() -> None:
    emitter = JSONEmitter()
    first = emitter.emit_dict(parse(TEXT))
    emitter.emit_dict(parse("facet Other()"))
    assert emitter.emit_dict(parse(TEXT)) == first


def test_text_is_indented_by_two_unless_told_otherwise() -> None:
    tree = parse("facet Dig()")
    assert emit_json(tree).startswith('{\n  "type": "Program",\n')
    assert emit_json(tree, indent=4).startswith('{\n    "type": "Program",\n')


def test_compact_text_is_one_line() -> None:
    text = emit_json(parse(TEXT), indent=None)
    assert "\n" not in text
    assert json.loads(text) == emit_dict(parse(TEXT))


def test_text_keeps_characters_as_they_are() -> None:
    assert "Grüße 🍰" in emit_json(parse('facet F(a: String = "Grüße 🍰")'))


def test_a_part_of_a_program_can_be_written() -> None:
    (facet,) = parse("facet Dig(depth: Int = 1)").facets
    assert emit_dict(facet, include_locations=False) == {
        "type": "FacetDecl",
        "id": emit_dict(facet)["id"],
        "name": "Dig",
        "params": [{"name": "depth", "type": "Int", "default": {"type": "Int", "value": 1}}],
    }
    assert emit_dict(ast.Literal(None, "null")) == {"type": "Null"}
    assert emit_dict(ast.Reference(ast.FrozenList(["s", "x"]), False)) == {
        "type": "StepRef",
        "path": ["s", "x"],
    }


@pytest.mark.parametrize(
    "node",
    [
        ast.TypeRef("Int"),
        ast.NamedArg("a", ast.Literal(1, "integer")),
        ast.UsesDecl("garden"),
        ast.ASTNode(),
    ],
)
def test_a_node_without_json_is_refused(node: ast.ASTNode) -> None:
    with pytest.raises(ValueError, match=f"Unknown node type: {type(node).__name__}"):
        emit_dict(node)
    with pytest.raises(ValueError, match="Unknown node type"):
        emit_json(node)


# Locations


def test_locations_can_be_left_out() -> None:
    without = emit_dict(parse(TEXT), include_locations=False)
    assert not any("location" in each for each in nodes(without))
    assert "location" not in emit_json(parse(TEXT), include_locations=False)


def test_nodes_that_have_an_id_have_a_location() -> None:
    with_id = [each for each in nodes(emit_dict(parse(TEXT))) if "id" in each]
    assert [each["type"] for each in with_id if "location" not in each] == ["Program"]
    assert not any("location" in each and "id" not in each for each in nodes(with_id))


def test_a_location_names_its_source_if_it_has_one() -> None:
    (plain,) = emit_dict(parse("facet Dig()"))["facets"]
    assert plain["location"] == {"line": 1, "column": 1, "endLine": 1, "endColumn": 12}
    (sourced,) = emit_dict(AFLParser().parse("facet Dig()", source_id="file://dig.afl"))["facets"]
    assert sourced["location"] == {**plain["location"], "sourceId": "file://dig.afl"}


def test_a_location_holds_what_is_known() -> None:
    node = ast.FacetDecl(ast.FacetSig("Dig"), location=ast.SourceLocation(3, 4))
    assert emit_dict(node)["location"] == {"line": 3, "column": 4}


@pytest.mark.parametrize(
    ("origin", "provenance"),
    [
        (FileOrigin("dig.afl"), {"type": "file", "path": "dig.afl"}),
        (
            MongoDBOrigin("42", "digging"),
            {"type": "mongodb", "collectionId": "42", "displayName": "digging"},
        ),
    ],
)
def test_provenance_is_added_when_asked_for(
    origin: FileOrigin | MongoDBOrigin, provenance: dict[str, str]
) -> None:
    registry = SourceRegistry()
    registry.register_entry(SourceEntry("facet Dig()", origin))
    tree = AFLParser().parse("facet Dig()", source_id=origin.to_source_id())

    emitter = JSONEmitter(include_provenance=True, source_registry=registry)
    (asked,) = emitter.emit_dict(tree)["facets"]
    assert asked["location"]["provenance"] == provenance
    (unasked,) = JSONEmitter(source_registry=registry).emit_dict(tree)["facets"]
    assert "provenance" not in unasked["location"]


def test_a_source_that_is_not_registered_has_no_provenance() -> None:
    tree = AFLParser().parse("facet Dig()", source_id="file://dig.afl")
    for registry in (SourceRegistry(), None):
        emitter = JSONEmitter(include_provenance=True, source_registry=registry)
        assert "provenance" not in emitter.emit_dict(tree)["facets"][0]["location"]


# Ids


def test_ids_are_uuids_and_differ() -> None:
    found = [each["id"] for each in nodes(emit_dict(parse(TEXT))) if "id" in each]
    assert all(str(uuid.UUID(each)) == each for each in found)
    assert len(set(found)) == len(found)


def test_the_same_text_has_the_same_ids_everywhere() -> None:
    assert emit_json(parse(TEXT)) == emit_json(parse(TEXT))
    # Runs that are stored refer to these: a change here orphans their steps.
    assert ids("workflow Sail() andThen { s = SetOut() }") == {
        "Sail": "ee01fa90-62f3-55fb-87b0-a5a34d109f62",
        "s": "4fff8b6c-fddf-5d91-81f9-d1ef537a4b47",
    }


def test_layout_and_locations_do_not_change_ids() -> None:
    assert ids(TEXT) == ids("// new first line\n" + TEXT.replace("    ", "\t"))
    without = emit_dict(parse(TEXT), include_locations=False)
    assert without["id"] == emit_dict(parse(TEXT))["id"]


def test_an_edit_changes_only_the_ids_below_it() -> None:
    text = "workflow A() andThen { x = F() y = G() } workflow B() andThen { z = F() }"
    before = ids(text)
    after = ids(text.replace("y = G()", "more = H(a = 1) y = G(b = 2)"))
    assert {name: after[name] for name in before} == before
    renamed = ids(text.replace("workflow A", "workflow C"))
    assert (renamed["z"], renamed["B"]) == (before["z"], before["B"])
    assert renamed["x"] != before["x"]


def test_things_of_one_name_have_ids_of_their_own() -> None:
    text = "namespace a { facet F() } namespace a { facet F() facet F() } facet F() workflow F()"
    found = [each["id"] for each in nodes(emit_dict(parse(text))) if "id" in each]
    assert len(set(found)) == len(found)


def test_repeated_declarations_are_the_same_nodes() -> None:
    (namespace,) = emit_dict(parse(TEXT))["namespaces"]
    kinds = ("facets", "eventFacets", "workflows", "implicits", "schemas")
    assert namespace["declarations"] == [each for kind in kinds for each in namespace[kind]]


# What is left out


def test_empty_parts_are_left_out() -> None:
    bare = emit_dict(parse("namespace a { workflow W() andThen { } }"), include_locations=False)
    assert set(bare) == {"type", "id", "namespaces", "declarations"}
    (namespace,) = bare["namespaces"]
    assert set(namespace) == {"type", "id", "name", "workflows", "declarations"}
    (workflow,) = namespace["workflows"]
    assert set(workflow) == {"type", "id", "name", "body"}
    assert set(workflow["body"]) == {"type", "id"}


def test_what_must_be_there_is_there_when_empty() -> None:
    text = "schema S { } facet F(a: Json = [], b: Json = #{})"
    result = emit_dict(parse(text), include_locations=False)
    assert result["schemas"][0]["fields"] == []
    first, second = result["facets"][0]["params"]
    assert first["default"] == {"type": "ArrayLiteral", "elements": []}
    assert second["default"] == {"type": "MapLiteral", "entries": []}


def test_deep_bodies_cost_no_stack() -> None:
    block = ast.AndThenBlock(ast.Block())
    for _ in range(3000):
        step = ast.StepStmt("s", ast.CallExpr("Dig"), block)
        block = ast.AndThenBlock(ast.Block(ast.FrozenList([step])))
    result = emit_dict(block)
    depth = 0
    while "steps" in result:
        result, depth = result["steps"][0]["body"], depth + 1
    assert depth == 3000


def test_a_new_part_of_a_namespace_moves_no_id_of_the_others() -> None:
    part = "namespace shop { facet Pay(sum: Long) }"
    alone = emit_dict(parse(part))["namespaces"][0]["facets"][0]["id"]
    spread = emit_dict(parse("namespace shop { facet Ship(to: String) }\n" + part))
    assert spread["namespaces"][1]["facets"][0]["id"] == alone
    assert spread["namespaces"][0]["id"] != spread["namespaces"][1]["id"]
