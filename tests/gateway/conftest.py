"""Servers for the tests of the gateway."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.gateway.scene import LOOPS, TOKENS, Scene, running

from afl.gateway import Limits, TurnApi
from afl.turns import open_turns


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    """One for all tests of a module: their turns do not meet."""
    with closing(open_turns("memory:")) as store:
        # Who looks only now and then would never be in time.
        limits = Limits(keep_alive_seconds=3600)
        api = TurnApi(store, loops=LOOPS, tokens=list(TOKENS.values()), limits=limits)
        with running(api), closing(Scene(api, store)) as scene:
            yield scene


@pytest.fixture
def folder() -> Iterator[Path]:
    # Short enough for sockets beside a file, which pytest's own folders are not.
    folder = Path(tempfile.mkdtemp(prefix="afl-"))
    yield folder
    # A mailbox whose last message was dropped may be letting go of the file just now.
    shutil.rmtree(folder, ignore_errors=True)
