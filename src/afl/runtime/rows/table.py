# ruff: noqa: S608 - statements are made of constants
"""From records to rows and back, once for all kinds.

A record has a column for each field, of the same name: numbers, text and truth as they are, all
else as JSON. What is looked up but is no field of its own gets a column behind those. Statements
are made of constants, so that a database meets the same texts again and keeps them prepared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from operator import attrgetter
from types import NoneType, UnionType
from typing import (
    Any,
    Generic,
    Protocol,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from afl.runtime.rows.codec import from_json, reader_of, to_json

R = TypeVar("R")
Row: TypeAlias = tuple[Any, ...]


class Reader(Protocol):
    """What questions are put to."""

    def query_one(self, sql: str, parameters: Sequence[Any] = ...) -> Row | None: ...

    def query_all(self, sql: str, parameters: Sequence[Any] = ...) -> list[Row]: ...


class Transaction(Reader, Protocol):
    def execute(self, sql: str, parameters: Sequence[Any] = ...) -> int: ...


def column_list(columns: Iterable[str]) -> str:
    """Quoted: some fields are called as words of SQL are."""
    return ", ".join(f'"{each}"' for each in columns)


#: How a value is marked in a statement: SQLite, and PostgreSQL.
QUESTION, PERCENT = "?", "%s"


def insert_sql(table: str, columns: Iterable[str], mark: str = QUESTION) -> str:
    columns = tuple(columns)
    marks = ", ".join([mark] * len(columns))
    return f"INSERT INTO {table} ({column_list(columns)}) VALUES ({marks})"


def upsert_sql(table: str, columns: Iterable[str], key: Sequence[str], mark: str = QUESTION) -> str:
    """Insert or replace; a row that is replaced keeps its place among the others."""
    columns = tuple(columns)
    changes = ", ".join(f'"{each}" = excluded."{each}"' for each in columns if each not in key)
    insert = insert_sql(table, columns, mark)
    return f"{insert} ON CONFLICT ({column_list(key)}) DO UPDATE SET {changes}"


def assignments(columns: Iterable[str], mark: str = QUESTION) -> str:
    return ", ".join(f'"{each}" = {mark}' for each in columns)


class Table(Generic[R]):
    """How records of one kind are kept.

    `key` is what there can be only one of; `extra` are the columns that are no fields, and how
    their values follow from the record; `mark` is how the database marks values in statements.
    """

    def __init__(
        self,
        name: str,
        kind: type[R],
        *,
        key: Sequence[str] = ("uuid",),
        extra: Mapping[str, str | Callable[[R], Any]] | None = None,
        mark: str = QUESTION,
    ) -> None:
        self.name = name
        self._kind: Callable[..., R] = kind
        self.fields = tuple(each.name for each in fields(cast(Any, kind)))
        extra = dict(extra or {})
        self.columns = (*self.fields, *extra)
        self._values = attrgetter(*self.fields)
        self._extra = tuple(_getter(each) for each in extra.values())
        self._encoders, self._decoders = _converters(kind, self.fields)
        self.select = f"SELECT {column_list(self.fields)} FROM {name}"
        self.insert = insert_sql(name, self.columns, mark)
        self.upsert = upsert_sql(name, self.columns, key, mark)
        self.insert_new = f"{self.insert} ON CONFLICT ({column_list(key)}) DO NOTHING"

    def row(self, record: R) -> list[Any]:
        values = list(self._values(record))
        for index, encode in self._encoders:
            if values[index] is not None:
                values[index] = encode(values[index])
        values.extend(each(record) for each in self._extra)
        return values

    def record(self, row: Row) -> R:
        values = list(row)
        for index, decode in self._decoders:
            if values[index] is not None:
                values[index] = decode(values[index])
        return self._kind(*values)

    def some(self, columns: Iterable[str]) -> Callable[[R], list[Any]]:
        """A function that gives the values of these columns, which are fields, at least two."""
        wanted = tuple(columns)
        values = attrgetter(*wanted)
        encoders = dict(self._encoders)
        odd = [
            (place, encoders[index])
            for place, index in enumerate(map(self.fields.index, wanted))
            if index in encoders
        ]

        def some(record: R) -> list[Any]:
            found = list(values(record))
            for place, encode in odd:
                if found[place] is not None:
                    found[place] = encode(found[place])
            return found

        return some

    def one(self, reader: Reader, condition: str, *parameters: Any) -> R | None:
        row = reader.query_one(f"{self.select} {condition}", parameters)
        return None if row is None else self.record(row)

    def all(self, reader: Reader, condition: str, *parameters: Any) -> list[R]:
        return [
            self.record(row) for row in reader.query_all(f"{self.select} {condition}", parameters)
        ]

    def save(self, tx: Transaction, record: R) -> None:
        tx.execute(self.upsert, self.row(record))


def _getter(source: str | Callable[[R], Any]) -> Callable[[R], Any]:
    return attrgetter(source) if isinstance(source, str) else source


_Converters = tuple[tuple[int, Callable[[Any], Any]], ...]


def _converters(kind: type[Any], names: tuple[str, ...]) -> tuple[_Converters, _Converters]:
    hints = get_type_hints(kind)
    encoders: list[tuple[int, Callable[[Any], Any]]] = []
    decoders: list[tuple[int, Callable[[Any], Any]]] = []
    for index, name in enumerate(names):
        plain = _plain(hints[name])
        if plain is bool:
            decoders.append((index, bool))
        elif plain not in (str, int):
            encoders.append((index, to_json))
            decoders.append((index, reader_of(plain) if _has_records(plain) else from_json))
    return tuple(encoders), tuple(decoders)


def _has_records(plain: Any) -> bool:
    """Whether JSON must become more than plain data: a record, or a list of them."""
    return any(is_dataclass(each) for each in (plain, *get_args(plain)))


def _plain(hint: Any) -> Any:
    """The type without None, and without the name that it was given."""
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (each for each in get_args(hint) if each is not NoneType)
    return getattr(hint, "__supertype__", hint)
