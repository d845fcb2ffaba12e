"""The laboratory for turns: that of the engine, with other jobs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.engine import lab
from tests.engine.jobs import JOBS as ALL_JOBS
from tests.turns.jobs import JOBS

_ROOT = Path(__file__).parents[2]
KILLED = lab.KILLED


class TurnLab(lab.Lab):
    def __init__(self) -> None:
        command = [sys.executable, "-W", "ignore", "-m", "tests.turns.lab"]
        self._server = subprocess.Popen(
            command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )


def main() -> None:
    ALL_JOBS.update(JOBS)
    lab._Server().serve()


if __name__ == "__main__":
    main()
