"""Records and the documents that keep them.

A document has a field for each field of its record: numbers, text and truth as they are, all else
as JSON text, exactly as in a row of a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from afl.db.mongo import Document, Filter, Reader, Transaction
from afl.db.mongo.fields import fields_of
from afl.runtime.rows.table import Table

R = TypeVar("R")

OLDEST_FIRST = (("seq", 1),)
NEWEST_FIRST = (("seq", -1),)
#: No limit is 0 for MongoDB, and nothing at all for us.
_NOTHING: Filter = {"_id": {"$in": []}}


def plain(value: Any) -> Any:
    """Drivers ask long for how to store what is not plain text or a plain number."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    return value


class Documents(Generic[R]):
    """How records of one kind are kept.

    `key` is the field that is the `_id`, None if the database makes one; `extra` are fields that
    the record has not, and how their values follow from it.
    """

    def __init__(
        self,
        collection: str,
        kind: type[R],
        *,
        key: str | None = "uuid",
        extra: Mapping[str, str | Callable[[R], Any]] | None = None,
    ) -> None:
        self.collection = collection
        self._table: Table[R] = Table(collection, kind, extra=extra)
        self._names = tuple("_id" if each == key else each for each in self._table.columns)
        self._fields = self._names[: len(self._table.fields)]

    def document(self, record: R) -> Document:
        values = map(plain, self._table.row(record))
        return dict(zip(self._names, values, strict=True))

    def new(self, tx: Transaction, record: R) -> Document:
        """A document to insert; what is None need not be there."""
        made = {name: each for name, each in self.document(record).items() if each is not None}
        return {**made, "seq": tx.next_number()}

    def some(self, record: R, names: Iterable[str]) -> Document:
        document = self.document(record)
        return {each: document[each] for each in names}

    def record(self, document: Document) -> R:
        return self._table.record(fields_of(document, self._fields))

    def one(self, reader: Reader, /, where: Filter, **options: Any) -> R | None:
        found = reader.one(self.collection, where, **options)
        return None if found is None else self.record(found)

    def all(self, reader: Reader, /, where: Filter, **options: Any) -> list[R]:
        options.setdefault("sort", OLDEST_FIRST)
        return [self.record(each) for each in reader.all(self.collection, where, **options)]

    def some_of(self, reader: Reader, /, where: Filter, limit: int, **options: Any) -> list[R]:
        """At most `limit` of them, which may be 0."""
        chosen = where if limit > 0 else _NOTHING
        return self.all(reader, chosen, limit=max(limit, 0), **options)

    def save(
        self,
        reader: Reader,
        record: R,
        number: int,
        key: tuple[str, ...] = ("_id",),
        **more: Any,
    ) -> None:
        """Insert or replace; one that is replaced keeps its place among the others."""
        document = self.document(record) | more
        where = {each: document.pop(each) for each in key}
        reader.save(self.collection, where, document, {"seq": number})
