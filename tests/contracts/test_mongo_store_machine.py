"""The store on MongoDB under a machine of workers and operators."""

from __future__ import annotations

import pytest
from hypothesis.stateful import run_state_machine_as_test
from tests.contracts.mongo_stores import mongo_store
from tests.contracts.test_store_machine import IS_STORM, search

from afl.clock import FakeClock
from afl.runtime.persistence import PersistenceAPI
from afl.testing.store_machine import StoreMachine


@pytest.mark.timeout(3600 if IS_STORM else 60)
def test_the_store_on_mongodb_keeps_up_with_the_model(mongo_url: str) -> None:
    class MongoMachine(StoreMachine):
        def new_store(self, clock: FakeClock) -> PersistenceAPI:
            return mongo_store(mongo_url, clock)

    run_state_machine_as_test(MongoMachine, settings=search(500 if IS_STORM else 6))
