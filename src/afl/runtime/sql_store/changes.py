"""Applying what was decided, as a whole."""

from __future__ import annotations

from afl.db.sqlite import Transaction
from afl.runtime.persistence import IterationChanges
from afl.runtime.sql_store import runs, steps, tasks
from afl.runtime.sql_store.catalog import EVENTS, LOGS
from afl.runtime.sql_store.flows import FLOWS, WORKFLOWS
from afl.runtime.sql_store.refusals import refusing


def apply(tx: Transaction, changes: IterationChanges) -> None:
    """Raises Conflict if something is there already, or was written since it was read."""
    with refusing():
        _apply(tx, changes)


def _apply(tx: Transaction, changes: IterationChanges) -> None:
    # Most changes have few kinds: a statement for no rows costs as much as one for some.
    if changes.created_steps:
        steps.create(tx, changes.created_steps)
    if changes.updated_steps:
        steps.update(tx, changes.updated_steps)
    if changes.created_events:
        tx.executemany(EVENTS.insert, map(EVENTS.row, changes.created_events))
    if changes.updated_events:
        tx.executemany(EVENTS.upsert, map(EVENTS.row, changes.updated_events))
    if changes.created_tasks:
        tasks.create(tx, changes.created_tasks)
    if changes.updated_tasks:
        tasks.update(tx, changes.updated_tasks)
    if changes.created_runs:
        runs.create(tx, changes.created_runs)
    if changes.updated_runs:
        runs.update(tx, changes.updated_runs)
    if changes.flows:
        tx.executemany(FLOWS.insert_new, map(FLOWS.row, changes.flows))
    if changes.workflows:
        tx.executemany(WORKFLOWS.insert_new, map(WORKFLOWS.row, changes.workflows))
    if changes.logs:
        tx.executemany(LOGS.upsert, map(LOGS.row, changes.logs))
    runs.announce(tx, changes.touched_runs())
