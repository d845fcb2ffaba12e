"""Boxes under a machine of receivers and operators."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from afl.clock import FakeClock
from afl.mailbox.box import Box
from afl.mailbox.memory_box import MemoryBox
from afl.mailbox.memory_queue import MemoryQueue
from afl.testing.mailbox_machine import MailboxMachine

IS_STORM = os.environ.get("AFL_TEST_PROFILE") == "storm"


class MemoryMachine(MailboxMachine):
    queue: MemoryQueue[bytes] | None = None

    def open_box(self, clock: FakeClock) -> Box[bytes]:
        self.queue = self.queue or MemoryQueue(clock)
        return MemoryBox("requests", self.queue)


class SqliteMachine(MailboxMachine):
    folder: Path | None = None

    def open_box(self, clock: FakeClock) -> Box[bytes]:
        from afl.mailbox.sqlite import SqliteBox

        self.folder = self.folder or Path(tempfile.mkdtemp(prefix="afl-"))
        return SqliteBox(self.folder / "afl.db", "requests", clock=clock)

    def teardown(self) -> None:
        super().teardown()
        if self.folder is not None:
            # A mailbox whose last message was dropped may be letting go of the file just now.
            shutil.rmtree(self.folder, ignore_errors=True)


@pytest.mark.timeout(3600 if IS_STORM else 60)
@pytest.mark.parametrize(
    ("machine", "examples"),
    [(MemoryMachine, 10_000 if IS_STORM else 100), (SqliteMachine, 1000 if IS_STORM else 40)],
    ids=["memory", "sqlite"],
)
def test_a_box_keeps_up_with_the_model(machine: type[MailboxMachine], examples: int) -> None:
    search = settings(
        max_examples=examples,
        stateful_step_count=50,
        # The storm looks elsewhere each time.
        derandomize=not IS_STORM,
        database=None,
        deadline=None,
        # The shortest way to a mistake takes minutes to find: that is for the storm.
        phases=[Phase.generate, Phase.shrink] if IS_STORM else [Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=search)
