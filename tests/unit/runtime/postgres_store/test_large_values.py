"""A message to the server has at most 1 GB. Here the limits are small."""

from __future__ import annotations

from dataclasses import replace

import pytest

from afl.errors import Conflict, StoreMisused
from afl.runtime.persistence import IterationChanges
from afl.runtime.postgres_store import PostgresStore
from afl.testing.contracts.store.exam import add_tasks, new_task, read_task

NAMES = [f"task-{each}" for each in range(9)]


@pytest.fixture
def filled(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> PostgresStore:
    """With tasks that did not fit into one text."""
    monkeypatch.setattr("afl.db.postgres.statements.LONGEST", 2000)
    add_tasks(store, *(new_task(uuid=each, data={"text": each * 100}) for each in NAMES))
    return store


def test_what_does_not_fit_into_one_text_is_written_as_a_whole(filled: PostgresStore) -> None:
    assert [each.data for each in filled.get_pending_tasks("default")] == [
        {"text": each * 100} for each in NAMES
    ]
    error = {"message": "x" * 900}
    tasks = [replace(read_task(filled, each), error=error) for each in NAMES]
    filled.commit(IterationChanges(updated_tasks=tasks))
    assert [read_task(filled, each).error for each in NAMES] == [error] * len(NAMES)


@pytest.mark.parametrize("stale", [0, len(NAMES) - 1])
def test_one_that_was_written_since_refuses_all_of_them(filled: PostgresStore, stale: int) -> None:
    tasks = [replace(read_task(filled, each), error={"message": "x" * 900}) for each in NAMES]
    tasks[stale].version -= 1
    with pytest.raises(Conflict, match="written since it was read"):
        filled.commit(IterationChanges(updated_tasks=tasks))
    assert [read_task(filled, each).error for each in NAMES] == [None] * len(NAMES)


def test_a_value_that_is_too_large_is_refused_with_what_to_do(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the server would close the connection, as in an outage."""
    monkeypatch.setattr("afl.db.postgres.wire.LARGEST", 10_000)
    with pytest.raises(StoreMisused, match=r"larger than 1 GB.*keep large values elsewhere"):
        add_tasks(store, new_task(uuid="large", data={"text": "x" * 10_000}))
    add_tasks(store, new_task(uuid="small"))
    assert [each.uuid for each in store.get_all_tasks()] == ["small"]
