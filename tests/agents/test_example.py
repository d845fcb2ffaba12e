"""The example of a workflow that Claude does runs without network."""

from __future__ import annotations

import subprocess
import sys

from tests.docs.pages import ROOT


def test_the_example_answers_a_letter() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "claude" / "answer.py"],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    text, *usage = done.stdout.splitlines()
    assert text == "We are sorry for the wait. Order A-17 left our house today."
    assert [each.partition(": ")[2] for each in usage] == [
        "2 calls, 700 tokens in, 64 out",
        "1 call, 280 tokens in, 25 out",
    ]
