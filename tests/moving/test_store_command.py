"""`afl store copy` as people use it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress

import pytest
from tests.moving.conftest import NewPlace
from tests.moving.warehouse import fill, fill_messages

from afl.cli import main

_PATIENCE_S = 50


@pytest.fixture
def pair(new_place: NewPlace) -> tuple[str, str]:
    here, there = new_place("sqlite"), new_place("sqlite")
    fill(here)
    return here, there


def test_the_report_counts_each_kind(
    pair: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["store", "copy", *pair]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["kind", "records", "written", "now"]
    assert ["run", "5", "5"] in [each.split() for each in lines]


def test_the_report_for_programs_has_digests(
    pair: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["store", "copy", *pair, "--json"]) == 0
    parts = {each["kind"]: each for each in json.loads(capsys.readouterr().out)["parts"]}
    step = parts["step"]
    assert (step["records"], step["written"], step["left"]) == (22, 22, 0)
    assert len(step["digest"]) == 64


def test_what_stays_behind_is_a_warning(
    new_place: NewPlace, capsys: pytest.CaptureFixture[str]
) -> None:
    here = new_place("sqlite")
    fill_messages(here)
    assert main(["store", "copy", here, new_place("mongo")]) == 0
    assert "warning: 2 messages stayed at the source" in capsys.readouterr().err


def test_a_source_that_is_not_there_is_not_made(
    new_place: NewPlace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["store", "copy", new_place("sqlite"), new_place("sqlite")]) == 2
    assert "there is no database" in capsys.readouterr().err


def test_a_terminal_shows_how_far_it_is(pair: tuple[str, str]) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "afl", "store", "copy", *pair]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        # The end of the other side is an error here.
        with suppress(OSError):
            while some := os.read(ours, 65536):
                shown += some
        os.close(ours)
        assert process.wait(_PATIENCE_S) == 0
    assert "━".encode() in shown
    assert b"tasks" in shown
