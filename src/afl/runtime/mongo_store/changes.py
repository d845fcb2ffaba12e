"""Applying what was decided, as a whole."""

from __future__ import annotations

from afl.db.mongo import Transaction
from afl.db.mongo.errors import refusing
from afl.runtime.asking.topics import run_topic
from afl.runtime.mongo_store import flows, runs, schema, steps, tasks
from afl.runtime.mongo_store.catalog import EVENTS, LOGS, save_all
from afl.runtime.mongo_store.holding import Holding
from afl.runtime.persistence import IterationChanges


def apply(tx: Transaction, changes: IterationChanges, holding: Holding | None = None) -> None:
    """Raises Conflict if something is there already, or was written since it was read; where a
    document is in the way, DuplicateKeyError: then who decided looks again."""
    if not changes.has_changes:
        return
    holding = Holding(tx) if holding is None else holding
    with refusing():
        holding.hold(_runs_of(changes), {each.uuid for each in changes.updated_runs})
        written = {each.uuid for each in (*changes.updated_tasks, *changes.created_tasks)}
        if only_read := holding.tasks - written:
            tasks.touch(tx, only_read)
        _put(tx, changes, holding)
        tx.flush()


def _runs_of(changes: IterationChanges) -> set[str]:
    """The runs of which steps, tasks or logs change; of one that is just made nobody knows."""
    changed = {str(each.workflow_id) for each in (*changes.created_steps, *changes.updated_steps)}
    changed.update(each.workflow_id for each in changes.created_tasks)
    # Lines of a log are numbered in the order of their commits, so that none is passed over.
    changed.update(each.runner_id for each in changes.logs)
    return changed.difference(each.workflow_id for each in changes.created_runs)


def _put(tx: Transaction, changes: IterationChanges, holding: Holding) -> None:
    if changes.flows:
        flows.keep(tx, changes.flows)
    if changes.workflows:
        flows.keep_workflows(tx, changes.workflows)
    if changes.created_steps:
        steps.create(tx, changes.created_steps, holding.next_number)
    if changes.updated_steps:
        steps.update(tx, changes.updated_steps)
    if changes.created_tasks:
        tasks.create(tx, changes.created_tasks)
    if changes.updated_tasks:
        tasks.update(tx, changes.updated_tasks)
    if changes.created_runs:
        runs.create(tx, changes.created_runs)
    if changes.updated_runs:
        runs.update(tx, changes.updated_runs)
    if changes.created_events:
        tx.insert(schema.EVENTS, [EVENTS.new(tx, each) for each in changes.created_events])
    save_all(tx, EVENTS, changes.updated_events)
    save_all(tx, LOGS, changes.logs, lambda log: holding.next_number(log.runner_id))
    for each in changes.touched_runs():
        tx.announce(run_topic(each))
