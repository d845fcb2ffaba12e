"""Golden programs: `golden/NAME.afl` compiles to `golden/NAME.json`, written by hand.

The JSON says what the compiled contract promises, so a difference is a bug of the compiler until
the contract says otherwise. Three spellings keep it short:

- `id` is left out everywhere, `location` too except in `NAME.locations.json`;
- a location is written "line:column-endLine:endColumn";
- `"declarations": "="` stands for the lists by kind, one after the other.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from afl.lang.emitter import emit_dict, emit_json
from afl.lang.parser import parse, parse_text

GOLDEN = Path(__file__).parent / "golden"
PROGRAMS = sorted(path.stem for path in GOLDEN.glob("*.afl"))
LOCATED = sorted(path.name.removesuffix(".locations.json") for path in GOLDEN.glob("*.locations.*"))
#: Their strings have several lines, whose ends are part of the value.
HOLD_LINE_ENDS = {"strings", "script_string"}
KINDS = ("namespaces", "facets", "eventFacets", "workflows", "implicits", "schemas")


def source(name: str) -> str:
    return (GOLDEN / f"{name}.afl").read_text("utf-8")


def golden(file: str) -> Any:
    return expanded(json.loads((GOLDEN / file).read_text("utf-8")))


def expanded(value: Any) -> Any:
    """The golden value with its short spellings written out."""
    if isinstance(value, list):
        return [expanded(each) for each in value]
    if not isinstance(value, dict):
        return value
    result = {key: expanded(each) for key, each in value.items()}
    if result.get("declarations") == "=":
        result["declarations"] = [each for kind in KINDS for each in result.get(kind, [])]
    if isinstance(result.get("location"), str):
        result["location"] = place(result["location"])
    return result


def place(text: str) -> dict[str, int]:
    start, end = (each.split(":") for each in text.split("-"))
    return {
        "line": int(start[0]),
        "column": int(start[1]),
        "endLine": int(end[0]),
        "endColumn": int(end[1]),
    }


def without(value: Any, *keys: str) -> Any:
    """The compiled value without the given keys of nodes."""
    if isinstance(value, list):
        return [without(each, *keys) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: without(each, *keys) for key, each in value.items() if key not in keys}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_compiles_to_its_golden_json(name: str) -> None:
    compiled = emit_dict(parse(source(name)))
    assert without(compiled, "id", "location") == golden(f"{name}.json")


@pytest.mark.parametrize("name", LOCATED)
def test_a_program_compiles_with_its_golden_locations(name: str) -> None:
    compiled = emit_dict(parse(source(name)))
    assert without(compiled, "id") == golden(f"{name}.locations.json")


@pytest.mark.parametrize("name", LOCATED)
def test_both_goldens_of_a_program_say_the_same(name: str) -> None:
    located = golden(f"{name}.locations.json")
    assert without(located, "location") == golden(f"{name}.json")


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_noted_about_a_golden_program(name: str) -> None:
    assert parse_text(source(name)).problems == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_json_text_of_a_program_holds_what_its_dict_holds(name: str) -> None:
    tree = parse(source(name))
    assert json.loads(emit_json(tree)) == emit_dict(tree)


@pytest.mark.parametrize("name", [each for each in PROGRAMS if each not in HOLD_LINE_ENDS])
def test_line_ends_of_windows_change_nothing(name: str) -> None:
    text = source(name)
    assert parse(text.replace("\n", "\r\n")) == parse(text)


def test_every_golden_file_belongs_to_a_program() -> None:
    names = {path.name.split(".")[0] for path in GOLDEN.iterdir()}
    assert names == set(PROGRAMS)
    assert all((GOLDEN / f"{name}.json").exists() for name in PROGRAMS)
