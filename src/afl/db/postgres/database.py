"""A PostgreSQL database as one process sees it: a pool of connections, and one that listens.

Everything that keeps data there shares this object. It knows no table.
"""

from __future__ import annotations

import logging
import select
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, repeat
from typing import Any, TypeAlias, TypeVar

import psycopg
from psycopg.errors import DeadlockDetected, InvalidSqlStatementName, SerializationFailure
from psycopg.types.numeric import Int8Dumper
from psycopg_pool import ConnectionPool, PoolTimeout

from afl.clock import SYSTEM_CLOCK, Clock
from afl.db.postgres.address import connection_info, place_of
from afl.db.postgres.errors import errors_translated
from afl.db.postgres.news import Bell, announcing, ask_and_announce
from afl.db.postgres.transacting import roll_back, transacted, viewed
from afl.db.postgres.transaction import Reader, Transaction
from afl.db.postgres.wire import USELESS, Connection, Parameters, PlanOutdated, Row
from afl.db.sharing import Held, Registry
from afl.errors import ConfigurationError

T = TypeVar("T")
Cursor: TypeAlias = "psycopg.Cursor[Row]"

_POOL_SIZE = 10  # where nobody wishes for another number
_PATIENCE_S = 30.0  # for a connection to come free
#: How long to wait at a time. Who comes back is last again, so only the first looks are quick.
_LOOKS_S = (0.05, 0.2, 1.0)
_ATTEMPTS = 5
#: What may go well at the next try: two who change the same rows may block each other, and then
#: one of them is undone; and what is prepared on a connection may be gone or outdated.
IN_THE_WAY = (DeadlockDetected, SerializationFailure, InvalidSqlStatementName, PlanOutdated)
_END_S = 1.0  # for threads that are just connecting

# Whoever set up no logging is told by our errors alone what the pool would print.
logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())


