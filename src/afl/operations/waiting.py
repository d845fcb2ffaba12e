"""Waiting for a run, with a word on how far it has come and on what keeps it.

A run waits for ever if nobody does its tasks. Whoever waits for it is told so, and need not.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from afl.clock import SYSTEM_CLOCK, Clock
from afl.operations.reading import TaskCounts
from afl.operations.tasks import Serving, serving
from afl.runtime.entities import (
    RunnerDefinition,
    RunnerState,
    TaskDefinition,
    TaskState,
)
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.types import WorkflowId

#: Seconds between two looks, and how many times as long as the look itself.
_LOOK_S = 0.5
_SHARE = 20
#: Seconds for which a run must be found stuck: somebody may be just starting. If a handler is
#: registered, a worker is the more likely to come.
_UNSERVED_S = 1.0
_UNATTENDED_S = 5.0

_COUNTED_AS: dict[str, str] = {
    TaskState.COMPLETED: "done",
    TaskState.RUNNING: "running",
    TaskState.PENDING: "waiting",
}


@dataclass(frozen=True)
class Look:
    """A run at one moment."""

    counts: TaskCounts
    is_paused: bool = False
    #: Facets with waiting tasks for which no handler is registered and no server lives.
    unserved: tuple[str, ...] = ()
    #: Facets with waiting tasks whose handler is registered, while no server lives that has it.
    unattended: tuple[str, ...] = ()
    #: Nothing is being done, and nobody is there who could.
    is_stuck: bool = False

    @property
    def patience_s(self) -> float:
        """How long it is worth to wait for somebody, once nobody is there."""
        return _UNATTENDED_S if self.unattended else _UNSERVED_S

    def advice(self, task_list: str) -> str:
        """What keeps the run, and what would help; nothing if it goes on."""
        if self.is_paused:
            return "The run is paused; nothing begins until it is resumed."
        parts = []
        if self.unserved:
            parts.append(
                f"Nobody serves {', '.join(self.unserved)}: no handler is registered, and no "
                "worker that is alive has one. Register a handler, or start a worker with it "
                "(afl worker --handlers FILE); the tasks wait until then."
            )
        if self.unattended:
            parts.append(
                f"A handler is registered for {', '.join(self.unattended)}, but no worker that "
                f"serves task list '{task_list}' is alive: start one with `afl worker`. The tasks "
                "wait until then."
            )
        return " ".join(parts)


def look(store: PersistenceAPI, run: RunnerDefinition) -> Look:
    """How a run stands. Reads all of its tasks: ask seldom."""
    tasks = store.get_tasks_by_runner(run.uuid)
    waiting = [each for each in tasks if each.state == TaskState.PENDING]
    now = store.get_run(WorkflowId(run.workflow_id))
    is_paused = now is not None and now.state == RunnerState.PAUSED
    if not waiting:
        return Look(_counted(tasks), is_paused)
    who = serving(store)
    alive = Serving(frozenset(), who.by_servers)
    alone = [each for each in waiting if not alive.serves(each)]
    unserved = _names(each for each in alone if not who.serves(each))
    is_idle = not any(each.state == TaskState.RUNNING for each in tasks)
    return Look(
        _counted(tasks),
        is_paused,
        unserved,
        tuple(each for each in _names(alone) if each not in unserved),
        is_idle and len(alone) == len(waiting),
    )


def _names(tasks: Iterable[TaskDefinition]) -> tuple[str, ...]:
    return tuple(sorted({each.name for each in tasks}))


def _counted(tasks: Iterable[TaskDefinition]) -> TaskCounts:
    counts: dict[str, int] = {}
    for each in tasks:
        name = _COUNTED_AS.get(each.state, "failed")
        counts[name] = counts.get(name, 0) + 1
    return TaskCounts(**counts)


def follow(
    store: PersistenceAPI,
    run: RunnerDefinition,
    timeout: float,
    stop: threading.Event,
    clock: Clock = SYSTEM_CLOCK,
) -> Iterator[Look]:
    """The looks at a run that differ from the one before, as long as it is worth waiting.

    Ends when the run is over or paused, when nobody is there who could do anything for it, after
    `timeout` seconds, and when `stop` is set.
    """
    run_id = WorkflowId(run.workflow_id)
    ends_at = clock.monotonic() + timeout
    last: Look | None = None
    stuck_since: float | None = None
    # Asked first: most short runs are over by now, and need no look.
    while not store.wait_for_run(run_id, 0) and not stop.is_set():
        began = clock.monotonic()
        seen = look(store, run)
        if seen != last:
            yield seen
        last = seen
        if not seen.is_stuck:
            stuck_since = None
        elif stuck_since is None:
            stuck_since = began
        is_hopeless = stuck_since is not None and began - stuck_since >= seen.patience_s
        left = ends_at - clock.monotonic()
        if left <= 0 or is_hopeless or seen.is_paused:
            return
        # A large run takes long to look at: most of the time must be left for its work.
        pause = max(_LOOK_S, _SHARE * (clock.monotonic() - began))
        if store.wait_for_run(run_id, min(pause, left), stop=stop):
            return
