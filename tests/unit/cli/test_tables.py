"""Tables for people, on a terminal that is too narrow for them."""

from __future__ import annotations

import sys

import pytest

from afl.cli.tables import show_table
from afl.ids import new_id, short_id


def test_ids_stay_whole_and_sentences_are_folded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    rows = [[short_id(new_id()), short_id(new_id()), "it is broken in many ways"] for _ in range(3)]
    show_table(("task", "run", "error"), rows, "nothing")
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines()[1:])) <= 40, "below the headings"
    for task, run, error in rows:
        assert task in printed
        assert run in printed
        assert error not in printed
