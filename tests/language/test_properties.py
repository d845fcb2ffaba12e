"""What holds for every program: text, tree, compiled JSON and formatted text say the same."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.language.strategies import program_texts, programs, write

from afl.lang import ast, trivia
from afl.lang.decoder import decode_program
from afl.lang.emitter import emit_dict, emit_json
from afl.lang.formatter import format_source, format_tree
from afl.lang.parser import parse, parse_text

seeds = st.integers(0, 2**32)

#: The text as a whole, comments, and the empty block beside a `when` or a script.
PLACELESS = (ast.Program, ast.DocComment, ast.DocEntry, ast.Block)

# Text and tree


@given(programs(), seeds)
def test_a_written_tree_is_read_back(tree: ast.Program, seed: int) -> None:
    parsed = parse_text(write(tree, seed))
    assert parsed.problems == []
    assert parsed.tree == tree


@given(program_texts())
def test_every_node_lies_inside_its_text_and_its_parent(text: str) -> None:
    lines = text.split("\n")
    for node in ast.walk(parse(text)):
        if node.location is None:
            assert isinstance(node, PLACELESS)
            continue
        start, end = _span(node)
        assert (1, 1) <= start <= end
        for line, column in (start, end):
            assert line <= len(lines)
            assert column <= len(lines[line - 1]) + 1
        if isinstance(node, ast.Namespace) and node.file_scoped:
            continue  # Its place is its header; it holds what follows.
        for child in node.children():
            if child.location is not None:
                assert start <= _span(child)[0]
                assert _span(child)[1] <= end


def _span(node: ast.ASTNode) -> tuple[tuple[int, int], tuple[int, int]]:
    place = node.location
    assert place is not None
    assert place.end_line is not None
    assert place.end_column is not None
    return (place.line, place.column), (place.end_line, place.end_column)


# Tree and compiled JSON

_BY_KIND = ("namespaces", "facets", "eventFacets", "workflows", "implicits", "schemas")


def _without(data: Any, *keys: str) -> Any:
    """The compiled program without these keys of its scopes."""
    scopes = {"namespaces", "declarations"}
    return {
        key: [_without(each, *keys) if each["type"] == "Namespace" else each for each in value]
        if key in scopes
        else value
        for key, value in data.items()
        if key not in keys
    }


@given(programs())
def test_compiled_json_decodes_to_its_tree(tree: ast.Program) -> None:
    assert decode_program(json.loads(emit_json(tree))) == tree


@given(programs())
def test_either_style_of_keys_suffices_to_decode(tree: ast.Program) -> None:
    compiled = json.loads(emit_json(tree))
    assert decode_program(_without(compiled, "declarations")) == tree
    assert decode_program(_without(compiled, *_BY_KIND)) == tree


@given(program_texts())
def test_places_survive_compiling(text: str) -> None:
    compiled = emit_json(parse(text))
    assert emit_json(decode_program(json.loads(compiled))) == compiled


@given(program_texts(), st.sampled_from([None, 2, 4]))
def test_the_same_text_compiles_to_the_same_json(text: str, indent: int | None) -> None:
    first = emit_json(parse(text), indent=indent)
    assert emit_json(parse(text), indent=indent) == first
    assert json.loads(first) == emit_dict(parse(text))


@given(programs(), seeds)
def test_layout_does_not_change_ids(tree: ast.Program, seed: int) -> None:
    compiled = emit_dict(parse(write(tree, seed)), include_locations=False)
    assert compiled == emit_dict(parse(write(tree)), include_locations=False)


@given(programs())
def test_ids_are_uuids_and_differ_within_a_program(tree: ast.Program) -> None:
    found = list(_ids(_without(emit_dict(tree), "declarations")))
    assert len(set(found)) == len(found)
    for each in found:
        assert str(uuid.UUID(each)) == each


def _ids(data: Any) -> Iterator[str]:
    if isinstance(data, dict):
        if "id" in data:
            yield data["id"]
        for key, value in data.items():
            if key not in ("doc", "value"):
                yield from _ids(value)
    elif isinstance(data, list):
        for each in data:
            yield from _ids(each)


# Formatted text


@given(programs())
def test_a_formatted_tree_is_read_back(tree: ast.Program) -> None:
    parsed = parse_text(format_tree(tree))
    assert parsed.problems == []
    assert parsed.tree == tree


@given(program_texts())
def test_formatting_keeps_the_meaning(text: str) -> None:
    assert parse(format_source(text)) == parse(text)


@given(program_texts())
def test_formatting_twice_changes_nothing_more(text: str) -> None:
    once = format_source(text)
    assert format_source(once) == once


@given(program_texts())
def test_formatting_keeps_every_comment_in_order(text: str) -> None:
    assert _comments(format_source(text)) == _comments(text)


def _comments(text: str) -> list[Any]:
    """What the comments of a text say, without their layout."""
    return [
        trivia.parse_doc(each.text)
        if each.is_doc
        else [line.strip() for line in each.text.split("\n")]
        for each in trivia.comments(trivia.mask_scripts(text))
    ]
