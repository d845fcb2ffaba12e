"""The store on SQLite: one file, any number of processes on one machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import TypeVar

from afl.clock import SYSTEM_CLOCK, Clock
from afl.collector import collector_paused
from afl.db.sqlite import Reader, Transaction
from afl.runtime.asking.lists import AskedLists
from afl.runtime.asking.steps import AskedSteps
from afl.runtime.conveniences import Conveniences
from afl.runtime.persistence import Decision, IterationChanges
from afl.runtime.sql_store import events, lists, queue, steps
from afl.runtime.sql_store.catalog_port import CatalogPort
from afl.runtime.sql_store.changes import apply
from afl.runtime.sql_store.foreseen import Foreseen, Prospects
from afl.runtime.sql_store.run_port import RunPort
from afl.runtime.sql_store.task_port import TaskPort
from afl.runtime.sql_store.view import SqliteView

T = TypeVar("T")


class SqliteStore(
    AskedSteps[Reader, Transaction],
    AskedLists[Reader],
    TaskPort,
    RunPort,
    CatalogPort,
    Conveniences,
):
    """Keeps all of `afl.runtime.persistence.PersistenceAPI` in a file, durable across power loss.

    `owner` is who claims tasks and holds locks where nobody else is named; a fresh id unless it
    is given. `poll_interval_s` is how often waiters look for changes that nobody announced.

    Decisions run one after another in a process: everybody else who writes waits for them. Raises
    what `afl.db.sqlite.open_database` raises, and NewerSchema for a file that a newer afl has used.
    """

    _steps, _events, _lists = steps, events, lists

    def __init__(
        self,
        address: str | os.PathLike[str] = "sqlite:///./afl.db",
        *,
        clock: Clock = SYSTEM_CLOCK,
        owner: str | None = None,
        poll_interval_s: float = 0.5,
    ) -> None:
        super().__init__(address, clock, owner, poll_interval_s)
        self._prospects = Prospects()

    def decide(self, decision: Decision[T]) -> T:
        self._require_open()
        return self.database.write(lambda tx: self._decided(tx, decision))

    def decide_later(self, decision: Decision[T]) -> Future[T]:
        self._require_open()
        foreseen = Foreseen(decision, self.now_ms, self._prospects)
        return self.database.submit(lambda tx: self._decided(tx, foreseen), look=foreseen.look)

    def commit(self, changes: IterationChanges) -> None:
        self._write(lambda tx: _apply(tx, changes, self.now_ms()))

    def _decided(
        self, tx: Transaction, decision: Callable[[SqliteView], tuple[IterationChanges, T]]
    ) -> T:
        # Until the changes are written and let go of: the collector would look at all of them.
        with collector_paused():
            now = self.now_ms()
            changes, answer = decision(SqliteView(tx, now))
            _apply(tx, changes, now)
            del changes
        return answer

    def __enter__(self) -> SqliteStore:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _apply(tx: Transaction, changes: IterationChanges, now: int) -> None:
    apply(tx, changes)
    queue.fill(tx, changes.claimings, now)
