"""The example deploys over ten turns in flight, and its receipt is good."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from tests.deploys.fleet import ROOT

EXAMPLE = ROOT / "examples" / "support-agent"


def rows_of(text: str) -> dict[str, float]:
    found = re.findall(r"^([a-z ]+?) {2,}([\d.]+)$", text, re.MULTILINE)
    return {name: float(number) for name, number in found}


@pytest.mark.timeout(180)
def test_the_example_loses_nothing_and_does_nothing_twice() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE / "deploy.py")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = rows_of(done.stdout)
    assert rows["turns"] == 10
    assert rows["finished before"] + rows["resumed"] == 10
    assert rows["handed over"] >= 1
    for each in ("lost", "doubled", "stream gaps", "answers paid twice", "exit code"):
        assert rows[each] == 0, done.stdout
    # The README shows what it prints.
    assert rows.keys() == rows_of((EXAMPLE / "README.md").read_text()).keys()
