"""The law of the writer: whatever is batched, the result is that of one request after another."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from afl.db.sqlite import Database, Transaction
from afl.errors import Conflict

KEYS = st.integers(0, 4)
ACTIONS = st.tuples(st.sampled_from(["add", "put", "drop", "grow"]), KEYS, st.integers(0, 9))
#: The actions of a request, and whether it raises in the end.
REQUESTS = st.lists(st.tuples(st.lists(ACTIONS, max_size=3), st.booleans()), max_size=20)

SQL = {
    "add": "INSERT INTO pair VALUES (:key, :value)",
    "put": "INSERT OR REPLACE INTO pair VALUES (:key, :value)",
    "drop": "DELETE FROM pair WHERE key = :key",
    "grow": "UPDATE pair SET value = value + :value WHERE key = :key",
}

Action = tuple[str, int, int]
Model = dict[int, int]


class RefusedError(Exception):
    """What a request raises that is meant to."""


def as_request(actions: list[Action], raises: bool) -> Callable[[Transaction], list[int]]:
    def request(transaction: Transaction) -> list[int]:
        rows = [
            transaction.execute(SQL[verb], {"key": key, "value": value})
            for verb, key, value in actions
        ]
        if raises:
            raise RefusedError
        return rows

    return request


def apply(model: Model, actions: list[Action], raises: bool) -> tuple[Model, object]:
    """The model after a request, and what its caller gets."""
    changed = dict(model)
    rows = []
    for verb, key, value in actions:
        if verb == "add" and key in changed:
            return model, Conflict
        rows.append(int(verb in ("add", "put") or key in changed))
        if verb == "drop":
            changed.pop(key, None)
        elif verb == "grow" and key in changed:
            changed[key] += value
        elif verb in ("add", "put"):
            changed[key] = value
    return (model, RefusedError) if raises else (changed, rows)


def outcome(future: Future[list[int]]) -> object:
    error = future.exception(20)
    return future.result() if error is None else type(error)


# On a loaded machine drawing may take long, which is no defect.
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(requests=REQUESTS, batch_size=st.integers(1, 6))
def test_batches_equal_requests_one_after_another(
    requests: list[tuple[list[Action], bool]], batch_size: int
) -> None:
    model: Model = {}
    expected = []
    for actions, raises in requests:
        model, result = apply(model, actions, raises)
        expected.append(result)
    with (
        tempfile.TemporaryDirectory() as folder,
        Database(Path(folder, "afl.db"), batch_size=batch_size) as database,
    ):
        may_begin = threading.Event()
        database.write(
            lambda tx: tx.execute("CREATE TABLE pair (key INTEGER PRIMARY KEY, value INTEGER)")
        )
        held = database.submit(lambda _: may_begin.wait(20))
        futures = [database.submit(as_request(*each)) for each in requests]
        may_begin.set()
        assert held.result()
        assert [outcome(each) for each in futures] == expected
        assert dict(database.read(lambda r: r.query_all("SELECT key, value FROM pair"))) == model
