# ruff: noqa: S608 - statements are made of constants
"""Removing runs that ended long ago, with all that belongs to them."""

from __future__ import annotations

from afl.db.postgres import Transaction
from afl.runtime.postgres_store import flows
from afl.runtime.rows.pruning import Outlived, Portion, Statements, remove

_ENDED = "state IN ('completed', 'failed', 'cancelled')"  # the words of the indexes
#: Not those that somebody is just working on.
_FREE = "FOR UPDATE SKIP LOCKED"
OLD = f"""SELECT end_time, seq, uuid, workflow_id, flow_id FROM afl_run
WHERE retain = 0 AND {_ENDED} AND end_time < %s ORDER BY end_time LIMIT %s {_FREE}"""
EXPIRED = f"""SELECT end_time, seq, uuid, workflow_id, flow_id FROM afl_run
WHERE retain > 0 AND {_ENDED} AND end_time + retain < %s
ORDER BY end_time + retain LIMIT %s {_FREE}"""
NOTED = f"SELECT uuid, workflow_id, flow_id FROM afl_removal ORDER BY seq LIMIT %s {_FREE}"


_FIRST_STEPS = "SELECT id FROM afl_step WHERE workflow_id = %s ORDER BY seq LIMIT %s"


def _some(table: str, condition: str) -> str:
    return f"""DELETE FROM {table} WHERE seq = ANY (ARRAY (
    SELECT seq FROM {table} WHERE {condition} LIMIT %s
))"""


STATEMENTS = Statements(
    tasks=f"DELETE FROM afl_task WHERE uuid = ANY (ARRAY ({_FIRST_STEPS}))",
    steps=f"DELETE FROM afl_step WHERE id = ANY (ARRAY ({_FIRST_STEPS}))",
    stray_tasks=_some("afl_task", "workflow_id = %s AND is_stray = 1"),
    events=_some("afl_event", "workflow_id = %s"),
    logs=_some("afl_log", "runner_id IN (%s, %s)"),
    run="DELETE FROM afl_run WHERE uuid = %s",
    note="""INSERT INTO afl_removal (uuid, workflow_id, flow_id) VALUES (%s, %s, %s)
ON CONFLICT (uuid) DO NOTHING""",
    unnote="DELETE FROM afl_removal WHERE uuid = %s",
)
UNUSED_FLOW = """DELETE FROM afl_flow WHERE uuid = %s AND flow_name = ''
AND NOT EXISTS (SELECT FROM afl_run WHERE afl_run.flow_id = afl_flow.uuid)"""


def prune(tx: Transaction, keep_ms: int, limit: int) -> Portion:
    portion = remove(tx, STATEMENTS, _outlived(tx, keep_ms, max(limit, 0)))
    unused = sorted({run.flow_id for run in portion.removed})
    tx.query_all(flows.LOCK, (unused,))
    for flow in unused:
        _drop_unused(tx, flow)
    return portion


def _outlived(tx: Transaction, keep_ms: int, limit: int) -> list[Outlived]:
    """Those that are half removed, then those that ended first."""
    noted = tx.query_all(NOTED, (limit,))
    expired = tx.query_all(EXPIRED, (tx.now, limit))
    old = tx.query_all(OLD, (tx.now - keep_ms, limit))
    ended = [row[2:] for row in sorted([*expired, *old])]
    return [Outlived(*row) for row in [*noted, *ended][:limit]]


def _drop_unused(tx: Transaction, flow_id: str) -> None:
    if tx.execute(UNUSED_FLOW, (flow_id,)):
        tx.execute("DELETE FROM afl_workflow WHERE flow_id = %s", (flow_id,))
