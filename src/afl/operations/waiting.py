"""Waiting for a run, with a word on how far it has come and on what keeps it.

A run waits for ever if nobody does its tasks. Whoever waits for it is told so, and need not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from afl.backoff import Backoff
from afl.clock import SYSTEM_CLOCK, Clock
from afl.errors import StoreUnavailable
from afl.log import get_logger
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

_log = get_logger(__name__)

#: After an outage.
_BACKOFF = Backoff(initial=0.2, maximum=5.0, jitter=0.2)
#: Seconds between two looks, and how many times as long as the look itself.
_LOOK_S = 0.5
_SHARE = 20
#: The same where a person looks on.
_REFRESH_S = 1.0
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
                "worker that is alive has one. Register a handler with `afl handlers add` and "
                "start `afl worker`, or start a worker that has it (`afl worker --handlers FILE`); "
                "the tasks wait until then."
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


def wait_until_over(
    store: PersistenceAPI,
    run: RunnerDefinition,
    told: Callable[[Look], object],
    timeout: float | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Look | None:
    """Wait for the end of a run, and tell the looks at it that differ from the one before.

    Unlike `follow`, it waits on while nobody is there: somebody who is told so may come and help.
    None if the run is over; the last look if it is not after `timeout` seconds. Outages of the
    store are waited for; raises StoreUnavailable if one lasts until the time is over.
    """
    waiting = _Waiting(store, run, told, timeout, clock)
    failures = 0
    while not waiting.is_over and not waiting.is_late:
        try:
            waiting.go_on()
            failures = 0
        except StoreUnavailable as error:
            failures += 1
            _log.warning("run_not_watched", run=run.workflow_id, error=str(error))
            pause = waiting.at_most(_BACKOFF.delay(failures))
            if not pause:
                raise
            clock.sleep(pause)
    return None if waiting.is_over else waiting.seen


class _Waiting:
    """One look after the other, and the waits between them."""

    def __init__(
        self,
        store: PersistenceAPI,
        run: RunnerDefinition,
        told: Callable[[Look], object],
        timeout: float | None,
        clock: Clock,
    ) -> None:
        self._store = store
        self._run = run
        self._told = told
        self._clock = clock
        self._ends_at = None if timeout is None else clock.monotonic() + timeout
        self._patience = _Patience()
        self._last: Look | None = None
        self.seen: Look | None = None
        self.is_over = False
        #: Whether there was a look after the time.
        self.is_late = False

    def at_most(self, seconds: float) -> float:
        """So long, or until the time is over."""
        if self._ends_at is None:
            return seconds
        return min(seconds, max(self._ends_at - self._clock.monotonic(), 0))

    def go_on(self) -> None:
        began = self._clock.monotonic()
        self.seen = look(self._store, self._run)
        # A large run takes long to count: most of the time must be left for its work.
        pause = self.at_most(max(_REFRESH_S, _SHARE * (self._clock.monotonic() - began)))
        self._tell(self.seen if not pause else self._patience.shown(self.seen, began))
        self.is_over = self._store.wait_for_run(WorkflowId(self._run.workflow_id), pause)
        self.is_late = not pause

    def _tell(self, shown: Look) -> None:
        if shown != self._last:
            self._told(shown)
        self._last = shown


class _Patience:
    """Keeps back that nobody is there until that has lasted: somebody may be just starting."""

    def __init__(self) -> None:
        self._since: float | None = None

    def shown(self, seen: Look, now: float) -> Look:
        if not (seen.unserved or seen.unattended):
            self._since = None
            return seen
        self._since = now if self._since is None else self._since
        is_early = now - self._since < seen.patience_s
        return replace(seen, unserved=(), unattended=()) if is_early else seen


# Its steps


def unserved_steps(store: PersistenceAPI, run: RunnerDefinition) -> frozenset[str]:
    """The steps of a run that wait, while nobody is there who could do them. Reads all of its
    tasks."""
    tasks = store.get_tasks_by_runner(run.uuid)
    waiting = [each for each in tasks if each.state == TaskState.PENDING]
    who = serving(store) if waiting else None
    return frozenset(each.step_id for each in waiting if who and not who.serves(each))
