"""What commands print for programs is what its page says, key by key."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.in_process import afl_json
from tests.docs.pages import REFERENCE, read

from afl.operations.fleet import ServerView
from afl.operations.handlers import HandlerView, Verdict
from afl.operations.reading import LogLine, RunSummary, StepView
from afl.operations.tasks import QueueView, TaskView

RECORDS: dict[str, type[Any]] = {
    "`afl runs list`": RunSummary,
    "`afl runs logs`": LogLine,
    "`afl tasks list` and `afl tasks show`": TaskView,
    "`afl tasks queues`": QueueView,
    "`afl handlers list`, `show`, `add`, `enable` and `disable`": HandlerView,
    "`afl handlers verify`": Verdict,
    "`afl servers`": ServerView,
}


def keys(section: str) -> list[str]:
    return re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)


def section_of(title: str) -> str:
    page = read(REFERENCE / "json-output.md")
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("title", RECORDS)
def test_every_key_is_documented_in_its_order(title: str) -> None:
    assert keys(section_of(title)) == [each.name for each in fields(RECORDS[title])]


def test_every_key_of_a_step_is_documented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("program.afl").write_text("workflow W() => (n: Long) andThen { yield W(n = 1) }\n")
    run = afl_json("submit", "program.afl")["run"]
    shown = afl_json("runs", "show", run)["root"]
    _, _, steps = section_of("`afl runs show`").partition("\nA step:\n")
    assert keys(steps) == list(shown)
    assert {each.name for each in fields(StepView)} <= shown.keys()


def test_every_key_of_a_run_that_was_waited_for_is_documented(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("program.afl").write_text("workflow W() => (n: Long) andThen { yield W(n = 1) }\n")
    answer = afl_json("submit", "program.afl", "--wait")
    assert keys(section_of("`afl run` and `afl submit --wait`")) == list(answer)