class PostgresDatabase(Held):
    """`pool_size` connections at most, or ten, and one more that listens, opened when they are
    needed. `clock` counts how long waits at the bell last.

    Raises ConfigurationError for a URL that cannot be; that nobody answers there shows at the
    first call.
    """

    def __init__(
        self, url: str, *, pool_size: int | None = None, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        info = connection_info(url)
        super().__init__(place_of(info))
        self._wished_size = pool_size
        self._connects = _Connects()
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            info,
            connection_class=self._connects.connection_class(),
            kwargs={"autocommit": True},
            min_size=0,
            max_size=pool_size or _POOL_SIZE,
            open=True,
            configure=_configure,
            # Give up at once: who asks next tries again, and is told what is wrong.
            reconnect_timeout=0,
            num_workers=2,
        )
        self.bell = Bell(self.place, info, self._publish, clock=clock, guard=self.check)

    def wish(self, pool_size: int | None) -> None:
        """Have so many connections, for all who share them. None is no wish. Raises
        ConfigurationError if somebody has wished for another number."""
        with self._holding:
            if pool_size is None or pool_size == self._wished_size:
                return
            if self._wished_size is not None:
                raise ConfigurationError(
                    f"{self.place} is open already in this process with pool_size="
                    f"{self._wished_size}, and its connections are shared; say the same number "
                    "everywhere, or in one place only"
                )
            self._wished_size = pool_size
            self._pool.resize(0, pool_size)

    def query(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """Run one statement, which is committed when this returns; its rows.

        Raises StoreUnavailable, after which it may have been done or not; Conflict.
        """

        def run(connection: Connection) -> list[Row]:
            answers, error = connection.ask([(sql, parameters)])
            if error is not None:
                raise error
            return answers[0].rows

        return self._run(run)

    def change(self, sql: str, parameters: Parameters, topic: str) -> list[Row]:
        """Like `query`, and wake whoever waits for `topic`, in all processes."""

        def run(connection: Connection) -> list[Row]:
            statements = [("BEGIN", ()), (sql, parameters), ("COMMIT", ())]
            answers, error = ask_and_announce(connection, statements, (topic,))
            if error is not None:
                roll_back(connection)
                raise error
            return answers[1].rows

        return self._run(run)

    def transact(self, fn: Callable[[Cursor], T], topic: str | None = None) -> T:
        """Run `fn` in a transaction, which is committed when this returns; then, if its answer is
        not empty, wake whoever waits for `topic`. What `fn` raises comes out here, and nothing that
        it did is applied. Raises as `query` does.

        `fn` is run again if others were in its way.
        """

        def run(connection: Connection) -> T:
            with connection.transaction(), connection.cursor() as cursor:
                answer = fn(cursor)
            if topic is not None and answer:
                ask_and_announce(connection, (), (topic,))
            return answer

        return self._run(run)

    def read(self, fn: Callable[[Reader], T]) -> T:
        """Run `fn`, which only asks; each question sees what is committed by then. Raises as
        `query` does."""

        def run(connection: Connection) -> T:
            reader = Reader(connection)
            try:
                return fn(reader)
            finally:
                reader.end()

        return self._run(run)

    def view(self, fn: Callable[[Reader], T]) -> T:
        """Like `read`; but all questions see the same moment."""

        return self._run(lambda connection: viewed(connection, fn))

    def write(self, fn: Callable[[Transaction], T], *, told: int | None = None) -> T:
        """Like `transact`, with announcements and the time. `told` is the time of tests."""

        return self._run(lambda connection: transacted(connection, told, fn))

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """One of the pool, for who does more with it than one transaction. Errors of PostgreSQL,
        also those of connecting, come out as they are."""
        self.check()
        with self._lent() as connection:
            yield connection

    def _run(self, fn: Callable[[Connection], T]) -> T:
        self.check()
        with errors_translated(self.place):
            for _ in range(_ATTEMPTS - 1):
                with suppress(*IN_THE_WAY):
                    return self._attempt(fn)
            return self._attempt(fn)

    def _attempt(self, fn: Callable[[Connection], T]) -> T:
        with self._lent() as connection:
            return fn(connection)

    @contextmanager
    def _lent(self) -> Iterator[Connection]:
        connection = self._get()
        try:
            yield connection
        except USELESS as error:
            connection.close()
            if isinstance(error, PlanOutdated):
                self._pool.drain()  # the others will have the same to say
            raise
        finally:
            self._pool.putconn(connection)

    def _get(self) -> Connection:
        """One that is open. After a restart of the server all are lost that it has; the pool itself
        would pause after each of those."""
        while True:
            connection = self._from_pool()
            is_lost = True
            try:
                is_lost = _is_lost(connection)
                if not is_lost:
                    return connection
            finally:
                if is_lost:
                    connection.close()
                    self._pool.putconn(connection)

    def _from_pool(self) -> Connection:
        deadline = SYSTEM_CLOCK.monotonic() + _PATIENCE_S
        failures = self._connects.failures
        for patience_s in chain(_LOOKS_S, repeat(_LOOKS_S[-1])):
            try:
                return self._pool.getconn(patience_s)
            except PoolTimeout:
                # The pool does not tell its waiters that it could not connect.
                if (error := self._connects.error) and self._connects.failures > failures:
                    raise error from None
                if SYSTEM_CLOCK.monotonic() >= deadline:
                    raise
        raise AssertionError("it is repeated for ever")

    def _publish(self, topics: tuple[str, ...]) -> None:
        for statement in announcing(topics):
            self.query(*statement)

    def _end(self) -> None:
        self.bell.close()
        self._pool.close(_END_S)


class _Connects:
    """How it went to connect."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.failures = 0
        self.error: psycopg.Error | None = None

    def connection_class(self) -> type[Connection]:
        watched = self

        class Watched(Connection):
            @classmethod
            def connect(cls, *arguments: Any, **options: Any) -> Any:
                try:
                    return super().connect(*arguments, **options)
                except psycopg.Error as error:
                    watched.failed(error)
                    raise

        return Watched

    def failed(self, error: psycopg.Error) -> None:
        with self._lock:
            self.failures += 1
            # A copy: one exception raised on many threads would collect the tracebacks of all.
            self.error = type(error)(*error.args)


#: Plans are made once for each statement and connection: making one anew takes longer than most
#: statements. One made while a table was empty would read all of it when it is full; so rows are
#: looked up one by one, by the index that fits best. Nothing here is long enough to be compiled,
#: which takes longer than all of it. Who hangs in the middle of a transaction lets
#: go of what it has locked; who waits for a lock does not wait for ever.
SETTINGS = """\
SELECT set_config('plan_cache_mode', 'force_generic_plan', false),
    set_config('enable_seqscan', 'off', false),
    set_config('enable_bitmapscan', 'off', false),
    set_config('enable_hashjoin', 'off', false),
    set_config('enable_mergejoin', 'off', false),
    set_config('jit', 'off', false),
    set_config('idle_in_transaction_session_timeout', '10s', false),
    set_config('lock_timeout', '20s', false)"""


def _configure(connection: Connection) -> None:
    connection.execute(SETTINGS)
    # We prepare statements ourselves. The driver would forget them with each transaction undone.
    connection.prepare_threshold = None
    # One type for all numbers: else small and large ones would each need plans of their own.
    connection.adapters.register_dumper(int, Int8Dumper)


def _is_lost(connection: Connection) -> bool:
    """Whether the server has closed it.

    Hardly anything else comes in on an idle connection, so the server is asked only then. Those
    who call after a restart do not notice it.
    """
    try:
        incoming = select.poll()
        incoming.register(connection.fileno(), select.POLLIN)
        if incoming.poll(0):
            connection.execute("SELECT 1")
    except psycopg.OperationalError:
        return True
    return False


_registry: Registry[PostgresDatabase] = Registry()


def open_postgres(
    url: str, *, pool_size: int | None = None, clock: Clock = SYSTEM_CLOCK
) -> PostgresDatabase:
    """The database at a URL (`postgresql://user:password@host:5432/database`).

    Whoever opens the same place again shares the object; each must close it. Raises
    ConfigurationError for a URL that cannot be, and if it is open already with another clock or
    another wish for its `pool_size`.
    """
    database = _registry.open(
        connection_info(url),  # one place may be written in several ways
        (clock,),
        lambda: PostgresDatabase(url, pool_size=pool_size, clock=clock),
    )
    try:
        database.wish(pool_size)
    except BaseException:
        database.close()
        raise
    return database
