"""The writer: requests that wait together share a transaction.

- Each runs in a savepoint of its own, so one that raises undoes only itself.
- Only the first of a transaction waits for rows that others have locked. The rest would wait with
  rows in hand that somebody else may want: what cannot be had at once is done alone afterwards.
- A request that met a row which was not there when it looked is run again, and sees it.

If the connection is lost in a commit nobody knows what became of it. The callers are told just
that, never that nothing was written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from psycopg import errors

from afl.db.batching import Batching, Request
from afl.db.postgres.database import IN_THE_WAY, PostgresDatabase
from afl.db.postgres.errors import meaning_of
from afl.db.postgres.transacting import roll_back, transacted
from afl.db.postgres.transaction import Transaction
from afl.db.postgres.wire import Connection

#: Others were in the way of one request.
_LATER = (errors.LockNotAvailable, errors.UniqueViolation)
_ATTEMPTS = 5
_FIRST = "SAVEPOINT request"
#: Once we have locked some rows ourselves, we wait for others as long as a commit takes.
_NEXT = f"SET LOCAL lock_timeout = '5ms'; {_FIRST}"
_RELEASE = "RELEASE SAVEPOINT request"
_UNDO = "ROLLBACK TO SAVEPOINT request; RELEASE SAVEPOINT request"

Wish = Request[Transaction]


class Writer(Batching[Transaction]):
    """Writes to one database. `told` gives the time of tests, None for that of the server."""

    def __init__(
        self,
        database: PostgresDatabase,
        told: Callable[[], int | None],
        batch_size: int = 64,
    ) -> None:
        self._database = database
        self._told = told
        super().__init__(database.place, batch_size, "afl-postgres-writer")

    def _commit(self, requests: Sequence[Wish]) -> None:
        alone = requests if len(requests) == 1 else self._together(requests)
        for each in alone:
            self._alone(each)

    def _together(self, requests: Sequence[Wish]) -> Sequence[Wish]:
        """Those that must be tried alone."""
        try:
            with self._database.connection() as connection:
                return self._in_one_transaction(connection, requests)
        except IN_THE_WAY:
            return requests
        except Exception as error:
            for each in requests:
                # One exception for each: a shared one would collect the tracebacks of all callers.
                each.error = meaning_of(error, self._place)
            return ()

    def _in_one_transaction(self, connection: Connection, requests: Sequence[Wish]) -> list[Wish]:
        whole = Transaction(connection, self._told())
        later: list[Wish] = []
        try:
            for number, each in enumerate(requests):
                if not self._is_decided(connection, whole, each, _FIRST if number == 0 else _NEXT):
                    later.append(each)
            whole.commit()
        except BaseException:
            roll_back(connection)
            raise
        finally:
            whole.end()
        return later

    def _is_decided(
        self, connection: Connection, whole: Transaction, request: Wish, savepoint: str
    ) -> bool:
        """Run one of many, and undo it alone if it raises. False if it must be tried again."""
        part = Transaction(connection, whole.told, whole.now)
        connection.execute(savepoint, prepare=False)
        try:
            request.value = request.fn(part)
            part.flush()
        except BaseException as error:
            if connection.closed or isinstance(error, IN_THE_WAY):
                raise
            connection.execute(_UNDO, prepare=False)
            request.error = meaning_of(error, self._place)
            return not isinstance(error, _LATER)
        else:
            connection.execute(_RELEASE, prepare=False)
            whole.announce_for(part)
            return True
        finally:
            part.end()

    def _alone(self, request: Wish) -> None:
        was_refused = False
        for _ in range(_ATTEMPTS):
            try:
                with self._database.connection() as connection:
                    request.value = transacted(connection, self._told(), request.fn)
                request.error = None
                return
            except BaseException as error:  # also SystemExit: it is the request that ends, not we
                request.error = meaning_of(error, self._place)
                is_refused = isinstance(error, errors.UniqueViolation)
                if not is_refused and not isinstance(error, IN_THE_WAY):
                    return
                if is_refused and was_refused:
                    return  # it has looked again
                was_refused = is_refused
