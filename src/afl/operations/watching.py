"""A run that somebody looks at while it goes on: what has changed since the last look."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from afl.operations.reading import RunSummary, StepView, step_view, summary
from afl.operations.runs import status
from afl.runtime.entities import ENDED_RUNNER_STATES, RunnerDefinition, TaskDefinition
from afl.runtime.persistence import PersistenceAPI, task_id_of
from afl.runtime.step import StepDefinition
from afl.runtime.types import StepId, WorkflowId

#: Seconds until the next look if nobody announces anything: claims of tasks are not announced.
_LOOK_S = 2.0


@dataclass(frozen=True)
class RunNews:
    """What is new since the last look."""

    summary: RunSummary
    #: Steps that were created or have changed, each without those inside it. The first look gives
    #: all, parents before what is in them.
    steps: tuple[StepView, ...]


class RunWatch:
    """The changes of one run, look by look.

    A look costs what is new and what is not complete: a step that is complete never changes
    again, and is not asked for. The parts of a look are not of one moment; what comes in between
    comes with the next one.
    """

    def __init__(self, store: PersistenceAPI, run: RunnerDefinition) -> None:
        self._store = store
        #: As it was at the last look.
        self.run = run
        self._run_id = WorkflowId(run.workflow_id)
        self._seen = store.changes_seen(self._run_id)
        self._cursor: str | None = None
        #: Steps that may change, and their tasks.
        self._steps: dict[StepId, StepDefinition] = {}
        self._tasks: dict[str, TaskDefinition] = {}
        #: Of all steps: the statement and the state that were told last.
        self._told: dict[str, tuple[str, str]] = {}
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)

    @property
    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """How many steps of each statement were in which state, at the last look."""
        return self._counts

    def look(self) -> RunNews:
        """What is new. Raises RunNotFoundError once the run was removed."""
        self._seen = self._store.changes_seen(self._run_id)
        self.run = status(self._store, self._run_id)
        fresh = {each.id: each for each in (*self._changed_steps(), *self._new_steps())}
        self._steps |= fresh
        for task in self._changed_tasks(fresh):
            self._tasks[task.uuid] = task
            step = self._steps.get(StepId(task.step_id))
            if step is not None:
                fresh[step.id] = step
        steps = tuple(self._told_of(each) for each in fresh.values())
        return RunNews(summary(self.run, self._store.now_ms()), steps)

    def wait(self, timeout: float | None = None, *, stop: threading.Event | None = None) -> bool:
        """Wait until something may be new since the last look; False at the timeout and when
        `stop` is set."""
        return self._store.wait_for_change(self._run_id, self._seen, timeout, stop=stop)

    def follow(self, stop: threading.Event | None = None) -> Iterator[RunNews]:
        """What there is, and then what is new, until the run is over or `stop` is set."""
        state: str | None = None
        while stop is None or not stop.is_set():
            news = self.look()
            if news.steps or news.summary.state != state:
                yield news
            state = news.summary.state
            if state in ENDED_RUNNER_STATES:
                return
            self.wait(_LOOK_S, stop=stop)

    def _changed_steps(self) -> list[StepDefinition]:
        return self._store.changed_steps({key: each.sequence for key, each in self._steps.items()})

    def _new_steps(self) -> Iterator[StepDefinition]:
        has_more = True
        while has_more:
            page = self._store.list_steps(self._run_id, cursor=self._cursor)
            self._cursor, has_more = page.cursor, page.has_more
            yield from page.items

    def _changed_tasks(self, fresh: Mapping[StepId, StepDefinition]) -> list[TaskDefinition]:
        unknown = {task_id_of(each): -1 for each in fresh}
        known = {key: each.version for key, each in self._tasks.items()}
        return self._store.changed_tasks({**unknown, **known})

    def _told_of(self, step: StepDefinition) -> StepView:
        view = step_view(step, self._tasks.get(task_id_of(step.id)))
        if step.statement_id is not None:
            self._count(view.step, str(step.statement_id), view.state)
        if step.is_complete:
            self._steps.pop(step.id, None)
            self._tasks.pop(task_id_of(step.id), None)
        return view

    def _count(self, step: str, statement: str, state: str) -> None:
        before = self._told.get(step)
        if before is not None:
            self._counts[before[0]][before[1]] -= 1
        self._told[step] = (statement, state)
        self._counts[statement][state] += 1
