"""A folder with a program, and its store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.acceptance.operating.desk import PROGRAM

from afl import open_store
from afl.runtime.persistence import PersistenceAPI


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in [each for each in os.environ if each.startswith("AFL_")]:
        monkeypatch.delenv(name)
    (tmp_path / "program.afl").write_text(PROGRAM)
    return tmp_path


@pytest.fixture
def store(folder: Path) -> Iterator[PersistenceAPI]:
    with closing(open_store("sqlite:///./afl.db")) as store:
        yield store
