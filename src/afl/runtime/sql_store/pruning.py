# ruff: noqa: S608 - statements are made of constants
"""Removing runs that ended long ago, with all that belongs to them."""

from __future__ import annotations

from afl.db.sqlite import Reader, Row, Transaction
from afl.runtime.persistence import Pruned

_ENDED = "state IN ('completed', 'failed', 'cancelled')"  # the words of the indexes
OLD = f"""SELECT end_time, seq, uuid, workflow_id, flow_id FROM run INDEXED BY run_ended
WHERE retain = 0 AND {_ENDED} AND end_time < ? ORDER BY end_time LIMIT ?"""
EXPIRED = f"""SELECT end_time, seq, uuid, workflow_id, flow_id FROM run INDEXED BY run_retained
WHERE retain > 0 AND {_ENDED} AND end_time + retain < ?
ORDER BY end_time + retain LIMIT ?"""

STEPS = "DELETE FROM step WHERE workflow_id = ?"
TASKS = """DELETE FROM task WHERE uuid IN (
    SELECT id FROM step INDEXED BY step_run WHERE workflow_id = ?
)"""
STRAY_TASKS = "DELETE FROM task WHERE workflow_id = ? AND is_stray = 1"
EVENTS = "DELETE FROM event WHERE workflow_id = ?"
LOGS = "DELETE FROM log WHERE runner_id IN (?, ?)"
UNUSED_FLOW = """DELETE FROM flow WHERE uuid = ? AND flow_name = ''
AND NOT EXISTS (SELECT 1 FROM run WHERE run.flow_id = flow.uuid)"""


def prune(tx: Transaction, keep_ms: int, limit: int, now: int) -> Pruned:
    runs = _outlived(tx, keep_ms, limit, now)
    steps = tasks = 0
    for _end, seq, uuid, workflow_id, _flow in runs:
        # Tasks first: they are found by their steps.
        tasks += tx.execute(TASKS, (workflow_id,)) + tx.execute(STRAY_TASKS, (workflow_id,))
        steps += tx.execute(STEPS, (workflow_id,))
        tx.execute(EVENTS, (workflow_id,))
        tx.execute(LOGS, (uuid, workflow_id))
        tx.execute("DELETE FROM run WHERE seq = ?", (seq,))
    for flow in {flow for *_others, flow in runs}:
        _drop_unused(tx, flow)
    return Pruned(len(runs), steps, tasks)


def _outlived(reader: Reader, keep_ms: int, limit: int, now: int) -> list[Row]:
    """Those that ended first."""
    limit = max(limit, 0)
    expired = reader.query_all(EXPIRED, (now, limit))
    old = reader.query_all(OLD, (now - keep_ms, limit))
    return sorted([*expired, *old])[:limit]


def _drop_unused(tx: Transaction, flow_id: str) -> None:
    if tx.execute(UNUSED_FLOW, (flow_id,)):
        tx.execute("DELETE FROM workflow WHERE flow_id = ?", (flow_id,))
