"""The example of a worker does what its page says, as processes of their own."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.pages import ROOT
from tests.workers.shop import PATIENCE_S

EXAMPLE = ROOT / "examples" / "worker"


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example, to leave a database in."""
    path = tmp_path_factory.mktemp("parcels")
    shutil.copytree(EXAMPLE, path, dirs_exist_ok=True)
    return path


@pytest.fixture
def worker(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(afl("worker", "--drain-deadline", "10s"), cwd=folder)
    yield process
    process.kill()
    process.wait()


def afl(*args: str) -> list[str]:
    return [sys.executable, "-m", "afl", *args, "--store", "sqlite:///./parcels.db"]


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_parcel_is_shipped_by_a_worker(folder: Path, worker: subprocess.Popen[bytes]) -> None:
    said = run(folder, sys.executable, "register.py", "sqlite:///./parcels.db")
    assert "parcels.PrintLabel: print_label of file://" in said
    request = ["--workflow", "Ship", "--input", "kilos=1.5", "--input", "country=Norway"]
    shown = run(folder, *afl("submit", "parcels.afl", *request, "--wait"))
    assert "letterbox to Norway" in shown
    assert "2.5" in shown
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(PATIENCE_S) == 0
