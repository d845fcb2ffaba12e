"""Every turn store keeps every promise of the port."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from afl.clock import FakeClock
from afl.testing.contracts.turns import Stores, TurnContract
from afl.turns.api import TurnStore
from afl.turns.memory import MemoryTurns


class TestInMemory(TurnContract):
    @pytest.fixture
    def stores(self, clock: FakeClock) -> Stores:
        # One process, one object: there is nobody else who could open it.
        store = MemoryTurns(clock=clock)
        return lambda: store


class TestSqlite(TurnContract):
    @pytest.fixture
    def stores(self, clock: FakeClock) -> Iterator[Stores]:
        from afl.turns.sqlite import SqliteTurns

        # Short enough for sockets beside a file, which pytest's own folders are not.
        folder = Path(tempfile.mkdtemp(prefix="afl-"))
        with ExitStack() as opened:

            def open_store() -> TurnStore:
                return opened.enter_context(closing(SqliteTurns(folder / "afl.db", clock=clock)))

            yield open_store
        shutil.rmtree(folder)
