"""The `afl` command as people run it: a process of its own, in a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

import afl


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Command:
    """Runs `afl` in `folder`, with no settings but those given."""

    folder: Path
    #: Longer than any command takes, on a busy machine too.
    patience_s: float = 30.0

    def __call__(
        self, *args: str, stdin: str | bytes = b"", environ: Mapping[str, str] | None = None
    ) -> Outcome:
        result = subprocess.run(
            self.line(*args),
            cwd=self.folder,
            env=self.environ(environ or {}),
            input=stdin.encode("utf-8") if isinstance(stdin, str) else stdin,
            capture_output=True,
            timeout=self.patience_s,
            check=False,
        )
        outcome = Outcome(result.returncode, result.stdout.decode(), result.stderr.decode())
        # Whatever goes wrong, people read sentences.
        assert "Traceback" not in outcome.err, outcome.err
        return outcome

    def line(self, *args: str) -> list[str]:
        return [sys.executable, "-m", "afl", *args]

    def environ(self, more: Mapping[str, str]) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("AFL_")}
        # Found also where the package is not installed but on the path of the tests.
        kept["PYTHONPATH"] = str(Path(afl.__file__).parents[1])
        return {**kept, **more}

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8") if isinstance(text, str) else text)
        return path


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(tmp_path)


@pytest.fixture
def here(tmp_path: Path) -> Command:
    """In the same folder, without a process of its own."""
    from tests.acceptance.in_process import CommandHere

    return CommandHere(tmp_path)
