"""Statements and their answers, over a connection, in one round trip.

What the cursors of the driver do around a statement takes longer than most of ours run: they read
its text, ask whether to prepare it, send it, and look for answers before they send the next. Here
all statements are prepared once for each connection, sent in one go, and answered in one go. Values
are written and read by the driver.
"""

from __future__ import annotations

import re
import select
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import count
from typing import Any, NamedTuple, TypeAlias

import psycopg
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import (
    InvalidSqlStatementName,
    ProgramLimitExceeded,
    ReadOnlySqlTransaction,
    error_from_result,
)
from psycopg.pq import ConnStatus, ExecStatus, Format, PipelineStatus
from psycopg.pq.abc import PGresult

Row: TypeAlias = tuple[Any, ...]
Parameters: TypeAlias = Sequence[Any] | Mapping[str, Any]


class PlanOutdated(psycopg.OperationalError):
    """Somebody has changed the tables since a statement was prepared: it must be prepared again."""


#: What says that a connection is of no use any more: what is prepared on it is gone or outdated, or
#: its server is now a copy that takes no writes, and another one, at the same address, does.
USELESS = (InvalidSqlStatementName, PlanOutdated, ReadOnlySqlTransaction)
#: The values of a statement, in bytes: at a message of 1 GB the server closes the connection.
LARGEST = 2**30 - 4096
#: Where a value goes, or a per cent sign that is one.
_PLACE = re.compile(r"%(?:%|s|\((\w+)\)s)")


class Answer(NamedTuple):
    rows: list[Row]
    #: How many rows were inserted, changed, deleted or found.
    size: int
    #: What was done, in the words of the server.
    status: str


class _Bound(NamedTuple):
    """A statement with its values, as they are sent."""

    sql: bytes
    types: tuple[int, ...]
    values: Sequence[Any]
    formats: Sequence[Format]


class Connection(psycopg.Connection[Row]):
    """A connection that knows what is prepared on it."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._names: dict[tuple[bytes, tuple[int, ...]], bytes] = {}
        self._numbers = count()
        # The driver has two, and a name for the one that is there: no type.
        self._values: Any = None

    def ask(
        self, statements: Sequence[tuple[str, Parameters]]
    ) -> tuple[list[Answer], psycopg.Error | None]:
        """The answers, up to the first statement that failed, and its error. What stands behind it
        was not done."""
        # Made first: it reads the adapters of the connection, which may not be set up before.
        values = self._values = self._values or Transformer(self)
        bound = [_bound(values, *each) for each in statements]
        try:
            self.pgconn.enter_pipeline_mode()
            new = self._send(bound)
            answers, error = self._answers(new)
            if self.pgconn.status == ConnStatus.OK:
                self.pgconn.exit_pipeline_mode()
        finally:
            # Somebody interrupted us, or the server is gone: what comes in next is nobody's.
            if self.pgconn.pipeline_status != PipelineStatus.OFF:
                self.close()
        if isinstance(error, USELESS):
            self.close()  # whoever makes little of the error has another one next time
        return answers, error

    def _send(self, bound: Sequence[_Bound]) -> list[_Bound | None]:
        """Send them; for each result to come, what it has prepared, or None for an answer."""
        coming: list[_Bound | None] = []
        for each in bound:
            name = self._names.get((each.sql, each.types))
            if name is None:
                name = b"afl%d" % next(self._numbers)
                self.pgconn.send_prepare(name, each.sql, each.types)
                self._names[each.sql, each.types] = name
                coming.append(each)
            self.pgconn.send_query_prepared(name, each.values, each.formats)
            coming.append(None)
        self.pgconn.pipeline_sync()
        return coming

    def _answers(
        self, coming: Sequence[_Bound | None]
    ) -> tuple[list[Answer], psycopg.Error | None]:
        answers: list[Answer] = []
        error: psycopg.Error | None = None
        try:
            due = iter(coming)
            for result in self._results():
                # One more than is due is an error of the commit that ends the statements.
                prepared = next(due, None)
                is_good = result.status in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)
                if result.status == ExecStatus.FATAL_ERROR:
                    error = _error_of(result)
                if prepared is None and is_good:
                    answers.append(self._answer(result))
                elif prepared is not None and not is_good:
                    self._names.pop((prepared.sql, prepared.types), None)
        except psycopg.OperationalError as lost:
            error = error or lost  # the server may have said why it goes
        return answers, error

    def _answer(self, result: PGresult) -> Answer:
        rows: list[Row] = []
        if result.status == ExecStatus.TUPLES_OK:
            self._values.set_pgresult(result, format=Format.TEXT)
            rows = self._values.load_rows(0, result.ntuples, tuple)
        return Answer(rows, result.command_tuples or 0, (result.command_status or b"").decode())

    def _results(self) -> Iterator[PGresult]:
        """All results of what was sent, as they come in."""
        pgconn, incoming = self.pgconn, select.poll()
        incoming.register(pgconn.socket, select.POLLIN | select.POLLOUT)
        while pgconn.flush():
            # Both: a server that cannot get rid of its answers reads no more.
            if any(event & select.POLLIN for _, event in incoming.poll()):
                pgconn.consume_input()
        incoming.modify(pgconn.socket, select.POLLIN)
        while True:
            while pgconn.is_busy():
                incoming.poll()
                pgconn.consume_input()
            result = pgconn.get_result()
            if result is None:
                continue  # it stands behind the results of each statement
            if result.status == ExecStatus.PIPELINE_SYNC:
                return
            yield result


def _error_of(result: PGresult) -> psycopg.Error:
    error = error_from_result(result)
    # Its code says no more than that something is not possible, and its text is in any language.
    is_outdated = error.diag.source_function == "RevalidateCachedQuery"
    return PlanOutdated(*error.args) if is_outdated else error


def _bound(values: Any, sql: str, parameters: Parameters) -> _Bound:
    text, names, formats = _converted(sql)
    if isinstance(parameters, Mapping):
        parameters = [parameters[each] for each in names]
    sent = values.dump_sequence(parameters, formats)
    size = sum(len(each) for each in sent if each is not None)
    if size > LARGEST:
        raise ProgramLimitExceeded(f"{size} bytes for one statement, {LARGEST} are the most")
    return _Bound(text, tuple(values.types or ()), sent, values.formats or ())


@lru_cache(maxsize=1024)
def _converted(sql: str) -> tuple[bytes, tuple[str, ...], tuple[PyFormat, ...]]:
    """A statement as the server reads it; the names of its values, in the order of their numbers;
    and how each is written."""
    names: dict[str, int] = {}

    def place(found: re.Match[str]) -> str:
        if found[0] == "%%":
            return "%"
        name = found[1] or f"#{len(names)}"  # without a name each is a value of its own
        return f"${names.setdefault(name, len(names) + 1)}"

    text = _PLACE.sub(place, sql).encode()
    return text, tuple(names), (PyFormat.AUTO,) * len(names)
