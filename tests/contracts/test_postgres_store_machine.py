"""The store on PostgreSQL under a machine of workers and operators."""

from __future__ import annotations

import pytest
from hypothesis.stateful import run_state_machine_as_test
from tests.contracts.postgres_stores import postgres_store
from tests.contracts.test_store_machine import IS_STORM, search

from afl.clock import FakeClock
from afl.runtime.persistence import PersistenceAPI
from afl.testing.store_machine import StoreMachine


@pytest.mark.timeout(3600 if IS_STORM else 60)
def test_the_store_on_postgresql_keeps_up_with_the_model(postgres_url: str) -> None:
    class PostgresMachine(StoreMachine):
        def new_store(self, clock: FakeClock) -> PersistenceAPI:
            return postgres_store(postgres_url, clock)

    run_state_machine_as_test(PostgresMachine, settings=search(1000 if IS_STORM else 15))
