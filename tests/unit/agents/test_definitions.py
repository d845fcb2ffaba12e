"""Event facets as tools."""

from __future__ import annotations

import pytest

from afl.agents.tools import TOOL_NAME
from afl.lang.parser import parse
from afl.lang.program import Program
from afl.runtime.agent.definitions import tool_definitions, tool_name


def definitions(text: str) -> dict[str, dict[str, object]]:
    made = tool_definitions(Program.of(parse(text)))
    return {name: dict(each.input_schema) for name, each in made.items()}


def test_every_type_of_the_language_has_a_schema() -> None:
    schema = definitions(
        "event facet F() => (s: String, l: Long, i: Int, d: Double, b: Boolean, j: Json, "
        "a: [[Long]])"
    )["F"]
    assert schema["properties"] == {
        "s": {"type": "string"},
        "l": {"type": "integer"},
        "i": {"type": "integer"},
        "d": {"type": "number"},
        "b": {"type": "boolean"},
        "j": {},
        "a": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
    }
    assert schema["required"] == ["s", "l", "i", "d", "b", "j", "a"]


def test_schemas_are_found_in_their_namespaces() -> None:
    schema = definitions(
        "namespace a {\n    schema Point { x: Long }\n}\n"
        "namespace b {\n    schema Line { from: a.Point }\n"
        "    event facet Draw() => (lines: [Line])\n}\n"
    )["b.Draw"]
    lines = schema["properties"]["lines"]  # type: ignore[index]
    assert lines["items"]["properties"]["from"]["properties"] == {"x": {"type": "integer"}}


def test_a_schema_within_itself_has_an_end() -> None:
    schema = definitions(
        "namespace g\nschema Node { name: String, below: [Node] }\n"
        "event facet Plant() => (tree: Node)\n"
    )["g.Plant"]
    tree = schema["properties"]["tree"]  # type: ignore[index]
    assert tree["properties"]["below"] == {"type": "array", "items": {"type": "object"}}


def test_a_facet_without_returns_asks_for_nothing() -> None:
    schema = definitions("event facet F(a: Long)")["F"]
    assert schema["properties"] == {}
    assert schema["required"] == []


def test_a_definition_tells_what_the_text_says() -> None:
    made = tool_definitions(
        Program.of(
            parse(
                "/** Greets.\n * @return text what to say */\n"
                "event facet Greet(name: String) => (text: String) prompt {\n"
                '    template "Greet {name}"\n}\n'
            )
        )
    )["Greet"]
    assert made.description == "Gives the result of Greet.\nGreets.\nIt is asked with: name."
    assert made.param_names == ("name",)
    assert made.return_names == ("text",)
    assert made.prompt_block is not None
    assert made.prompt_block.template == "Greet {name}"
    assert made.input_schema["properties"]["text"]["description"] == "what to say"


@pytest.mark.parametrize("facet", ["Pay", "shop.Pay", "a.b.c.D_e", "x" * 64, "x." * 60 + "y"])
def test_a_tool_has_a_name_that_services_take(facet: str) -> None:
    assert TOOL_NAME.fullmatch(tool_name(facet))


def test_two_facets_never_share_a_name() -> None:
    long = "n" * 70
    facets = ["a.b_c", "a_b.c", "a.b.c", "a_b_c", f"{long}.x", f"{long}.y", "ä.b", "ö.b"]
    assert len({tool_name(each) for each in facets}) == len(facets)
