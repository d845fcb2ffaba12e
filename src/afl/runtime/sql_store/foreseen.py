# ruff: noqa: S608 - statements are made of constants
"""Decisions that are made before their turn, where other processes write to the same file.

Deciding takes longer than writing what was decided, and whoever has the lock of the file keeps all
other processes waiting. So a decision looks at a snapshot first, without the lock. When its turn
comes and all that it has read is still as it was, what it decided is what it would decide again;
else it is decided anew.

Only reads of single rows can be compared. A decision that asks for more waits for its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, NoReturn, TypeVar

from afl.collector import collector_paused
from afl.db.sqlite import Reader
from afl.runtime.entities import RunnerDefinition, TaskDefinition
from afl.runtime.persistence import Decision, IterationChanges
from afl.runtime.rows.codec import to_json
from afl.runtime.sql_store.view import SqliteView
from afl.runtime.step import StepDefinition
from afl.runtime.types import StepId, WorkflowId

T = TypeVar("T")

#: After so many in vain at the latest, another decision looks ahead.
_MOST_SKIPPED = 64
#: How old a look may be. Leases that it gives begin with it, and the wait for the file may take as
#: long as a lease.
_MOST_AGE_MS = 500


class Prospects:
    """Whether it is worth looking ahead: not where processes work on the same runs, and each finds
    its own look outdated by the others."""

    def __init__(self) -> None:
        self._skipped = self._left = 0

    def are_good(self) -> bool:
        """Asked before each look."""
        self._left = max(self._left - 1, -1)
        return self._left < 0

    def note(self, has_held: bool) -> None:
        self._skipped = 0 if has_held else min(2 * self._skipped + 1, _MOST_SKIPPED)
        self._left = self._skipped


class Foreseen(Generic[T]):
    """A decision that may look ahead, any number of times, before it is made."""

    def __init__(
        self, decision: Decision[T], now_ms: Callable[[], int], prospects: Prospects
    ) -> None:
        self._decision = decision
        self._now_ms = now_ms
        self._prospects = prospects
        self._seen: _NotingView | None = None
        self._outcome: tuple[IterationChanges, T] | None = None

    def look(self, reader: Reader) -> None:
        """Decide on a snapshot. What it raises means nothing: it may be another story in turn."""
        self._seen = self._outcome = None
        if not self._prospects.are_good():
            return
        seen = _NotingView(reader, self._now_ms())
        try:
            # Its reads are the store's; none of them is left when this returns.
            with collector_paused():
                outcome = self._decision(seen)
        except BaseException:
            self._prospects.note(has_held=False)
            raise
        if seen.is_too_far:
            self._prospects.note(has_held=False)
        else:
            self._seen, self._outcome = seen, outcome

    def __call__(self, view: SqliteView) -> tuple[IterationChanges, T]:
        """The decision, in its turn."""
        seen, outcome = self._seen, self._outcome
        self._seen = self._outcome = None
        if seen is not None and outcome is not None:
            # Of another time if somebody has set the clock, too.
            is_fresh = 0 <= view.now_ms() - seen.now_ms() <= _MOST_AGE_MS
            has_held = is_fresh and seen.is_as_before(view.reader)
            self._prospects.note(has_held)
            if has_held:
                return outcome
        return self._decision(view)


class _TooFarError(Exception):
    """More was asked for than can be compared."""


class _Rows:
    """What was read of a table: the version of each row by its id. What was asked for and not
    found must not be found later."""

    def __init__(self, table: str, key: str, row_id: str, version: str) -> None:
        self._again = f"""SELECT {row_id}, {version} FROM {table}
            WHERE {key} IN (SELECT value FROM json_each(?))"""
        self._asked: set[str] = set()
        self._found: dict[str, int] = {}

    def note(self, asked: Iterable[str], found: Iterable[tuple[str, int]]) -> None:
        self._asked.update(asked)
        self._found.update(found)

    def are_as_before(self, reader: Reader) -> bool:
        if not self._asked:
            return True
        rows: list[Any] = reader.query_all(self._again, (to_json(list(self._asked)),))
        return dict(rows) == self._found


class _NotingView(SqliteView):
    """Notes what is read. Raises for all that cannot be noted, and remembers that it did: who
    decides may take it for an error of a step."""

    __slots__ = ("_runs", "_steps", "_tasks", "is_too_far")

    def __init__(self, reader: Reader, now: int) -> None:
        super().__init__(reader, now)
        self.is_too_far = False
        self._steps = _Rows("step", "id", "id", "sequence")
        self._tasks = _Rows("task", "uuid", "uuid", "version")
        # Two records may be of one run: then there are more rows than were noted.
        self._runs = _Rows("run", "workflow_id", "uuid", "version")

    def is_as_before(self, reader: Reader) -> bool:
        return all(each.are_as_before(reader) for each in (self._steps, self._tasks, self._runs))

    def get_step(self, step_id: StepId) -> StepDefinition | None:
        return self.get_steps([step_id]).get(step_id)

    def get_steps(self, step_ids: Sequence[StepId]) -> dict[StepId, StepDefinition]:
        found = super().get_steps(step_ids)
        self._steps.note(step_ids, ((each.id, each.sequence) for each in found.values()))
        return found

    def get_task(self, task_id: str) -> TaskDefinition | None:
        return self.get_tasks([task_id]).get(task_id)

    def get_tasks(self, task_ids: Sequence[str]) -> dict[str, TaskDefinition]:
        found = super().get_tasks(task_ids)
        self._tasks.note(task_ids, ((each.uuid, each.version) for each in found.values()))
        return found

    def get_run(self, workflow_id: WorkflowId) -> RunnerDefinition | None:
        return self.get_runs([workflow_id]).get(workflow_id)

    def get_runs(self, workflow_ids: Sequence[WorkflowId]) -> dict[WorkflowId, RunnerDefinition]:
        found = super().get_runs(workflow_ids)
        self._runs.note(workflow_ids, ((each.uuid, each.version) for each in found.values()))
        return found

    def _too_far(self, *_asked: object, **_by_name: object) -> NoReturn:
        self.is_too_far = True
        raise _TooFarError

    get_steps_by_block = get_steps_by_workflow = get_yielded = _too_far
    get_open_tasks = get_run_by_key = get_flow = _too_far
