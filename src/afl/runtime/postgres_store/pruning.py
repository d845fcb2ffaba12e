# ruff: noqa: S608 - statements are made of constants
"""Removing runs that ended long ago, with all that belongs to them."""

from __future__ import annotations

from afl.db.postgres import Transaction
from afl.runtime.persistence import Pruned
from afl.runtime.postgres_store import flows
from afl.runtime.rows.table import Row

_ENDED = "state IN ('completed', 'failed', 'cancelled')"  # the words of the indexes
#: Not those that somebody is just working on.
_FREE = "FOR UPDATE SKIP LOCKED"
OLD = f"""SELECT end_time, seq, uuid, workflow_id, flow_id FROM afl_run
WHERE retain = 0 AND {_ENDED} AND end_time < %s ORDER BY end_time LIMIT %s {_FREE}"""
EXPIRED = f"""SELECT end_time, seq, uuid, workflow_id, flow_id FROM afl_run
WHERE retain > 0 AND {_ENDED} AND end_time + retain < %s
ORDER BY end_time + retain LIMIT %s {_FREE}"""

STEPS = "DELETE FROM afl_step WHERE workflow_id = %s"
TASKS = """DELETE FROM afl_task WHERE uuid = ANY (ARRAY (
    SELECT id FROM afl_step WHERE workflow_id = %s
))"""
STRAY_TASKS = "DELETE FROM afl_task WHERE workflow_id = %s AND is_stray = 1"
EVENTS = "DELETE FROM afl_event WHERE workflow_id = %s"
LOGS = "DELETE FROM afl_log WHERE runner_id IN (%s, %s)"
UNUSED_FLOW = """DELETE FROM afl_flow WHERE uuid = %s AND flow_name = ''
AND NOT EXISTS (SELECT FROM afl_run WHERE afl_run.flow_id = afl_flow.uuid)"""


def prune(tx: Transaction, keep_ms: int, limit: int) -> Pruned:
    runs = _outlived(tx, keep_ms, limit)
    steps = tasks = 0
    for _end, seq, uuid, workflow_id, _flow in runs:
        # Tasks first: they are found by their steps.
        tasks += tx.execute(TASKS, (workflow_id,)) + tx.execute(STRAY_TASKS, (workflow_id,))
        steps += tx.execute(STEPS, (workflow_id,))
        tx.execute(EVENTS, (workflow_id,))
        tx.execute(LOGS, (uuid, workflow_id))
        tx.execute("DELETE FROM afl_run WHERE seq = %s", (seq,))
    unused = sorted({flow for *_others, flow in runs})
    tx.query_all(flows.LOCK, (unused,))
    for flow in unused:
        _drop_unused(tx, flow)
    return Pruned(len(runs), steps, tasks)


def _outlived(tx: Transaction, keep_ms: int, limit: int) -> list[Row]:
    """Those that ended first."""
    limit = max(limit, 0)
    expired = tx.query_all(EXPIRED, (tx.now, limit))
    old = tx.query_all(OLD, (tx.now - keep_ms, limit))
    return sorted([*expired, *old])[:limit]


def _drop_unused(tx: Transaction, flow_id: str) -> None:
    if tx.execute(UNUSED_FLOW, (flow_id,)):
        tx.execute("DELETE FROM afl_workflow WHERE flow_id = %s", (flow_id,))
