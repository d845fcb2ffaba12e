"""What processes of the laboratory do. Each job runs in a process of its own and may be killed."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from tests.engine.cases import BY_NAME, check_result, evaluator_for, expected
from tests.engine.ledger import Ledger
from tests.engine.places import Store, open_at
from tests.engine.rest import check_rest, shape_of
from tests.engine.worker import NAMES, finish, run_handler

from afl.clock import SystemClock
from afl.db.postgres.wire import Connection
from afl.db.sqlite import writer
from afl.db.sqlite.connection import connect
from afl.ids import new_id
from afl.runtime.entities import RunnerState, TaskDefinition, TaskState
from afl.runtime.errors import StaleFence
from afl.runtime.evaluator import Evaluator
from afl.runtime.postgres_store import queue, tasks
from afl.runtime.types import StepId, WorkflowId

_KEY = "the run"


class ShiftedClock(SystemClock):
    """The time of this machine, some time later: leases of those who died have lapsed."""

    def __init__(self, hours: float) -> None:
        self._shift = timedelta(hours=hours)

    def now(self) -> datetime:
        return super().now() + self._shift

    def skip(self, seconds: float) -> None:
        self._shift += timedelta(seconds=seconds)


#: Of PostgreSQL: the end of a transaction, and statements that are one by themselves.
_COMMITS = {"COMMIT", queue.CLAIM, queue.CLAIM_EXACT, tasks.EXTEND}


#: Of MongoDB: the end of a transaction, and changes outside of one.
_MONGO_COMMITS = (
    (ClientSession, "commit_transaction"),
    (Collection, "find_one_and_update"),
    (Collection, "bulk_write"),
)


class CommitCounter:
    """Counts the commits of this process and, at one of them, kills it."""

    def __init__(self, deadly: int = 0, side: str = "") -> None:
        self.count = 0
        self._deadly = deadly
        self._side = side

    def watch(self) -> None:
        """From now on. Nothing else opens a database in this process."""
        setattr(writer, "connect", self._connect)  # noqa: B010
        ask = Connection.ask

        def counted(connection: Connection, statements: Sequence[tuple[str, Any]]) -> Any:
            ends = any(sql in _COMMITS for sql, _ in statements)
            with self.committing() if ends else nullcontext():
                return ask(connection, statements)

        setattr(Connection, "ask", counted)  # noqa: B010
        for kind, name in _MONGO_COMMITS:
            self._count(kind, name)

    def _count(self, kind: type, name: str) -> None:
        method = getattr(kind, name)

        def counted(itself: Any, *args: Any, session: Any = None, **options: Any) -> Any:
            if session is not None:  # part of a transaction
                return method(itself, *args, session=session, **options)
            with self.committing():
                return method(itself, *args, **options)

        setattr(kind, name, counted)

    def _connect(self, *args: Any, **options: Any) -> Any:
        return _Counted(connect(*args, **options), self)

    @contextmanager
    def committing(self) -> Iterator[None]:
        self.count += 1
        self._die("before")
        yield
        self._die("after")

    def _die(self, side: str) -> None:
        if (self.count, side) == (self._deadly, self._side):
            os.kill(os.getpid(), signal.SIGKILL)


class _Counted:
    """A connection whose commits are counted."""

    def __init__(self, connection: sqlite3.Connection, counter: CommitCounter) -> None:
        self._connection = connection
        self._counter = counter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        if sql != "COMMIT":
            return self._connection.execute(sql, *parameters)
        with self._counter.committing():
            return self._connection.execute(sql)


def attempt(
    place: str,
    case_name: str,
    port: int,
    *,
    life: int = 0,
    deadly: int = 0,
    side: str = "",
    defect: str = "",
) -> int:
    """Bring a run to its end, wherever it stands, and check everything; how many commits it took.

    Dies `before` or `after` its commit number `deadly`. A `defect` is a mistake that workers
    could make.
    """
    counter = CommitCounter(deadly, side)
    counter.watch()
    clock = ShiftedClock(hours=life)
    with open_at(place, clock) as store, closing(Ledger(port)) as ledger:
        known = store.get_run_by_key(_KEY)
        if known is not None:
            check_rest(store, WorkflowId(known.workflow_id))
        _bring_to_end(store, clock, ledger, case_name, DEFECTS.get(defect, _do))
    return counter.count


def _bring_to_end(
    store: Store, clock: ShiftedClock, ledger: Ledger, case_name: str, do: Do
) -> None:
    case = BY_NAME[case_name]
    evaluator = evaluator_for(case, store)
    run_id = evaluator.submit(case.program, case.workflow, case.inputs, key=_KEY)
    while store.get_runners_by_state(RunnerState.RUNNING):
        evaluator.resume(run_id)  # scripts of those who died
        # Two at once: one of them is claimed, and not yet done, while the other one ends.
        for task in store.claim_tasks(NAMES, 2):
            do(evaluator, ledger, task)
        clock.skip(1)
    check_rest(store, run_id)
    check_result(case, evaluator.result(run_id))
    assert shape_of(store, run_id) == expected(case_name).shape
    ledger.check(case_name, run_id)


def _do(evaluator: Evaluator, ledger: Ledger, task: TaskDefinition) -> None:
    ledger.deliver(task)
    finish(evaluator, task)


def _do_in_two_commits(evaluator: Evaluator, ledger: Ledger, task: TaskDefinition) -> None:
    ledger.deliver(task)
    evaluator.persistence.update_task_state(task.uuid, TaskState.COMPLETED)
    evaluator.continue_step(StepId(task.step_id), run_handler(task))


def _do_with_a_new_key(evaluator: Evaluator, ledger: Ledger, task: TaskDefinition) -> None:
    ledger.deliver(replace(task, idempotency_key=new_id()))
    finish(evaluator, task)


Do = Callable[[Evaluator, Ledger, TaskDefinition], None]
#: What the laboratory must find.
DEFECTS: dict[str, Do] = {"two commits": _do_in_two_commits, "a new key": _do_with_a_new_key}


def work(place: str, port: int, *, lease_ms: int) -> int:
    """Do tasks of all runs, together with others, until every run is over; how many were done."""
    done = 0
    with open_at(place) as store, closing(Ledger(port)) as ledger:
        evaluator = Evaluator(store)
        while store.get_runners_by_state(RunnerState.RUNNING):
            for task in store.claim_tasks(NAMES, 3, lease_ms=lease_ms):
                with suppress(StaleFence):  # it took too long: somebody else has it
                    _do(evaluator, ledger, task)
                    done += 1
            store.wait_for_work(NAMES, 0.1)
    return done


JOBS: dict[str, Callable[..., int]] = {"attempt": attempt, "work": work}
