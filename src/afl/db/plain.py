# ruff: noqa: S608 - statements are made of constants
"""The rows of a table as they are, for who moves them to another database.

The same for SQLite and PostgreSQL: a column may have another name in each, and is called here by
one that both share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

#: Values by the names that databases share.
Record = Mapping[str, Any]


@dataclass(frozen=True)
class Shape:
    """How records of one kind are kept in a table."""

    kind: str
    table: str
    #: What both databases call it → the column here.
    columns: Mapping[str, str]
    #: What there can be only one of, by shared names.
    key: tuple[str, ...]
    #: The column that records are in the order of.
    order: str
    #: Columns that only this database has, and what is in them, at a time of it.
    more: Mapping[str, Callable[[Record, int], Any]]


class PlainRows:
    """`database` is one of SQLite or PostgreSQL; `mark` is how it marks values in statements."""

    def __init__(self, database: Any, shape: Shape, mark: str) -> None:
        self._database = database
        self._shape = shape
        self._mark = mark
        self.kind = shape.kind
        self._columns = ", ".join(shape.columns.values())

    def key_of(self, record: Record) -> str:
        return "/".join(str(record[each]) for each in self._shape.key)

    def count(self) -> int:
        return int(self._ask(f"SELECT count(*) FROM {self._shape.table}")[0][0])

    def read(self, limit: int) -> Iterator[list[Record]]:
        """All of them in their order, in pages."""
        order, table = self._shape.order, self._shape.table
        select = f"SELECT {order}, {self._columns} FROM {table}"
        page, after = f"ORDER BY {order} LIMIT {self._mark}", ""
        given: tuple[Any, ...] = ()
        while rows := self._ask(f"{select} {after} {page}", (*given, limit)):
            yield [self._record(row[1:]) for row in rows]
            after, given = f"WHERE {order} > {self._mark}", (rows[-1][0],)

    def find(self, records: Sequence[Record]) -> list[Record]:
        """Those that are there under the keys of these."""
        shape = self._shape
        where = " AND ".join(f"{shape.columns[each]} = {self._mark}" for each in shape.key)
        sql = f"SELECT {self._columns} FROM {shape.table} WHERE {where}"
        keys = [tuple(record[each] for each in shape.key) for record in records]
        found = self._database.read(lambda reader: [reader.query_one(sql, each) for each in keys])
        return [self._record(row) for row in found if row is not None]

    def add(self, records: Sequence[Record]) -> None:
        """In one commit, at the end of the order; those that are there stay as they are."""
        shape = self._shape
        columns = ", ".join((self._columns, *shape.more))
        marks = ", ".join([self._mark] * (len(shape.columns) + len(shape.more)))
        insert = f"INSERT INTO {shape.table} ({columns}) VALUES ({marks}) ON CONFLICT DO NOTHING"
        now = self._database.now_ms() if shape.more else 0
        rows = [
            (*(each[name] for name in shape.columns), *(m(each, now) for m in shape.more.values()))
            for each in records
        ]
        self._database.write(lambda tx: [tx.execute(insert, each) for each in rows])

    def _ask(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        rows: list[Any] = self._database.read(lambda reader: reader.query_all(sql, parameters))
        return rows

    def _record(self, row: Sequence[Any]) -> Record:
        return dict(zip(self._shape.columns, row, strict=True))


@contextmanager
def plain_rows(
    url: str, component: str, modules: Mapping[str, str], shapes: Mapping[str, Sequence[Shape]]
) -> Iterator[list[PlainRows]]:
    """The tables of a component at a URL, up to date; none where it is kept in no tables.

    `modules` say, of `sqlite` and `postgres`, where the migrations are.
    """
    scheme = url.partition(":")[0].lower().replace("postgresql", "postgres")
    if scheme not in modules:
        yield []
        return
    opened, migrate, mark = _ways(scheme)
    with closing(opened(url)) as database:
        migrate(database, component, import_module(modules[scheme]).MIGRATIONS)
        yield [PlainRows(database, each, mark) for each in shapes[scheme]]


def _ways(scheme: str) -> tuple[Callable[[str], Any], Callable[..., int], str]:
    """How a database is opened and migrated, and how it marks values."""
    if scheme == "sqlite":
        from afl.db import migrations
        from afl.db.sqlite import open_database

        return open_database, migrations.migrate, "?"
    from afl.db.postgres import migrate, open_postgres

    return open_postgres, migrate, "%s"
