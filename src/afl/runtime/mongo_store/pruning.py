"""Removing runs that ended long ago, with all that belongs to them.

A run goes in one transaction, with all that belongs to it. A transaction has to fit into the
server's cache; so of a run that is too large the run itself goes first, which is noted, and what
is left of it follows in pieces without a transaction. Each pruning begins with what is noted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from afl.db.mongo import Document, Filter, Reader, Transaction
from afl.errors import StoreError
from afl.runtime.mongo_store import flows
from afl.runtime.mongo_store.holding import run_guard
from afl.runtime.mongo_store.schema import EVENTS, GUARDS, LOGS, REMOVALS, RUNS, STEPS, TASKS
from afl.runtime.mongo_store.times import Now
from afl.runtime.persistence import Pruned

_ENDED = {"state": {"$in": ["completed", "failed", "cancelled"]}}  # the words of the indexes
_FIELDS = {"end_time": 1, "seq": 1, "workflow_id": 1, "flow_id": 1, "version": 1}
#: So many documents of each kind go at once.
PIECE = 1_000
#: If so many fail one after the other, it is not because of them.
_MOST_FAILURES = 3


class Piece(NamedTuple):
    """What went at once."""

    steps: int
    tasks: int
    #: Whether nothing is left.
    is_last: bool


def noted(reader: Reader, limit: int) -> list[Document]:
    """Runs that are half removed."""
    return reader.all(REMOVALS, {}, sort=(("_id", 1),), limit=limit) if limit > 0 else []


def outlived(reader: Reader, keep_ms: int, limit: int, now: Now) -> list[Document]:
    """Runs whose time is over, those that ended first."""
    if limit <= 0:
        return []
    is_old = {"$lt": ["$end_time", now.after(-keep_ms)]}
    is_expired = {"$lt": ["$kept_until", now.ms]}
    found = [
        *_first(reader, {"retain": 0, "$expr": is_old}, "end_time", limit),
        *_first(reader, {"retain": {"$gt": 0}, "$expr": is_expired}, "kept_until", limit),
    ]
    return sorted(found, key=lambda run: (run["end_time"], run["seq"]))[:limit]


def _first(reader: Reader, where: dict[str, Any], field: str, limit: int) -> list[Document]:
    return reader.all(RUNS, {**_ENDED, **where}, sort=((field, 1),), fields=_FIELDS, limit=limit)


def begin(tx: Transaction, run: Document) -> Piece | None:
    """Remove a run, with all that belongs to it or with some of that; None if somebody has changed
    it since."""
    tx.write()
    is_noted = "version" not in run
    if not is_noted and not tx.remove(RUNS, {"_id": run["_id"], "version": run["version"]}):
        return None
    piece = remove_some(tx, run)
    if piece.is_last:
        end(tx, run)
    elif not is_noted:
        note = {each: run[each] for each in ("_id", "workflow_id", "flow_id")}
        tx.insert(REMOVALS, [note])
    return piece


def remove_some(reader: Reader, run: Document) -> Piece:
    of_run = {"workflow_id": run["workflow_id"]}
    steps = _some(reader, STEPS, of_run)
    # Tasks first: they are found by their steps, whose ids they have.
    tasks = _remove(reader, TASKS, steps)
    removed = _remove(reader, STEPS, steps)
    strays = _some(reader, TASKS, {**of_run, "is_stray": 1})
    events = _some(reader, EVENTS, of_run)
    logs = _some(reader, LOGS, {"runner_id": {"$in": [run["_id"], run["workflow_id"]]}})
    tasks += _remove(reader, TASKS, strays)
    _remove(reader, EVENTS, events)
    _remove(reader, LOGS, logs)
    is_last = all(len(each) < PIECE for each in (steps, strays, events, logs))
    return Piece(removed, tasks, is_last)


def _some(reader: Reader, name: str, where: Filter) -> list[Any]:
    return [each["_id"] for each in reader.all(name, where, fields={"_id": 1}, limit=PIECE)]


def _remove(reader: Reader, name: str, ids: list[Any]) -> int:
    return reader.remove(name, {"_id": {"$in": ids}}) if ids else 0


def end(tx: Transaction, run: Document) -> None:
    """Nothing is left of it."""
    tx.write()
    tx.remove(REMOVALS, {"_id": run["_id"]})
    tx.remove(GUARDS, {"_id": {"$in": [run_guard(run["_id"]), run_guard(run["workflow_id"])]}})
    flows.remove_unused(tx, run["flow_id"])


def each_apart(remove: Callable[[Document], Pruned], runs: Iterable[Document]) -> Pruned:
    """Remove these. One that cannot be removed does not keep the others; its error is raised when
    they are gone."""
    removed = [Pruned(0, 0, 0)]
    errors: list[StoreError] = []
    in_a_row = 0
    for run in runs:
        try:
            removed.append(remove(run))
            in_a_row = 0
        except StoreError as error:
            errors.append(error)
            in_a_row += 1
            if in_a_row == _MOST_FAILURES:
                break
    if errors:
        raise errors[0]
    return Pruned(*map(sum, zip(*removed, strict=True)))
