"""The store on MongoDB keeps every promise of the port."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.contracts.mongo_stores import mongo_store
from tests.contracts.test_store import METHODS, parameters

from afl.clock import FakeClock
from afl.runtime.persistence import PersistenceAPI
from afl.testing.contracts.store import StoreContract


class TestMongoStore(StoreContract):
    @pytest.fixture
    def store(self, mongo_url: str, clock: FakeClock) -> Iterator[PersistenceAPI]:
        with mongo_store(mongo_url, clock) as made:
            yield made

    def test_a_store_has_all_parts_of_the_port(self, store: PersistenceAPI) -> None:
        assert isinstance(store, PersistenceAPI)

    @pytest.mark.parametrize("name", METHODS)
    def test_a_method_takes_what_the_port_says(self, store: PersistenceAPI, name: str) -> None:
        assert parameters(type(store), name) == parameters(PersistenceAPI, name)
