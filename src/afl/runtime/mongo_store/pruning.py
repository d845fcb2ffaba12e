"""Removing runs that ended long ago, with all that belongs to them. Each run goes as a whole."""

from __future__ import annotations

from typing import Any

from afl.db.mongo import Document, Reader, Transaction
from afl.runtime.mongo_store import flows, tasks
from afl.runtime.mongo_store.holding import run_guard
from afl.runtime.mongo_store.schema import EVENTS, GUARDS, LOGS, RUNS, STEPS, TASKS
from afl.runtime.mongo_store.times import Now

_ENDED = {"state": {"$in": ["completed", "failed", "cancelled"]}}  # the words of the indexes
_FIELDS = {"end_time": 1, "seq": 1, "workflow_id": 1, "flow_id": 1, "version": 1}
#: So many at once: a list of ids has an end.
_CHUNK = 10_000


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


def remove(tx: Transaction, run: Document) -> tuple[int, int] | None:
    """How many steps and tasks went with it; None if somebody has changed it since."""
    tx.write()
    if not tx.remove(RUNS, {"_id": run["_id"], "version": run["version"]}):
        return None
    workflow_id = run["workflow_id"]
    # Tasks first: they are found by their steps.
    ids = tasks.ids_of_run(tx, workflow_id)
    gone = sum(
        tx.remove(TASKS, {"_id": {"$in": ids[at : at + _CHUNK]}})
        for at in range(0, len(ids), _CHUNK)
    )
    steps = tx.remove(STEPS, {"workflow_id": workflow_id})
    tx.remove(EVENTS, {"workflow_id": workflow_id})
    tx.remove(LOGS, {"runner_id": {"$in": [run["_id"], workflow_id]}})
    tx.remove(GUARDS, {"_id": {"$in": [run_guard(run["_id"]), run_guard(workflow_id)]}})
    flows.remove_unused(tx, run["flow_id"])
    return steps, gone
