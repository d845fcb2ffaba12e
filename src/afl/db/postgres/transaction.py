"""Transactions: what a function that reads or writes is given, for as long as it runs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from psycopg.errors import DivisionByZero

from afl.db.postgres.errors import refusing
from afl.db.postgres.news import ask_and_announce
from afl.db.postgres.statements import Statement
from afl.db.postgres.text import given_row, kept_names, kept_values, topic_of
from afl.db.postgres.wire import Answer, Connection, Parameters, Row
from afl.errors import StoreMisused

_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"

#: The server's time in milliseconds since 1970, or the time that tests tell.
SERVER_TIME = """\
coalesce(%(told)s::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)"""
_CLOCK = f"SELECT {SERVER_TIME}"

_UNDONE = "this transaction was undone after an error; let that error out"


class Reader:
    """Questions to the database. Ends with the function it was given to."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection: Connection | None = connection

    def query_one(self, sql: str, parameters: Parameters = ()) -> Row | None:
        """The first row, or None."""
        rows = self._run(sql, parameters).rows
        return given_row(rows[0]) if rows else None

    def query_all(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """All rows. Writing statements with RETURNING are queries, too."""
        return [given_row(row) for row in self._run(sql, parameters).rows]

    def query_together(self, *questions: tuple[str, Parameters]) -> list[list[Row]]:
        """All rows of each, in one round trip. Each sees what is committed when it begins."""
        answers = self._ask([_Put(sql, [_kept(given)]) for sql, given in questions])
        return [[given_row(row) for row in each.rows] for each in answers]

    def end(self) -> None:
        self._connection = None

    def _run(self, sql: str, parameters: Parameters) -> Answer:
        (answer,) = self._ask([_Put(sql, [_kept(parameters)])])
        return answer

    def _ask(self, puts: Sequence[_Put], topics: Collection[str] = ()) -> list[Answer]:
        """The last answer to each. Topics are announced behind the commit that ends them."""
        if self._connection is None:
            raise StoreMisused(
                "this transaction has ended with the function it was given to; do all of its "
                "work there"
            )
        statements = [each.statements() for each in puts]
        sent = [one for each in statements for one in each]
        answers, error = ask_and_announce(self._connection, sent, topics)
        ends = list(accumulate(map(len, statements)))
        if isinstance(error, DivisionByZero):
            failed = puts[bisect_right(ends, len(answers))]
            raise failed.otherwise or error from error
        if error is not None:
            raise error
        return [answers[end - 1] for end in ends]


class _Put(NamedTuple):
    sql: str | Statement
    rows: list[Any]
    #: What to raise if a guarded statement did not change all rows.
    otherwise: Exception | None = None
    #: Who is given the rows of the answer.
    take: Callable[[list[Row]], object] | None = None

    def statements(self) -> list[tuple[str, Any]]:
        if isinstance(self.sql, Statement):
            return self.sql.of(self.rows) if self.rows else []
        return [(self.sql, each) for each in self.rows]


_BEGIN, _COMMIT = _Put("BEGIN", [()]), _Put("COMMIT", [()])


class Transaction(Reader):
    """A request to change the database: applied as a whole when its function returns, or not.

    It begins with its first question. `now` is the time at its beginning, for one that has begun
    already; `told` is the time of tests.
    """

    __slots__ = ("_is_begun", "_now", "_puts", "_topics", "told")

    def __init__(self, connection: Connection, told: int | None, now: int | None = None) -> None:
        super().__init__(connection)
        self.told = told
        self._now = now
        self._is_begun = now is not None
        self._topics: set[str] = set()
        self._puts: list[_Put] = []

    @property
    def now(self) -> int:
        """The time at its beginning, by the clock of the server, in milliseconds."""
        if not self._is_begun:
            self._ask(())
        if self._now is None:
            raise StoreMisused(_UNDONE)
        return self._now

    @property
    def clock(self) -> tuple[str, Parameters]:
        """The question for the time at this moment: later than whatever a lock has let us see."""
        return _CLOCK, {"told": self.told}

    def read_clock(self) -> int:
        ((now,),) = self.query_all(*self.clock)
        return int(now)

    def execute(self, sql: str, parameters: Parameters = ()) -> int:
        """Run one statement; the number of rows it inserted, changed or deleted."""
        return self._run(sql, parameters).size

    def lock(self, name: str) -> None:
        """Be the only one, until the end, who has locked this name: for what no row stands for
        that could be locked."""
        self.query_one(_LOCK, (name,))

    def put(
        self,
        sql: str | Statement,
        rows: Iterable[Parameters],
        otherwise: Exception | None = None,
    ) -> None:
        """Run a statement for each of these, with `flush` or at the end. If a statement that is
        guarded does not change all of them, `otherwise` is raised there."""
        # A statement of ours sees to its rows itself, for all of them at once.
        sent = list(rows) if isinstance(sql, Statement) else [_kept(row) for row in rows]
        if sent:
            self._puts.append(_Put(sql, sent, otherwise))

    def put_question(
        self, sql: str, parameters: Parameters, take: Callable[[list[Row]], object]
    ) -> None:
        """Like `put`; `take` is given the rows, after the commit if that goes along with it."""
        self._puts.append(_Put(sql, [_kept(parameters)], take=take))

    def flush(self) -> None:
        """Do all that was put, in its order and in one round trip."""
        if puts := self._outstanding():
            self._do(puts)

    def announce_for(self, part: Transaction) -> None:
        """A part has no commit of its own that could announce something."""
        self._topics |= part._topics

    def commit(self) -> None:
        """Do all that was put, and commit. Nothing may follow."""
        puts = self._outstanding()
        if self._is_begun or puts or self._topics:
            *_, end = self._do([*puts, _COMMIT], self._topics)
            if end.status != "COMMIT":
                raise StoreMisused(_UNDONE)

    def announce(self, topic: str) -> None:
        """Wake whoever waits for `topic`, in all processes, once this is committed. If it is not,
        nobody is."""
        self._topics.add(topic_of(topic))

    def _outstanding(self) -> list[_Put]:
        puts, self._puts = self._puts, []
        return puts

    def _do(self, puts: Sequence[_Put], topics: Collection[str] = ()) -> list[Answer]:
        with refusing():
            answers = self._ask(puts, topics)
        for put, answer in zip(puts, answers, strict=True):
            if put.take is not None:
                put.take([given_row(row) for row in answer.rows])
        return answers

    def _ask(self, puts: Sequence[_Put], topics: Collection[str] = ()) -> list[Answer]:
        if self._is_begun:
            return super()._ask(puts, topics)
        self._is_begun = True
        sql, told = self.clock
        _, time, *answers = super()._ask([_BEGIN, _Put(sql, [told]), *puts], topics)
        self._now = int(time.rows[0][0])
        return answers


def _kept(parameters: Parameters) -> Any:
    if isinstance(parameters, Mapping):
        return kept_names(parameters)
    return kept_values(parameters)
