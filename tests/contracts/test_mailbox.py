"""Every mailbox keeps every promise of the ports."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from afl.clock import FakeClock
from afl.mailbox.box import Box
from afl.mailbox.memory_box import MemoryBox
from afl.mailbox.memory_queue import MemoryQueue
from afl.testing.contracts.mailbox import Boxes, MailboxContract


class TestInMemory(MailboxContract):
    @pytest.fixture
    def boxes(self, clock: FakeClock) -> Boxes:
        queues: dict[str, MemoryQueue[bytes]] = {}

        def open_box(name: str) -> Box[bytes]:
            return MemoryBox(name, queues.setdefault(name, MemoryQueue(clock)))

        return open_box


class TestSqlite(MailboxContract):
    @pytest.fixture
    def boxes(self, clock: FakeClock) -> Iterator[Boxes]:
        from afl.mailbox.sqlite import SqliteBox

        # Short enough for sockets beside a file, which pytest's own folders are not.
        folder = Path(tempfile.mkdtemp(prefix="afl-"))
        with ExitStack() as opened:

            def open_box(name: str) -> Box[bytes]:
                box = SqliteBox(folder / "afl.db", name, clock=clock)
                return opened.enter_context(closing(box))

            yield open_box
        # A mailbox whose last message was dropped may be letting go of the file just now.
        shutil.rmtree(folder, ignore_errors=True)
