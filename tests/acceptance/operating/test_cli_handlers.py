"""`afl handlers`: where handlers are, and whether they load."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.acceptance.in_process import afl, afl_json
from tests.acceptance.operating.desk import lines


def test_a_handler_is_added_shown_disabled_and_removed(folder: Path) -> None:
    (folder / "mine.py").write_text("def work(payload): return {}\n")
    added = afl_json(
        *("handlers", "add", "t.Work", "mine", "--entrypoint", "work", "--checksum", "auto"),
        *("--timeout", "2m", "--isolation", "process", "--on-lost", "unknown", "--version", "2"),
        *("--retry-max", "3", "--retry-backoff", "5s", "--metadata", '{"region": "eu"}'),
    )
    assert added["checksum"].startswith("sha256:")
    wanted = {
        "facet": "t.Work",
        "module_uri": "mine",
        "entrypoint": "work",
        "timeout_ms": 120_000,
        "isolation": "process",
        "on_lost": "unknown",
        "version": "2",
        "is_enabled": True,
        "metadata": {"region": "eu", "retry": {"max": 3, "backoff": "5s"}},
    }
    assert {key: added[key] for key in wanted} == wanted
    assert afl_json("handlers", "show", "t.Work") == added
    assert afl_json("handlers", "list") == [added]
    assert afl("handlers", "disable", "t.Work").out == "The handler of t.Work is disabled.\n"
    assert lines("handlers", "list")[1] == ["t.Work", "mine", "work", "2", "disabled"]
    assert afl_json("handlers", "enable", "t.Work")["is_enabled"] is True
    assert "\ntimeout       2m\n" in afl("handlers", "show", "t.Work").out
    assert afl_json("handlers", "remove", "t.Work") == {"facet": "t.Work", "removed": True}
    assert afl("handlers", "list").out == "No handlers are registered.\n"


def test_handlers_are_verified_here(folder: Path) -> None:
    (folder / "mine.py").write_text("def handle(payload): return {}\n")
    afl("handlers", "add", "t.Work", "mine")
    done = afl("handlers", "verify")
    assert (done.code, done.out) == (0, "OK: t.Work: mine, handle\n1 handler, 0 wrong\n")
    afl("handlers", "add", "t.Other", "mine", "--entrypoint", "other")
    done = afl("handlers", "verify", "--json")
    assert done.code == 1
    verdicts = json.loads(done.out)
    assert [(each["facet"], each["ok"]) for each in verdicts] == [
        ("t.Other", False),
        ("t.Work", True),
    ]
    assert "it has no 'other'" in verdicts[0]["problem"]
    assert afl("handlers", "verify", "t.Work").code == 0
    assert "mine" not in sys.modules


def test_handlers_may_be_in_the_folders_of_the_settings(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "far.py").write_text("def handle(payload): return {}\n")
    afl("handlers", "add", "t.Work", str(elsewhere / "far.py"))
    refused = afl("handlers", "verify")
    assert refused.code == 1
    assert "outside of the places" in refused.out
    monkeypatch.setenv("AFL_HANDLER_PATHS", str(elsewhere))
    assert afl("handlers", "verify").code == 0
