"""Removing old runs piece by piece: everybody else who writes waits for each commit.

A run goes in one commit, with all that belongs to it. Of one that is too large for that, the run
itself goes first, so that nobody decides about it again, and is noted as half removed; the rest
follows in further commits, whoever makes them: each pruning begins with what is noted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from afl.clock import SYSTEM_CLOCK
from afl.runtime.persistence import Pruned
from afl.runtime.rows.table import Transaction

#: So many rows go in one commit, not counting the tasks of steps.
ROWS = 5_000
_PAUSE_S = 0.01


class Outlived(NamedTuple):
    """A run whose time is over."""

    uuid: str
    workflow_id: str
    flow_id: str


@dataclass(frozen=True, slots=True)
class Statements:
    """How a database removes a run. The first ones are told at last how many rows may go."""

    #: Of the oldest steps of a run: the steps that go now must be the same.
    tasks: str
    steps: str
    stray_tasks: str
    events: str
    logs: str
    run: str
    note: str
    unnote: str


@dataclass(slots=True)
class Portion:
    """What goes in one commit."""

    room: int
    steps: int = 0
    tasks: int = 0
    #: Those that are gone with all that belongs to them.
    removed: list[Outlived] = field(default_factory=list)

    @property
    def runs(self) -> int:
        return len(self.removed)

    @property
    def is_full(self) -> bool:
        return self.room <= 0


def remove(tx: Transaction, statements: Statements, runs: Iterable[Outlived]) -> Portion:
    """As many as one commit may."""
    portion = Portion(ROWS)
    for run in runs:
        _empty(tx, statements, run, portion)
        tx.execute(statements.run, (run.uuid,))
        if portion.is_full:
            tx.execute(statements.note, run)
            break
        tx.execute(statements.unnote, (run.uuid,))
        portion.removed.append(run)
    return portion


def _empty(tx: Transaction, statements: Statements, run: Outlived, portion: Portion) -> None:
    # Tasks first: they are found by their steps.
    portion.tasks += tx.execute(statements.tasks, (run.workflow_id, portion.room))
    steps = tx.execute(statements.steps, (run.workflow_id, portion.room))
    portion.steps += steps
    portion.room -= steps
    strays = tx.execute(statements.stray_tasks, (run.workflow_id, portion.room))
    portion.tasks += strays
    portion.room -= strays
    portion.room -= tx.execute(statements.events, (run.workflow_id, portion.room))
    portion.room -= tx.execute(statements.logs, (run.uuid, run.workflow_id, portion.room))


def pause() -> None:
    """Let others come in between. Processes that wait for the file of a SQLite database look for a
    moment when it is free; in real time, hence this, too."""
    SYSTEM_CLOCK.sleep(_PAUSE_S)


def in_portions(commit: Callable[[int], Portion], limit: int) -> Pruned:
    """Remove up to `limit` runs; `commit` is told how many may still go."""
    portion = commit(limit)
    total = Pruned(portion.runs, portion.steps, portion.tasks)
    while portion.is_full:
        pause()
        portion = commit(limit - total.runs)
        total = Pruned(
            total.runs + portion.runs, total.steps + portion.steps, total.tasks + portion.tasks
        )
    return total
