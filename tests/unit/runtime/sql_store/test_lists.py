"""A page of tasks looks at a number of tasks and no more, and says where to go on."""

from __future__ import annotations

import pytest

from afl.runtime.entities import TaskState
from afl.runtime.listing import LOOKED_AT, TaskQuery
from afl.runtime.sql_store import SqliteStore, lists
from afl.testing.contracts.store.exam import add_tasks, new_task


@pytest.fixture(autouse=True)
def looks_at_five(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "LOOKED_AT", 5)
    for name in ("LOOK_AT_NEWEST", "LOOK_AT_STOPPED"):
        sql: str = getattr(lists, name)
        monkeypatch.setattr(lists, name, sql.replace(f"LIMIT {LOOKED_AT}", "LIMIT 5"))


def pages(store: SqliteStore, query: TaskQuery) -> list[list[str]]:
    page = store.list_tasks(query, 2)
    found = [[each.uuid for each in page.items]]
    while page.has_more:
        page = store.list_tasks(query, 2, page.cursor)
        found.append([each.uuid for each in page.items])
    return found


@pytest.mark.parametrize("state", [None, TaskState.FAILED, TaskState.COMPLETED])
def test_pages_of_what_is_rare_are_short_and_lose_nothing(
    store: SqliteStore, state: TaskState | None
) -> None:
    rare = {3, 12, 13, 14, 15}
    add_tasks(
        store,
        *(
            new_task("a.Rare" if n in rare else "a.F", uuid=str(n), state=state or TaskState.FAILED)
            for n in range(18)
        ),
    )
    found = pages(store, TaskQuery(state, "Rare"))
    assert found == [["15", "14"], ["13", "12"], [], ["3"]]


def test_a_list_without_conditions_has_full_pages(store: SqliteStore) -> None:
    add_tasks(store, *(new_task(uuid=str(n), state=TaskState.FAILED) for n in range(7)))
    whole = [["6", "5"], ["4", "3"], ["2", "1"], ["0"]]
    assert pages(store, TaskQuery(TaskState.FAILED)) == whole
    assert pages(store, TaskQuery()) == whole
