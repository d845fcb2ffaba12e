"""The store on PostgreSQL: any number of processes on any number of machines."""

from __future__ import annotations

from concurrent.futures import Future
from types import TracebackType
from typing import TypeVar

from afl.clock import SYSTEM_CLOCK, Clock
from afl.db.postgres import Reader, Transaction
from afl.db.postgres.errors import refusing
from afl.runtime.asking.lists import AskedLists
from afl.runtime.asking.steps import AskedSteps
from afl.runtime.conveniences import Conveniences
from afl.runtime.persistence import Decision, IterationChanges
from afl.runtime.postgres_store import events, lists, steps
from afl.runtime.postgres_store.catalog_port import CatalogPort
from afl.runtime.postgres_store.changes import apply
from afl.runtime.postgres_store.holding import Holding
from afl.runtime.postgres_store.run_port import RunPort
from afl.runtime.postgres_store.task_port import TaskPort
from afl.runtime.postgres_store.view import PostgresView
from afl.runtime.remote_access import Told

T = TypeVar("T")


class PostgresStore(
    AskedSteps[Reader, Transaction],
    AskedLists[Reader],
    TaskPort,
    RunPort,
    CatalogPort,
    Conveniences,
):
    """Keeps all of `afl.runtime.persistence.PersistenceAPI` in a PostgreSQL database.

    `url` is `postgresql://user:password@host:5432/database`. `owner` is who claims tasks and holds
    locks where nobody else is named; a fresh id unless it is given. `pool_size` is how many
    connections this process uses at most, beside one that listens: ten, unless somebody says
    otherwise; everything that opens the same URL in a process shares them. `clock` counts how long
    waits last, and `told` is the time in place of the server's: both are for tests.

    Decisions of a process that wait together share a transaction. Those about different runs, in
    different processes, do not wait for each other. Raises ConfigurationError for a URL that
    cannot be, StoreUnavailable while nobody answers there, and NewerSchema for tables that only a
    newer afl understands.
    """

    _steps, _events, _lists = steps, events, lists

    def __init__(
        self,
        url: str,
        *,
        owner: str | None = None,
        pool_size: int | None = None,
        clock: Clock = SYSTEM_CLOCK,
        told: Told | None = None,
    ) -> None:
        super().__init__(url, owner, pool_size, clock, told)

    def decide(self, decision: Decision[T]) -> T:
        self._require_open()
        self._forbid_in_decision("another decision")
        return self.writer.run(lambda tx: _decided(tx, decision))

    def decide_later(self, decision: Decision[T]) -> Future[T]:
        self._require_open()
        return self.writer.submit(lambda tx: _decided(tx, decision))

    def commit(self, changes: IterationChanges) -> None:
        self._write(apply, changes)

    def __enter__(self) -> PostgresStore:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _decided(tx: Transaction, decision: Decision[T]) -> T:
    holding = Holding(tx)
    changes, answer = decision(PostgresView(tx, holding))
    with refusing():
        apply(tx, changes, holding)
    return answer
