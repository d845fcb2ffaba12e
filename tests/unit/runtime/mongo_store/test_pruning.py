"""Old runs that cannot be removed: an outage, or something that is wrong with one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from afl.db.mongo import Document, Transaction
from afl.errors import StoreMisused
from afl.runtime.mongo_store import MongoStore, pruning
from afl.testing.contracts.store.exam import new_run

NAMES = ["a", "b", "c", "d", "e"]


@pytest.fixture
def ended(store: MongoStore) -> MongoStore:
    """With runs that ended one after the other."""
    now = store.now_ms()
    for at, name in enumerate(NAMES):
        store.save_runner(new_run(name, state="completed", end_time=now - 5000 + at))
    return store


def refusing(monkeypatch: pytest.MonkeyPatch, names: Sequence[str]) -> list[str]:
    """Those that were tried, of which these cannot be removed."""
    tried: list[str] = []
    begin = pruning.begin

    def refuse(tx: Transaction, run: Document) -> Any:
        tried.append(run["_id"])
        if run["_id"] in names:
            raise StoreMisused(f"{run['_id']} cannot be removed")
        return begin(tx, run)

    monkeypatch.setattr(pruning, "begin", refuse)
    return tried


def left(store: MongoStore) -> list[str]:
    return sorted(each.uuid for each in store.get_all_runners())


def test_a_run_that_cannot_be_removed_does_not_keep_the_others(
    ended: MongoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing(monkeypatch, ["a", "b", "d"])
    with pytest.raises(StoreMisused, match="a cannot be removed"):
        ended.prune_runs(0)
    assert left(ended) == ["a", "b", "d"]


def test_if_nothing_can_be_removed_not_all_are_tried(
    ended: MongoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would be waited for, while a server cannot be reached."""
    tried = refusing(monkeypatch, NAMES)
    with pytest.raises(StoreMisused):
        ended.prune_runs(0)
    assert tried == ["a", "b", "c"]
    assert left(ended) == NAMES
