"""The parser as others call it: trees with places, and errors that name theirs."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from afl.errors import AflError, LanguageError
from afl.lang import ast
from afl.lang.ast import SourceLocation
from afl.lang.diagnostics import ParseError
from afl.lang.limits import MAX_NESTING
from afl.lang.parser import AFLParser, parse, parse_text
from afl.lang.sources import CompilerInput, FileOrigin, SourceEntry

TEXT = "workflow Sail(port: String) andThen {\n    s = SetOut(port = $.port)\n}\n"


# Calls


def test_the_function_and_the_class_read_alike() -> None:
    assert parse(TEXT) == AFLParser().parse(TEXT)


def test_one_parser_reads_many_texts() -> None:
    parser = AFLParser()
    assert parser.parse("facet A()") == parse("facet A()")
    with pytest.raises(ParseError):
        parser.parse("facet")
    assert parser.parse("facet B()") == parse("facet B()")


@pytest.mark.parametrize("text", ["", " \n\t ", "// nothing\n", "\ufeff", ";;"])
def test_a_text_without_declarations_is_an_empty_program(text: str) -> None:
    assert parse(text) == ast.Program()


def test_a_byte_order_mark_is_ignored() -> None:
    assert parse("\ufefffacet Row()") == parse("facet Row()")


def test_a_file_is_read_under_its_path(tmp_path: Path) -> None:
    path = tmp_path / "sail.afl"
    path.write_text(TEXT + "// Grüße\n", "utf-8")
    tree = AFLParser().parse_file(path)
    assert tree == parse(TEXT)
    assert location(tree.workflows[0]).source_id == f"file://{path}"


def test_several_sources_become_one_tree() -> None:
    sources = CompilerInput(
        [SourceEntry("facet Row()", FileOrigin("row.afl"))],
        [SourceEntry("facet Oar()", FileOrigin("oar.afl"), is_library=True)],
    )
    tree, registry = AFLParser().parse_sources(sources)
    assert [each.name for each in tree.facets] == ["Row", "Oar"]
    assert [location(each).source_id for each in tree.facets] == [
        "file://row.afl",
        "file://oar.afl",
    ]
    entry = registry.get("file://oar.afl")
    assert entry is not None
    assert entry.is_library


def test_threads_can_read_at_once() -> None:
    texts = [f"facet F{n}(a: Int = {n})" for n in range(40)]
    trees: dict[int, ast.Program] = {}

    def read(start: int) -> None:
        for n in range(start, len(texts), 4):
            trees[n] = parse(texts[n], f"{n}.afl")

    threads = [threading.Thread(target=read, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [trees[n].facets[0].name for n in range(40)] == [f"F{n}" for n in range(40)]
    assert [location(trees[n].facets[0]).source_id for n in range(40)] == [
        f"{n}.afl" for n in range(40)
    ]


# Places


def location(node: ast.ASTNode) -> SourceLocation:
    assert node.location is not None
    return node.location


def test_places_count_from_one_and_end_behind_the_last_character() -> None:
    (workflow,) = parse(TEXT).workflows
    assert workflow.location == SourceLocation(1, 1, 3, 2)
    (block,) = workflow.bodies
    assert block.location == SourceLocation(1, 29, 3, 2)
    assert block.block.steps[0].location == SourceLocation(2, 5, 2, 30)


def test_every_part_of_an_expression_has_its_place() -> None:
    text = 'facet F(a: Int = 1 + xs[0].name * -$.b ++ #{k: [true]} ++ "é" == null)'
    (facet,) = parse(text).facets
    (param,) = facet.sig.params
    assert param.default is not None
    places = {type(each).__name__: location(each) for each in ast.walk(param.default)}
    spelled = {name: text[place.column - 1 : (place.end_column or 0) - 1]
               for name, place in places.items()}  # fmt: skip
    assert spelled == {
        "BinaryExpr": "xs[0].name * -$.b",
        "ConcatExpr": '1 + xs[0].name * -$.b ++ #{k: [true]} ++ "é"',
        "IndexExpr": "xs[0]",
        "Literal": "null",
        "Reference": "$.b",
        "UnaryExpr": "-$.b",
        "MapLiteral": "#{k: [true]}",
        "MapEntry": "k: [true]",
        "ArrayLiteral": "[true]",
    }


def test_nodes_carry_the_source_they_were_read_from() -> None:
    assert source_ids(AFLParser().parse(TEXT, source_id="mongodb://1/sail")) == {"mongodb://1/sail"}
    assert source_ids(AFLParser().parse(TEXT, "sail.afl")) == {"sail.afl"}
    assert source_ids(AFLParser().parse(TEXT, "sail.afl", "id")) == {"id"}
    assert source_ids(AFLParser().parse(TEXT)) == {None}


def source_ids(tree: ast.Program) -> set[str | None]:
    return {each.location.source_id for each in ast.walk(tree) if each.location}


# Errors


def test_an_error_tells_source_line_and_column() -> None:
    with pytest.raises(ParseError) as caught:
        AFLParser().parse("facet Row()\nfacet 1()", source_id="file://row.afl")
    error = caught.value
    assert str(error) == "[file://row.afl] Unexpected '1': expected a name at line 2, column 7"
    assert (error.message, error.line, error.column, error.source_id) == (
        "Unexpected '1': expected a name",
        2,
        7,
        "file://row.afl",
    )


def test_an_error_of_a_text_without_source_does_not_mention_one() -> None:
    with pytest.raises(ParseError) as caught:
        parse("facet 1()")
    assert str(caught.value) == "Unexpected '1': expected a name at line 1, column 7"
    assert caught.value.source_id is None


def test_a_file_name_is_the_source_of_an_error() -> None:
    with pytest.raises(ParseError, match=r"^\[row\.afl\] Unexpected '1'"):
        parse("facet 1()", "row.afl")


def test_an_error_holds_every_problem_in_reading_order() -> None:
    with pytest.raises(ParseError) as caught:
        parse("facet A(x Int)\nfacet B()\nworkflow C() andThen { D() }\nfacet E(y Int)\n")
    error = caught.value
    assert [(each.line, each.code) for each in error.diagnostics] == [
        (1, "AFL101"),
        (3, "AFL111"),
        (4, "AFL101"),
    ]
    assert str(error) == "Unexpected 'Int': expected `:` at line 1, column 11 (and 2 more)"


def test_an_error_can_be_made_from_its_parts() -> None:
    error = ParseError("Strange", 3, 4, "file://row.afl")
    assert str(error) == "[file://row.afl] Strange at line 3, column 4"
    assert (error.line, error.column, error.source_id) == (3, 4, "file://row.afl")
    assert isinstance(error, LanguageError)
    assert isinstance(error, AflError)


def test_a_warning_does_not_stop_the_parser() -> None:
    text = 'facet Row(a: String = "50\\%")'
    assert parse(text).facets[0].name == "Row"
    parsed = parse_text(text)
    assert [each.code for each in parsed.problems] == ["AFL130"]
    assert parsed.errors == []


def test_a_text_that_breaks_rules_of_syntax_alone_still_has_a_tree() -> None:
    parsed = parse_text("workflow Row() andThen { Oar() }")
    assert [each.code for each in parsed.errors] == ["AFL111"]
    assert parsed.tree is not None
    with pytest.raises(ParseError):
        parse("workflow Row() andThen { Oar() }")


def test_an_unreadable_text_has_no_tree() -> None:
    parsed = parse_text("facet")
    assert parsed.tree is None
    assert len(parsed.errors) == 1


# Limits


def test_brackets_nest_as_deep_as_is_allowed() -> None:
    depth = MAX_NESTING - 1
    assert parse("facet F(a: Int = " + "(" * depth + "1" + ")" * depth + ")")


@pytest.mark.parametrize("bracket", ["(", "[", "#{a: ", "-(", "[1, ["])
def test_deeper_brackets_are_refused_without_harm(bracket: str) -> None:
    with pytest.raises(ParseError, match="More than 250 brackets are open here"):
        parse("facet F(a: Int = " + bracket * 100_000)


@pytest.mark.parametrize("chain", ["1 - ", "-", "!", "a[0] + "])
def test_long_chains_are_read_or_refused_without_harm(chain: str) -> None:
    parsed = parse_text(f"facet F(a: Int = {chain * 20_000}1)")
    assert {each.code for each in parsed.problems} <= {"AFL107"}


def test_a_long_concatenation_is_one_flat_expression() -> None:
    (facet,) = parse("facet F(a: String = " + '"x" ++ ' * 5000 + '"x")').facets
    default = facet.sig.params[0].default
    assert isinstance(default, ast.ConcatExpr)
    assert len(default.operands) == 5001


def test_integers_reach_to_the_end_of_64_bits() -> None:
    assert parse("facet F(a: Long = 9223372036854775807)")
    with pytest.raises(ParseError, match="does not fit in 64 bits"):
        parse("facet F(a: Long = 9223372036854775808)")
    with pytest.raises(ParseError, match="does not fit in 64 bits"):
        parse(f"facet F(a: Long = {'9' * 100_000})")
