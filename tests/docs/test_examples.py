"""The examples of the documentation are true: programs compile, code runs, commands print."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
from tests.docs.pages import ROOT, Block, blocks, blocks_of, name_of, pages, read

from afl.cli import main
from afl.lang.compiler import Compilation, compile_input
from afl.lang.diagnostics import render
from afl.lang.parser import parse_text
from afl.lang.sources import CompilerInput, SourceEntry, TextOrigin, declared_namespaces

AFL_TAGS = {"wrong", "warning", "fragment"}


def with_places(found: Sequence[Block]) -> list[Any]:
    return [pytest.param(each, id=each.place) for each in found]


class PageLibrary:
    """The files that a page shows, as a library for each other."""

    def __init__(self, block: Block) -> None:
        self._files = [
            each for each in blocks_of(block.page) if each.language == "afl" and each.file
        ]

    def find_namespace(self, name: str) -> Sequence[SourceEntry]:
        fitting = [each for each in self._files if name in declared_namespaces(each.text)]
        return [entry_of(fitting[-1], is_library=True)] if fitting else []


def entry_of(block: Block, is_library: bool = False) -> SourceEntry:
    return SourceEntry(block.text, TextOrigin(block.place), is_library)


def compiled(block: Block) -> Compilation:
    return compile_input(CompilerInput([entry_of(block)]), [PageLibrary(block)])


def problems(result: Compilation) -> str:
    return "\n".join(render(each, result.registry.texts()) for each in result.diagnostics)


@pytest.mark.parametrize("block", with_places(blocks("afl")))
def test_an_afl_example_is_what_its_tags_say(block: Block) -> None:
    tags = {each for each in block.tags[1:] if not each.startswith("file=")}
    assert tags <= AFL_TAGS, f"unknown tags: {tags - AFL_TAGS}"
    if "fragment" in tags:
        wrapped = f"workflow Example() andThen {{\n{block.text}\n}}"
        assert parse_text(wrapped).problems == []
        return
    result = compiled(block)
    if "wrong" in tags:
        assert result.errors, "this example is meant to be wrong, but compiles"
    elif "warning" in tags:
        assert result.program is not None, problems(result)
        assert result.warnings, "this example is meant to have warnings"
    else:
        assert result.diagnostics == [], problems(result)


@pytest.mark.parametrize("block", with_places(blocks("python")))
def test_a_python_example_is_python(block: Block) -> None:
    compile(block.text, block.place, "exec")


def test_no_example_names_something_by_the_beginning_of_an_id() -> None:
    """What happens together begins alike: two things would have one name."""
    texts = {each.place: each.text for each in blocks("python")}
    texts |= {name_of(each): read(each) for each in sorted((ROOT / "examples").rglob("*.py"))}
    pieces = re.compile(r"\b\w*(?:_key|_id|\bid|new_id\(\))\[:")
    assert [place for place, text in texts.items() if pieces.search(text)] == []


def test_the_readme_says_how_to_get_the_command_before_it_is_used() -> None:
    lines = [
        line
        for block in blocks_of(ROOT / "README.md")
        if block.language == "console"
        for line in block.text.splitlines()
    ]
    first = next(each for each, line in enumerate(lines) if line.startswith("$ afl "))
    assert "$ . .venv/bin/activate" in lines[:first]


READERS: dict[str, Callable[[str], object]] = {"json": json.loads, "toml": tomllib.loads}


@pytest.mark.parametrize("block", with_places(blocks(*READERS)))
def test_an_example_of_data_can_be_read(block: Block) -> None:
    READERS[block.language](block.text)


RUNNING_PAGES = [
    pytest.param(page, id=name_of(page))
    for page in pages()
    if any("run" in each.tags for each in blocks_of(page))
]


@pytest.mark.parametrize("page", RUNNING_PAGES)
def test_the_blocks_of_a_page_run_one_after_the_other(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [each for each in os.environ if each.startswith("AFL_")]:
        monkeypatch.delenv(name)
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks_of(page):
        if block.file is not None:
            Path(block.file).parent.mkdir(parents=True, exist_ok=True)
            Path(block.file).write_text(block.text, encoding="utf-8")
        if "run" not in block.tags:
            continue
        if block.language == "python":
            exec(compile(block.text, block.place, "exec"), names)
        else:
            run_console(block)


def run_console(block: Block) -> None:
    """Give each `$` line to the command, and compare what it prints with the lines below it."""
    assert block.language == "console", f"{block.place}: only python and console can run"
    status = 0
    for command, expected in commands_of(block):
        if command == "echo $?":
            printed = f"{status}\n"
        else:
            status, printed = run_command(command)
        assert re.fullmatch(pattern_of(expected), printed), (
            f"{block.place}: $ {command}\nexpected:\n{expected}\nprinted:\n{printed}"
        )


def commands_of(block: Block) -> list[tuple[str, str]]:
    parts = re.split(r"^\$ (.*)\n", block.text, flags=re.MULTILINE)
    assert parts[0] == "", f"{block.place}: a console block begins with a command"
    return list(zip(parts[1::2], parts[2::2], strict=True))


def run_command(command: str) -> tuple[int, str]:
    name, *arguments = command.split()
    if name == "cat":
        return 0, "".join(Path(each).read_text(encoding="utf-8") for each in arguments)
    assert name == "afl", f"this test cannot run: {command}"
    # As a real stream: commands write text and bytes to it.
    output = TextIOWrapper(BytesIO(), encoding="utf-8", newline="", write_through=True)
    with redirect_stdout(output), redirect_stderr(output):
        status = main(arguments)
    output.seek(0)
    return status, output.read()


def pattern_of(expected: str) -> str:
    """The expected text as a pattern: a line `…` stands for any lines."""
    lines = expected.splitlines(keepends=True)
    return "".join("(?:.*\n)*?" if each == "…\n" else re.escape(each) for each in lines)
