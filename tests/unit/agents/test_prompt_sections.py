"""Prompts and their sections: text, tools, and what is opened for a turn."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from afl.agents.prompt import Prompt
from afl.agents.sections import MarkdownSection, ResourceSection, ToolsSection
from afl.errors import UsageError


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_sections_are_rendered_one_after_the_other() -> None:
    prompt: Prompt[str] = Prompt(
        "You sell hats.", MarkdownSection("Stock", "Three hats."), MarkdownSection("Empty", "")
    )
    assert prompt.render() == "You sell hats.\n\n## Stock\n\nThree hats.\n\n## Empty"


def test_tools_of_all_sections_are_found_by_name() -> None:
    def count() -> int:
        return 3

    prompt: Prompt[str] = Prompt(
        MarkdownSection("Stock", "Three hats.", tools=[count]), ToolsSection(add)
    )
    assert list(prompt.tools()) == ["count", "add"]
    assert prompt.tools()["add"].call({"a": 1, "b": 2}) == 3
    assert prompt.tools()["add"].spec.description == "Add two numbers."
    assert prompt.render() == "## Stock\n\nThree hats."


def test_two_tools_of_the_same_name_are_refused() -> None:
    prompt: Prompt[str] = Prompt(ToolsSection(add), ToolsSection(add), name="sums")
    with pytest.raises(UsageError, match="two tools of the prompt sums are called add"):
        prompt.tools()


def test_a_resource_is_opened_when_it_is_needed_and_closed_once() -> None:
    steps: list[str] = []

    @contextmanager
    def connection() -> Any:
        steps.append("open")
        yield "line 1"
        steps.append("close")

    section = ResourceSection("Phone", connection(), text=lambda line: f"Call on {line}.")
    prompt: Prompt[str] = Prompt(section)
    assert steps == []
    assert prompt.render() == prompt.render() == "## Phone\n\nCall on line 1."
    assert section.value == "line 1"
    prompt.cleanup()
    prompt.cleanup()
    assert steps == ["open", "close"]


def test_a_resource_that_nobody_needed_is_never_opened() -> None:
    @contextmanager
    def connection() -> Any:
        raise AssertionError("it was opened")
        yield

    prompt: Prompt[str] = Prompt(ResourceSection("Phone", connection()))
    assert prompt.artifacts() == {}
    prompt.cleanup()


def test_tools_of_a_resource_use_it_and_what_they_made_is_kept() -> None:
    def tools(folder: str) -> list[Any]:
        def write(name: str, text: str) -> None:
            """Write a file."""
            (Path(folder) / name).write_text(text)

        return [write]

    def artifacts(folder: str) -> dict[str, bytes]:
        return {each.name: each.read_bytes() for each in Path(folder).iterdir()}

    folder = tempfile.TemporaryDirectory()
    prompt: Prompt[str] = Prompt(
        "Write.", ResourceSection("Folder", folder, tools=tools, artifacts=artifacts)
    )
    prompt.tools()["write"].call({"name": "a.txt", "text": "hi"})
    assert prompt.artifacts() == {"1/a.txt": b"hi"}
    prompt.cleanup()
    assert not Path(folder.name).exists()


def test_all_sections_are_cleaned_up_last_one_first_also_if_one_fails() -> None:
    cleaned: list[str] = []

    class Cleaning(MarkdownSection):
        def cleanup(self) -> None:
            cleaned.append(self.title)
            if self.title == "second":
                raise OSError("busy")

    prompt: Prompt[str] = Prompt(*(Cleaning(each, "") for each in ("first", "second", "third")))
    prompt.cleanup()
    assert cleaned == ["third", "second", "first"]
