# ruff: noqa: S608 - statements are made of constants
"""Removing runs that ended long ago, with all that belongs to them."""

from __future__ import annotations

from afl.db.sqlite import Reader, Transaction
from afl.runtime.rows.pruning import Outlived, Portion, Statements, remove
from afl.runtime.sql_store.schema import ENDED

# The words of the indexes, or SQLite would not take them.
OLD = f"""SELECT end_time, seq, uuid, workflow_id, flow_id FROM run INDEXED BY run_ended
WHERE retain = 0 AND {ENDED} AND end_time < ? ORDER BY end_time LIMIT ?"""
EXPIRED = f"""SELECT end_time, seq, uuid, workflow_id, flow_id FROM run INDEXED BY run_retained
WHERE retain > 0 AND {ENDED} AND end_time + retain < ?
ORDER BY end_time + retain LIMIT ?"""
NOTED = "SELECT uuid, workflow_id, flow_id FROM removal ORDER BY seq LIMIT ?"


_FIRST_STEPS = "FROM step INDEXED BY step_run WHERE workflow_id = ? ORDER BY seq LIMIT ?"


def _some(table: str, condition: str) -> str:
    return f"DELETE FROM {table} WHERE seq IN (SELECT seq FROM {table} WHERE {condition} LIMIT ?)"


STATEMENTS = Statements(
    tasks=f"DELETE FROM task WHERE uuid IN (SELECT id {_FIRST_STEPS})",
    steps=f"DELETE FROM step WHERE seq IN (SELECT seq {_FIRST_STEPS})",
    stray_tasks=_some("task", "workflow_id = ? AND is_stray = 1"),
    events=_some("event", "workflow_id = ?"),
    logs=_some("log", "runner_id IN (?, ?)"),
    run="DELETE FROM run WHERE uuid = ?",
    note="""INSERT INTO removal (uuid, workflow_id, flow_id) VALUES (?, ?, ?)
ON CONFLICT (uuid) DO NOTHING""",
    unnote="DELETE FROM removal WHERE uuid = ?",
)
UNUSED_FLOW = """DELETE FROM flow WHERE uuid = ? AND flow_name = ''
AND NOT EXISTS (SELECT 1 FROM run WHERE run.flow_id = flow.uuid)"""


def prune(tx: Transaction, keep_ms: int, limit: int, now: int) -> Portion:
    portion = remove(tx, STATEMENTS, _outlived(tx, keep_ms, max(limit, 0), now))
    for flow in {run.flow_id for run in portion.removed}:
        _drop_unused(tx, flow)
    return portion


def _outlived(reader: Reader, keep_ms: int, limit: int, now: int) -> list[Outlived]:
    """Those that are half removed, then those that ended first."""
    noted = reader.query_all(NOTED, (limit,))
    expired = reader.query_all(EXPIRED, (now, limit))
    old = reader.query_all(OLD, (now - keep_ms, limit))
    ended = [row[2:] for row in sorted([*expired, *old])]
    return [Outlived(*row) for row in [*noted, *ended][:limit]]


def _drop_unused(tx: Transaction, flow_id: str) -> None:
    if tx.execute(UNUSED_FLOW, (flow_id,)):
        tx.execute("DELETE FROM workflow WHERE flow_id = ?", (flow_id,))
