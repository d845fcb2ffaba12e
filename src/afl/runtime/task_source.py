"""Tasks of a store as work for a consumer: claimed by name, done by handlers, ended by the engine.

One source serves one task list for one owner. Who serves what may change at any time; claims,
waits and tasks that are claimed along with a result all ask anew.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from afl.clock import SYSTEM_CLOCK, Clock
from afl.errors import AflError, NotFound, StoreError
from afl.ids import new_id
from afl.log import get_logger
from afl.runtime.claims import NextClaim, ended, holds, released
from afl.runtime.dispatch import HandlerContext, Runner, invoke, invoke_async
from afl.runtime.entities import (
    Isolation,
    LogDefinition,
    NoteOriginator,
    NoteType,
    OnLost,
    TaskDefinition,
    TaskState,
)
from afl.runtime.errors import StaleFence, StepFailure
from afl.runtime.evaluator import Evaluator
from afl.runtime.handlers.scripts import SCRIPT_TASK
from afl.runtime.isolated import in_process, tell
from afl.runtime.loading import Handler
from afl.runtime.names import handler_for
from afl.runtime.partial_results import LoopParts, written_patiently
from afl.runtime.persistence import (
    DEFAULT_LEASE_MS,
    DEFAULT_TASK_LIST,
    Claim,
    IterationChanges,
    PersistenceAPI,
    View,
    Wake,
)
from afl.runtime.script_executor import ScriptResult
from afl.runtime.stacks import raised_at
from afl.runtime.types import StepId
from afl.work.attempts import Attempt
from afl.work.errors import TimedOut, was_cancelled
from afl.work.source import NO_ROOM, ClaimLost, How, InThread, Job, OnLoop, Room

_log = get_logger(__name__)

#: Deliveries without an end after which a task is taken for one that kills its worker.
MAX_DELIVERIES = 5

#: For so long, who got all that it asked for asks only for what is new: nothing else is urgent.
_LOOK_S = 0.1

#: How long after its claim a task is tried again that no process could be started for.
_NO_PROCESS_MS = 1000


class GivenUp(AflError):  # noqa: N818 - what happened is what people read
    """No worker tries this task again by itself: it becomes a dead letter."""


class NotNow(AflError):  # noqa: N818 - what happened is what people read
    """This worker cannot do the task, but another one, or a later time, can: it is given back."""

    def __init__(self, reason: str, *, not_before: int = 0) -> None:
        self.not_before = not_before
        super().__init__(reason)


class Served:
    """Who does which tasks, at one moment: never changed, only replaced by another one."""

    def __init__(self, handlers: Mapping[str, Handler], *, more: Iterable[str] = ()) -> None:
        self.handlers = dict(handlers)
        #: What to claim tasks by; `more` are names of tasks that need no handler.
        self.names = tuple(sorted({*handlers, *more}))
        self._found: dict[str, Handler | None] = {}

    def handler_for(self, task_name: str) -> Handler | None:
        """Whom a task goes to, or None."""
        try:
            return self._found[task_name]
        except KeyError:
            name = handler_for(task_name, self.handlers)
            found = self._found[task_name] = None if name is None else self.handlers[name]
            return found


@dataclass(eq=False, slots=True)
class TaskWork:
    """A claimed task."""

    task: TaskDefinition
    #: Whether not even a loss of power can undo the claim.
    is_durable: bool = False
    #: Who does it; known once somebody has asked how it is done.
    handler: Handler | None = None

    @property
    def id(self) -> str:
        return self.task.uuid

    @property
    def label(self) -> str:
        return self.task.name

    @property
    def claim(self) -> Claim:
        return Claim(self.task.uuid, self.task.fence)


class Guard(Protocol):
    """Who must agree before a task is done here."""

    def enter(self, work: TaskWork) -> None:
        """Raises NotNow if it must not be done now."""

    def leave(self, work: TaskWork) -> None:
        """It was given back."""


class TaskSource:
    """Lends the tasks with these names. `handlers` says who does one; None if nobody does now.

    `run` awaits what a handler that is no coroutine function returns to be awaited; without it,
    the event loop that all share does.
    """

    def __init__(
        self,
        store: PersistenceAPI,
        evaluator: Evaluator,
        names: Callable[[], Sequence[str]],
        handlers: Callable[[TaskDefinition], Handler | None],
        task_list: str = DEFAULT_TASK_LIST,
        owner: str = "",
        lease_ms: int = DEFAULT_LEASE_MS,
        *,
        max_deliveries: int = MAX_DELIVERIES,
        run: Runner | None = None,
        guard: Guard | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._store = store
        self._evaluator = evaluator
        self._names = names
        self._handlers = handlers
        self._task_list = task_list
        self._owner = owner or new_id()
        self._lease_ms = lease_ms
        self._max_deliveries = max_deliveries
        self._run = run
        self._guard = guard
        self._clock = clock
        #: Whether something new was announced, and nobody has looked what.
        self._is_told = False
        #: Until when, by the monotonic clock, a claim of one needs no look at retries that have
        #: become due and at what others have abandoned: there was one a moment ago.
        self._is_known_until = 0.0
        #: Whether there was something here that must not be done twice: its claims have to be
        #: durable, and together they are so with less waiting than one by one.
        self._claims_durably = False
        #: The names of the last claim, and what was asked for along with results since.
        self._next: tuple[Sequence[str], dict[Room, NextClaim]] = ((), {})

    # Claims

    @property
    def lease_s(self) -> float:
        return self._lease_ms / 1000

    def claim(self, limit: int) -> list[TaskWork]:
        names = self._names()
        if not names:
            return []
        asked_at, is_durable = self._clock.monotonic(), self._claims_durably
        is_told, self._is_told = self._is_told, False
        is_look = not is_told and (limit > 1 or asked_at >= self._is_known_until)
        tasks = self._claimed(names, limit, is_look=is_look, is_durable=is_durable)
        if not tasks and not is_look and not is_told:
            is_look = True
            tasks = self._claimed(names, limit, is_look=True, is_durable=is_durable)
        if len(tasks) < limit:
            self._is_known_until = 0.0
        elif is_look:
            self._is_known_until = asked_at + _LOOK_S
        return [TaskWork(each, is_durable) for each in tasks]

    def _claimed(
        self, names: Sequence[str], limit: int, *, is_look: bool, is_durable: bool
    ) -> list[TaskDefinition]:
        return self._store.claim_tasks(
            names,
            limit,
            task_list=self._task_list,
            owner=self._owner,
            lease_ms=self._lease_ms,
            is_told=not is_look,
            is_durable=is_durable,
        )

    def wait(self, timeout: float | None, stop: threading.Event) -> bool:
        names = self._names()
        if not names:
            self._clock.wait(stop, timeout)
            return False
        woken = self._store.wait_for_news(names, timeout, task_list=self._task_list, stop=stop)
        self._is_told = woken is Wake.NEWS
        return woken is not Wake.NOTHING

    def extend(self, works: Sequence[TaskWork]) -> list[bool]:
        return self._store.extend_leases([each.claim for each in works], self._lease_ms)

    def release(self, works: Sequence[TaskWork]) -> None:
        tasks = [each.task for each in works]

        def decision(view: View) -> tuple[IterationChanges, None]:
            stored = view.get_tasks([each.uuid for each in tasks])
            changes, now = IterationChanges(), view.now_ms()
            for task in tasks:
                found = stored.get(task.uuid)
                if found is not None and holds(found, task.fence):
                    back = replace(released(found, now), version=found.version)
                    changes.add_updated_task(back)
            return changes, None

        self._store.decide(decision)
        if self._guard is not None:
            for each in works:
                self._guard.leave(each)

    # How a task is done

    def job(self, work: TaskWork) -> Job:
        task = work.task
        if task.deliveries > self._max_deliveries:
            raise GivenUp(
                f"{task.name} was handed out {task.deliveries} times without an end: its handler "
                "seems to end the process; correct it, then retry the step"
            )
        if task.name == SCRIPT_TASK:
            return Job(InThread(partial(self._do_script, task)))
        handler = work.handler = self._handlers(task)
        if handler is None:
            raise NotNow(f"nobody here serves {task.name} any more")
        if handler.on_lost == OnLost.UNKNOWN:
            self._require_first(work)
        if self._guard is not None:
            self._enter(self._guard, work)
        timeout_ms = task.timeout_ms or handler.timeout_ms
        return Job(self._how(handler, task), timeout_ms / 1000 if timeout_ms else None)

    def _require_first(self, work: TaskWork) -> None:
        """What must not be done twice begins once, and only if nothing can undo its claim: not even
        a loss of power, after which it would seem never to have begun."""
        if work.task.deliveries > 1:
            raise GivenUp(
                f"a worker was lost while it did {work.label}, and nobody knows how far it came; "
                "find that out, then retry the step or discard the task"
            )
        self._claims_durably = True
        if work.is_durable:
            return
        try:
            is_held = all(self.extend([work]))
        except StoreError as error:  # which says nothing about the task
            raise NotNow(f"its claim cannot be made durable now: {error}") from error
        if not is_held:
            raise NotNow("somebody else has it, or it is over")

    def _enter(self, guard: Guard, work: TaskWork) -> None:
        try:
            guard.enter(work)
        except StoreError as error:  # which says nothing about the task
            raise NotNow(f"it cannot be locked now: {error}") from error

    def _how(self, handler: Handler, task: TaskDefinition) -> How:
        if handler.isolation == Isolation.PROCESS:
            return in_process(handler, task, partial(self._told, task))
        if handler.is_async:
            return OnLoop(partial(self._call_async, handler, task))
        return InThread(partial(self._call, handler, task))

    def _call(self, handler: Handler, task: TaskDefinition, attempt: Attempt) -> Any:
        # Most take none, and making it is a quarter of what calling them costs.
        context = self._context(task, attempt) if handler.takes_context else None
        return invoke(handler, task, context, self._run or partial(run_shared, attempt))

    def _told(self, task: TaskDefinition, attempt: Attempt, kind: str, value: Any) -> None:
        """A handler said something in the process that it runs in."""
        tell(self._context(task, attempt), kind, value)

    async def _call_async(self, handler: Handler, task: TaskDefinition, attempt: Attempt) -> Any:
        context = self._context(task, attempt)
        if self._run is not None:
            return await invoke_async(handler, task, context)
        parts = LoopParts(context.on_update, task.name)
        try:
            result = await invoke_async(handler, task, replace(context, on_update=parts.add))
            await parts.settled()
        finally:
            parts.give_up()
        return result

    def _do_script(self, task: TaskDefinition, _attempt: Attempt) -> ScriptResult:
        try:
            return self._evaluator.run_script(task)
        except OSError as error:  # which says nothing about the script
            reason = f"its script cannot be run here now: {error}"
            raise NotNow(reason, not_before=task.updated + _NO_PROCESS_MS) from error

    # What a handler says meanwhile

    def _context(self, task: TaskDefinition, attempt: Attempt) -> HandlerContext:
        return HandlerContext(
            task,
            attempt.deadline,
            attempt.beat,
            partial(self._update, task, attempt),
            partial(self._note, task),
            attempt.cancellation,
        )

    def _update(self, task: TaskDefinition, attempt: Attempt, values: Mapping[str, Any]) -> None:
        write = partial(self._evaluator.update_step, StepId(task.step_id), fence=task.fence)
        written_patiently(write, values, attempt, self.lease_s, self._clock)

    def _note(self, task: TaskDefinition, message: str, level: str) -> None:
        """A line of a handler, in the log of its run; in order, but nobody waits for it."""

        def decision(view: View) -> tuple[IterationChanges, None]:
            line = note_of(task, message, level, view.now_ms())
            return IterationChanges(logs=[line]), None

        try:
            self._store.decide_later(decision).add_done_callback(_report_lost_note)
        except StoreError as error:
            _log.warning("handler_log_not_written", error=str(error))

    # Ends

    def complete(self, work: TaskWork, result: Any, room: Room) -> _Recording:
        task = work.task
        if not task.step_id:
            return _Recording(self._end_alone(task, TaskState.COMPLETED))
        claim = self._next_claim(room)
        if task.name == SCRIPT_TASK:
            return _Recording(self._evaluator.complete_script_later(task, result, claim=claim))
        return _Recording(self._evaluator.complete_task_later(task, result, claim=claim))

    def fail(self, work: TaskWork, error: BaseException) -> _Recording:
        task, handler = work.task, work.handler
        if isinstance(error, NotNow):
            not_before = error.not_before
            return _over_after(lambda: self._store.release_task(work.claim, not_before=not_before))
        if isinstance(error, GivenUp) and task.step_id:
            reason, claim = str(error), self._next_claim(NO_ROOM)
            return _over_after(lambda: self._evaluator.dead_letter_task(task, reason, claim=claim))
        if not task.step_id:
            is_given_up = isinstance(error, GivenUp)
            state = TaskState.DEAD_LETTER if is_given_up else TaskState.FAILED
            return _Recording(self._end_alone(task, state, _failure_of(error).to_dict()))
        if isinstance(error, TimedOut):
            error = TimedOut(f"the handler of {error}")
        retry = handler.retry if handler is not None else None
        failure, claim = _failure_of(error), self._next_claim(NO_ROOM)
        pending = self._evaluator.fail_task_later(task, failure, retry=retry, claim=claim)
        return _Recording(pending)

    def _next_claim(self, room: Room) -> NextClaim | None:
        """What to claim along with a result; without room it says at least what is done here, so
        that a script is left to this worker or another, and done by nobody on its way. Made once
        for each room, as long as the names are the same: results come by the thousand."""
        names = self._names()
        known, claims = self._next
        if known is not names:
            claims = {}
            self._next = (names, claims)
        found = claims.get(room)
        if found is None and names:
            task_list = self._task_list if room.is_last else None
            found = NextClaim(frozenset(names), self._owner, room.size, self._lease_ms, task_list)
            claims[room] = found
        return found

    def _end_alone(
        self, task: TaskDefinition, state: TaskState, error: dict[str, Any] | None = None
    ) -> Future[list[TaskDefinition]]:
        """The end of a task that belongs to no step: nothing follows from it."""

        def decision(view: View) -> tuple[IterationChanges, list[TaskDefinition]]:
            stored = view.get_task(task.uuid)
            if stored is None or not holds(stored, task.fence):
                raise StaleFence(task.uuid, task.fence, "somebody else has it, or it is over")
            changes = IterationChanges()
            changes.add_updated_task(ended(stored, state, view.now_ms(), error))
            return changes, []

        return self._store.decide_later(decision)


def _failure_of(error: BaseException) -> StepFailure:
    """With the line of the handler that is to blame, as far as there is one."""
    line = raised_at(error)
    return StepFailure.of(error, {} if line is None else {"raised_at": line})


def run_shared(attempt: Attempt, awaitable: Awaitable[Any]) -> Any:
    """Await it on the event loop that all share, and wait for it on this thread."""
    # Asyncio is large, and many do without it.
    from afl.work.event_loop import is_cancellation, shared_loop

    try:
        return shared_loop().run(awaitable, attempt.when_cancelled)
    except BaseException as error:
        if is_cancellation(error) and attempt.cancellation.is_set():
            raise was_cancelled(attempt.label) from None
        raise


def note_of(task: TaskDefinition, message: str, level: str, now: int) -> LogDefinition:
    """A line in the log of a run, by the handler of a task."""
    return LogDefinition(
        new_id(),
        now * 1000,  # as the engine numbers its own lines
        task.runner_id,
        task.step_id,
        object_id=task.uuid,
        object_type="task",
        note_originator=NoteOriginator.AGENT,
        note_type=level if level in set(NoteType) else NoteType.INFO,
        message=message,
        time=now,
    )


def _report_lost_note(written: Future[None]) -> None:
    with suppress(BaseException):  # nobody listens to what a callback raises
        error = written.exception()
        if error is not None:
            _log.warning("handler_log_not_written", error=str(error))


# Recordings


class _Pending(Protocol):
    def done(self) -> bool: ...

    def result(self, timeout: float | None = None) -> Sequence[TaskDefinition]: ...


class _Recording:
    """An end on its way to the store, as the consumer sees it."""

    __slots__ = ("_pending",)

    def __init__(self, pending: _Pending) -> None:
        self._pending = pending

    def done(self) -> bool:
        return self._pending.done()

    def result(self, timeout: float | None = None) -> list[TaskWork]:
        try:
            tasks = self._pending.result(timeout)
        except (StaleFence, NotFound) as lost:  # its run may have been removed meanwhile
            raise ClaimLost(str(lost)) from lost
        return [TaskWork(each, is_durable=True) for each in tasks]


@dataclass(frozen=True, slots=True)
class _Over:
    """An end that has been written, or could not be."""

    error: StoreError | None = None

    def done(self) -> bool:
        return True

    def result(self, timeout: float | None = None) -> list[TaskDefinition]:  # noqa: ARG002
        if self.error is not None:
            raise self.error
        return []


def _over_after(write: Callable[[], object]) -> _Recording:
    try:
        write()
    except StoreError as error:
        return _Recording(_Over(error))
    return _Recording(_Over())
