"""Applying what was decided, as a whole."""

from __future__ import annotations

from afl.db.postgres import Transaction
from afl.runtime.persistence import IterationChanges
from afl.runtime.postgres_store import flows, queue, runs, steps, tasks
from afl.runtime.postgres_store.catalog import EVENTS, LOGS
from afl.runtime.postgres_store.flows import WORKFLOWS
from afl.runtime.postgres_store.holding import Holding


def apply(tx: Transaction, changes: IterationChanges, holding: Holding | None = None) -> None:
    """With the end of the transaction, which raises Conflict if something is there already, or was
    written since it was read; where a row is in the way, UniqueViolation: then who decided looks
    again."""
    (holding or Holding(tx)).hold(_runs_of(changes))
    _put(tx, changes)


def _runs_of(changes: IterationChanges) -> set[str]:
    """The runs of which steps, tasks or logs change; of one that is just made nobody knows."""
    changed = {str(each.workflow_id) for each in (*changes.created_steps, *changes.updated_steps)}
    changed.update(each.workflow_id for each in changes.created_tasks)
    # Lines of a log are numbered in the order of their commits, so that none is passed over.
    changed.update(each.runner_id for each in changes.logs)
    return changed.difference(each.workflow_id for each in changes.created_runs)


def _put(tx: Transaction, changes: IterationChanges) -> None:
    if changes.flows:
        flows.keep(tx, changes.flows)
    if changes.created_steps:
        steps.create(tx, changes.created_steps)
    if changes.updated_steps:
        steps.update(tx, changes.updated_steps)
    if changes.created_events:
        tx.put(EVENTS.insert, map(EVENTS.row, changes.created_events))
    if changes.updated_events:
        tx.put(EVENTS.upsert, map(EVENTS.row, changes.updated_events))
    if changes.created_tasks:
        tasks.create(tx, changes.created_tasks)
    if changes.updated_tasks:
        tasks.update(tx, changes.updated_tasks)
    if changes.created_runs:
        runs.create(tx, changes.created_runs)
    if changes.updated_runs:
        runs.update(tx, changes.updated_runs)
    if changes.workflows:
        tx.put(WORKFLOWS.insert_new, map(WORKFLOWS.row, changes.workflows))
    if changes.logs:
        tx.put(LOGS.upsert, map(LOGS.row, changes.logs))
    runs.announce(tx, changes.touched_runs())
    for each in changes.claimings:
        queue.fill(tx, each)
