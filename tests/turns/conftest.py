"""Processes that the tests of turns share."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contracts.remote_turns import SERVERS, emptied
from tests.engine.profile import IS_STORM
from tests.loops.conftest import events, memory_office, office, sqlite_office  # noqa: F401
from tests.loops.office import Office
from tests.turns.lab import TurnLab
from tests.turns.world import WorldProcess

from afl.turns import TurnStore, open_turns


@pytest.fixture(scope="module")
def lab() -> Iterator[TurnLab]:
    lab = TurnLab()
    with lab:
        yield lab


@pytest.fixture(scope="module")
def model_port() -> Iterator[int]:
    with WorldProcess("model") as process:
        yield process.port


@pytest.fixture(scope="module")
def tools_port() -> Iterator[int]:
    with WorldProcess("tools") as process:
        yield process.port


@pytest.fixture(params=["beside", *SERVERS] if IS_STORM else ["beside"])
def turns(office: Office, request: pytest.FixtureRequest) -> Iterator[TurnStore]:  # noqa: F811
    """At the same place as the mailboxes, or on a server."""
    is_memory = office.url.startswith("memory:")
    url = "memory:" if is_memory else office.url
    store = open_turns(emptied(request) if request.param in SERVERS else url)
    yield store
    store.close()


@pytest.fixture
def folder() -> Iterator[Path]:
    # Short enough for sockets beside a file, which pytest's own folders are not.
    folder = Path(tempfile.mkdtemp(prefix="afl-"))
    yield folder
    # A mailbox whose last message was dropped may be letting go of the file just now.
    shutil.rmtree(folder, ignore_errors=True)
