"""Stores under a machine of workers and operators."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from afl.clock import FakeClock
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import PersistenceAPI
from afl.testing.store_machine import StoreMachine

IS_STORM = os.environ.get("AFL_TEST_PROFILE") == "storm"


class MemoryMachine(StoreMachine):
    def new_store(self, clock: FakeClock) -> PersistenceAPI:
        return MemoryStore(clock)


class SqliteMachine(StoreMachine):
    def new_store(self, clock: FakeClock) -> PersistenceAPI:
        from afl.runtime.sql_store import SqliteStore

        self.folder = Path(tempfile.mkdtemp(prefix="afl-"))
        return SqliteStore(self.folder / "afl.db", clock=clock)

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)


def search(examples: int) -> settings:
    return settings(
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


@pytest.mark.timeout(3600 if IS_STORM else 60)
@pytest.mark.parametrize(
    ("machine", "examples"),
    [(MemoryMachine, 10_000 if IS_STORM else 100), (SqliteMachine, 2000 if IS_STORM else 40)],
    ids=["memory", "sqlite"],
)
def test_a_store_keeps_up_with_the_model(machine: type[StoreMachine], examples: int) -> None:
    run_state_machine_as_test(machine, settings=search(examples))
