# ruff: noqa: S608 - statements are made of constants
"""Changes of one row and of many.

Many rows go to the server as one text of JSON, and are changed by one statement: sending, planning
and answering a statement for each takes several times as long as changing its row. A text has an
end: what is very large goes as several.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from afl.db.postgres.text import is_plain, kept_names

#: Far from the 1 GB at which the server closes the connection: it makes several others of a text.
LONGEST = 64 * 1024 * 1024


class Statement(NamedTuple):
    """The same change for one row and for many."""

    one: str
    many: str
    #: The values of a row, in their order.
    names: tuple[str, ...]

    def of(self, rows: Sequence[Sequence[Any]]) -> list[tuple[str, Any]]:
        """What to run for these rows, and with which parameters, as they are sent."""
        named = [dict(zip(self.names, row, strict=True)) for row in rows]
        whole = self._of(named)
        if len(named) == 1 or len(whole[1]["rows"]) <= LONGEST:
            return [whole]
        return [self._of(some) for some in _in_parts(named)]

    def _of(self, named: list[dict[str, Any]]) -> tuple[str, Any]:
        if len(named) == 1:
            return self.one, kept_names(named[0])
        return self.many, {"rows": _text_of(named), "count": len(named)}


def _in_parts(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """By the length of their values; what is one text may be a little longer."""
    parts: list[list[dict[str, Any]]] = [[]]
    room = LONGEST
    for row in rows:
        size = sum(len(each) for each in row.values() if isinstance(each, str))
        if size > room and parts[-1]:
            parts.append([])
            room = LONGEST
        parts[-1].append(row)
        room -= size
    return parts


def _text_of(rows: list[dict[str, Any]]) -> str:
    text = msgspec.json.encode(rows).decode()
    # One look at all of it, and not one at each value.
    if is_plain(text):
        return text
    return msgspec.json.encode([kept_names(each) for each in rows]).decode()


def inserting(table: str, columns: Iterable[str]) -> Statement:
    names = tuple(columns)
    insert, listed = f"INSERT INTO {table} ({_list(names)})", _list(names)
    marks = ", ".join(map(_mark, names))
    many = f"{insert} SELECT {listed} FROM {_rows(table)} AS given"
    return Statement(f"{insert} VALUES ({marks})", many, names)


def updating(
    table: str, columns: Sequence[str], *, key: str, version: str, only: str = "true"
) -> Statement:
    """Sets columns of the row with this key if its version is the one before the new one. In
    `only`, another condition, `{}` stands for the new values: `old.state <> {state}`.

    The server itself refuses to go on, with DivisionByZero, if a row was not there, or another
    version: so the commit can be sent along with it.
    """
    changed = tuple(dict.fromkeys((*columns, version)))
    names = (*changed, key)
    values = ", ".join(f'"{each}" = {{{each}}}' for each in changed)
    change = f"UPDATE {table} AS old SET {values}"
    where = f'WHERE old."{key}" = {{{key}}} AND old."{version}" = {{{version}}} - 1 AND {only}'
    one = f"{change} {where}".format(**{each: _mark(each) for each in names})
    given = {each: f'given."{each}"' for each in names}
    many = f"{change} FROM {_rows(table)} AS given {where}".format(**given)
    return Statement(_guarded(one, "1"), _guarded(many, "%(count)s"), names)


def _guarded(change: str, count: str) -> str:
    # SQL has no statement that raises an error; a division by zero is one.
    return f"""\
WITH changed AS ({change} RETURNING 1) SELECT 1 / (count(*) = {count})::integer FROM changed"""


def _rows(table: str) -> str:
    """Rows of the types that the table has."""
    return f"json_populate_recordset(NULL::{table}, %(rows)s::json)"


def _list(names: Iterable[str]) -> str:
    return ", ".join(f'"{each}"' for each in names)


def _mark(name: str) -> str:
    return f"%({name})s"
