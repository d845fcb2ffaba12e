"""Decisions are short, numbered without gaps, and have the same parts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.docs.pages import DOCS, read

FOLDER = DOCS / "decisions"
DECISIONS = sorted(FOLDER.glob("[0-9]*.md"))
PARTS = ["Context", "Options", "Choice", "Consequence"]


@pytest.mark.parametrize("page", [pytest.param(each, id=each.stem) for each in DECISIONS])
def test_a_decision_is_one_short_page_with_the_usual_parts(page: Path) -> None:
    text = read(page)
    assert len(text.splitlines()) <= 60
    assert text.startswith(f"# {page.stem[:4]} ")
    assert re.search(r"^Date: \d{4}-\d{2}-\d{2}$", text, re.MULTILINE)
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == PARTS


def test_decisions_are_numbered_without_gaps_and_listed() -> None:
    assert [each.name[:4] for each in DECISIONS] == [
        f"{n:04}" for n in range(1, len(DECISIONS) + 1)
    ]
    listing = read(FOLDER / "README.md")
    assert [each.name for each in DECISIONS if each.name not in listing] == []
