"""Commands in folders of their own, without settings of whoever runs the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.acceptance.conftest import Command


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(tmp_path, patience_s=50)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [each for each in os.environ if each.startswith("AFL_")]:
        monkeypatch.delenv(name)
