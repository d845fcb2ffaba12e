"""The reference is complete: whatever users can write or see is on its page."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.docs.pages import REFERENCE, ROOT, anchors, code_words, prose, read
from tools.reference import FILES, stale_files, text_of
from tools.reference_cli import EXIT_CODES, commands

import afl
from afl.config import SETTINGS
from afl.lang import ast, strings
from afl.lang.codes import ALL_CODES, UNKNOWN_ESCAPE, Code
from afl.lang.emitter import JSONEmitter
from afl.lang.names import prelude
from afl.lang.parser import AFLParser
from afl.lang.sources import CompilerInput, FileOrigin, SourceEntry
from afl.lang.types import BUILTINS
from afl.lang.validation import RULES
from afl.telemetry import EVENTS

GROUND = ("errors", "clock", "ids", "log", "telemetry", "backoff", "config")
GOLDEN = ROOT / "tests" / "language" / "golden"


def page(name: str) -> str:
    return read(REFERENCE / name)


# Generated pages


def test_all_that_is_generated_is_up_to_date() -> None:
    assert stale_files() == [], "run: make reference"


def test_a_file_that_differs_or_is_missing_is_stale(tmp_path: Path) -> None:
    files = {tmp_path / path.name: make for path, make in FILES.items()}
    for path, make in files.items():
        path.write_text(text_of(make), encoding="utf-8")
    (tmp_path / "cli.md").write_text("old", encoding="utf-8")
    (tmp_path / "events.md").unlink()
    assert {each.name for each in stale_files(files)} == {"cli.md", "events.md"}


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda each: each.name)
def test_a_setting_is_documented(setting: Any) -> None:
    text = page("settings.md")
    assert f"## `{setting.name}`" in text
    assert setting.help in text
    assert f"`{setting.variable}`" in text
    section = text.partition(f"\n## `{setting.name}`\n")[2].partition("\n## ")[0]
    is_there = f"`{setting.flag} " in page("cli.md") or f"`{setting.flag}`" in page("cli.md")
    flag = f"`{setting.flag}`, where a command has it" if is_there else "none"
    assert f"- Flag: {flag}\n" in section


def test_a_flag_that_no_command_has_is_not_promised() -> None:
    assert "--traces" not in page("cli.md")
    assert "--traces" not in page("settings.md")


@pytest.mark.parametrize("event", EVENTS, ids=lambda each: each.name)
def test_an_event_is_documented(event: Any) -> None:
    text = page("events.md")
    assert f"## `{event.name}`" in text
    assert all(f"| `{field}` |" in text for field in event.field_meanings())


@pytest.mark.parametrize("code", ALL_CODES.values(), ids=lambda each: each.id)
def test_a_diagnostic_is_documented(code: Any) -> None:
    text = page("diagnostics.md")
    section = text.partition(f"\n## {code.id}\n")[2].partition("\n## ")[0]
    assert code.advice in section
    assert f"{code.severity.value}[{code.id}]: " in section


def test_the_code_of_every_rule_is_in_the_table() -> None:
    assert {code.id for rule in RULES for code in rule.codes} <= set(ALL_CODES)


COMMANDS = list(commands())


@pytest.mark.parametrize(("path", "command", "context"), COMMANDS, ids=[e[0] for e in COMMANDS])
def test_a_command_is_documented(path: str, command: Any, context: Any) -> None:
    text = page("cli.md")
    section = text.partition(f"\n## `{path}`\n")[2].partition("\n## ")[0]
    spellings = [each for param in command.get_params(context) for each in param.opts]
    options = [each for each in spellings if each.startswith("-")]
    assert options, "every command has at least --help"
    assert [each for each in options if not re.search(rf"`{each}[ `]", section)] == []
    assert [each for each in EXIT_CODES[path] if f"| {each} |" not in section] == []


def test_no_command_is_documented_that_does_not_exist() -> None:
    assert set(EXIT_CODES) == {path for path, _, _ in COMMANDS}


# The language


def keywords() -> list[str]:
    grammar = (ROOT / "src" / "afl" / "lang" / "grammar.lark").read_text(encoding="utf-8")
    words = set(re.findall(r'"([A-Za-z]+)"', grammar.partition("\nprogram:")[2]))
    return sorted(words - {"text"})


@pytest.mark.parametrize("word", keywords())
def test_a_keyword_is_explained(word: str) -> None:
    assert re.search(rf"`[^`]*\b{word}\b[^`]*`", prose(REFERENCE / "language.md"))


def test_builtin_types_and_prelude_are_explained() -> None:
    text = page("language.md")
    built_in = [
        f"{namespace.name}.{each.name}"
        for namespace in prelude().namespaces
        for each in namespace.callables
    ]
    assert built_in, "there is a prelude"
    assert [each for each in (*BUILTINS, *built_in) if f"`{each}" not in text] == []


def test_every_warning_is_listed_as_one() -> None:
    text = page("language.md")
    warnings = [each.id for each in ALL_CODES.values() if each.severity.value == "warning"]
    listed = text.partition("\n## Errors and warnings\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"AFL\d{3}", listed)) == set(warnings)


def is_escape(char: str) -> bool:
    unknown: list[str] = []

    def report(code: Code, _message: str, _offset: int) -> None:
        unknown.append(code.id)

    strings.decode(f'"\\{char}00000000"', report)
    return UNKNOWN_ESCAPE.id not in unknown


def test_the_escapes_of_strings_are_listed() -> None:
    text = page("language.md").partition("\n### Strings\n")[2].partition("\n### ")[0]
    letters = {chr(each) for each in range(ord("!"), ord("~") + 1) if is_escape(chr(each))}
    assert set(re.findall(r"`\\(.)X*`", text)) == letters


# Compiled JSON

_UNTAGGED = {
    "params": "Parameter",
    "returns": "Parameter",
    "fields": "SchemaField",
    "args": "NamedArg",
    "entries": "MapEntry",
    "doc": "Doc",
    "location": "Location",
    "provenance": "Provenance",
}


def nodes(value: Any, key: str = "") -> Iterator[tuple[str, set[str]]]:
    """Every object of compiled JSON with the name of its kind."""
    if isinstance(value, list):
        for each in value:
            yield from nodes(each, key)
    elif isinstance(value, dict):
        kind = _UNTAGGED.get(key) or value["type"]
        yield kind, set(value)
        for inner, each in value.items():
            is_doc_entry = kind == "Doc" and isinstance(each, list)
            if is_doc_entry:
                yield from (("DocEntry", set(entry)) for entry in each)
            else:
                yield from nodes(each, inner)


def emitted_fields() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in sorted(GOLDEN.glob("*.afl")):
        source = SourceEntry(path.read_text(encoding="utf-8"), FileOrigin(path.name))
        tree, registry = AFLParser().parse_sources(CompilerInput([source]))
        emitter = JSONEmitter(include_provenance=True, source_registry=registry)
        for kind, fields in nodes(emitter.emit_dict(tree)):
            found.setdefault(kind, set()).update(fields)
    return found


def documented_fields() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for section in page("compiled-json.md").split("\n### ")[1:]:
        title, _, rest = section.partition("\n")
        fields = re.findall(r"^\| `(\w+)`", rest.partition("\n## ")[0], re.MULTILINE)
        for kind in re.findall(r"`(\w+)`", title):
            found[kind] = set(fields)
    return found


def test_every_field_of_compiled_json_is_documented() -> None:
    documented = documented_fields()
    missing = {
        kind: fields - documented.get(kind, set())
        for kind, fields in emitted_fields().items()
        if fields - documented.get(kind, set())
    }
    assert missing == {}


def test_no_kind_of_node_is_documented_that_is_never_written() -> None:
    assert set(documented_fields()) == set(emitted_fields())


# The Python API


def test_every_public_name_is_documented() -> None:
    words = code_words(page("python-api.md"))
    documented = {each.partition("(")[0] for each in words}
    assert sorted(set(afl.__all__) - documented) == []


def ground_names(module: ModuleType) -> list[str]:
    """The classes, functions and constants that a module itself makes."""
    constants = re.findall(r"^([A-Z][A-Z_]*)(?::.*)? = ", inspect.getsource(module), re.MULTILINE)
    own = [
        name
        for name, value in vars(module).items()
        if getattr(value, "__module__", None) == module.__name__ and not name.startswith("_")
    ]
    return [*own, *constants]


@pytest.mark.parametrize("name", GROUND)
def test_every_public_name_of_a_ground_module_is_documented(name: str) -> None:
    module = import_module(f"afl.{name}")
    section = page("python-api.md").partition(f"\n## `afl.{name}`\n")[2].partition("\n## ")[0]
    documented = {re.split(r"[(.]", each)[0] for each in code_words(section)}
    assert sorted(set(ground_names(module)) - documented) == []


def documented_signatures() -> list[Any]:
    found = []
    for section in page("python-api.md").split("\n## `")[1:]:
        module = section.partition("`")[0]
        for call in re.findall(r"^\| `([\w.]+\([^`]*\))`", section, re.MULTILINE):
            found.append(pytest.param(module, call, id=f"{module}.{call}"))
    return found


@pytest.mark.parametrize(("module", "call"), documented_signatures())
def test_a_documented_signature_is_the_real_one(module: str, call: str) -> None:
    path, _, rest = call.partition("(")
    value: Any = import_module(module)
    for part in path.split("."):
        value = getattr(value, part)
    written = [each.strip() for each in rest.removesuffix(")").split(",")]
    names = [re.split(r"[=:]", each)[0].lstrip("*").strip() for each in written]
    real = [each for each in inspect.signature(value).parameters if each not in ("self", "cls")]
    if isinstance(value, type) and issubclass(value, ast.ASTNode):
        real.remove("location")
    assert [each for each in names if each] == real


def test_pages_of_the_reference_have_headings() -> None:
    assert all(anchors(each) for each in REFERENCE.glob("*.md"))
