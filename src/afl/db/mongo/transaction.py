"""Transactions: what a function that reads or writes is given, for as long as it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from bson.datetime_ms import DatetimeMS
from pymongo import InsertOne, ReturnDocument, UpdateOne
from pymongo.errors import BulkWriteError, DuplicateKeyError

from afl.db.mongo.errors import DUPLICATE, is_only_duplicates
from afl.errors import StoreMisused
from afl.ids import new_id

if TYPE_CHECKING:
    from datetime import datetime

    from pymongo.client_session import ClientSession
    from pymongo.database import Database
    from pymongo.results import BulkWriteResult

Document: TypeAlias = dict[str, Any]
Filter: TypeAlias = Mapping[str, Any]
#: Operators, or a pipeline.
Change: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]]
Sort: TypeAlias = Sequence[tuple[str, int]]

#: The field that is new in a document whose change somebody waits for: what the news are about,
#: behind a word that makes each one different. One document of a transaction tells them all.
NEWS = "news"
BETWEEN_TOPICS = "\n"


def news(*topics: str) -> str:
    """What to write into `NEWS`."""
    return BETWEEN_TOPICS.join((new_id(), *topics))


def topics_of(text: str) -> list[str]:
    return text.split(BETWEEN_TOPICS)[1:]


def milliseconds(time: datetime) -> int:
    """Since 1970, of a time as the driver gives it."""
    return int(DatetimeMS(time))


class Hindered(Exception):  # noqa: N818 - what happened is what people read
    """What a request has tried beyond what it must do cannot be: it is run again, without that."""


class Reader:
    """Questions to the database, and changes of one document each."""

    __slots__ = ("_database", "_session")

    def __init__(self, database: Database[Document], session: ClientSession | None = None) -> None:
        self._database: Database[Document] | None = database
        self._session = session

    def one(
        self,
        name: str,
        where: Filter,
        *,
        sort: Sort | None = None,
        fields: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Document | None:
        """The first document, or None."""
        found: Document | None = self._collection(name).find_one(
            where, fields, sort=sort, session=self._session, **options
        )
        return found

    def all(
        self,
        name: str,
        where: Filter,
        *,
        sort: Sort | None = None,
        fields: Mapping[str, Any] | None = None,
        limit: int = 0,
        **options: Any,
    ) -> list[Document]:
        return list(
            self._collection(name).find(
                where, fields, sort=sort, limit=limit, session=self._session, **options
            )
        )

    def aggregate(
        self, name: str, pipeline: Sequence[Mapping[str, Any]], **options: Any
    ) -> list[Document]:
        found = self._collection(name).aggregate(pipeline, session=self._session, **options)
        return list(found)

    def change(
        self,
        name: str,
        where: Filter,
        change: Change,
        *,
        sort: Sort | None = None,
        fields: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Document | None:
        """Change the first document that fits; it, as it is then, or None."""
        changed: Document | None = self._collection(name).find_one_and_update(
            where,
            change,
            projection=fields,
            sort=sort,
            return_document=ReturnDocument.AFTER,
            session=self._session,
            **options,
        )
        return changed

    def change_all(self, name: str, where: Filter, change: Change, *, upsert: bool = False) -> int:
        """Change all that fit; how many did."""
        collection = self._collection(name)
        done = collection.update_many(where, change, upsert=upsert, session=self._session)
        return int(done.matched_count)

    def change_each(self, name: str, changes: Iterable[tuple[Filter, Change]]) -> int:
        """Change one document for each of these, each by itself; how many were found. Those that
        would become duplicates stay as they are."""
        operations = [UpdateOne(where, change) for where, change in changes]
        try:
            done = self._collection(name).bulk_write(
                operations, ordered=False, session=self._session
            )
        except BulkWriteError as error:
            if not is_only_duplicates(error):
                raise
            return int((error.details or {}).get("nMatched", 0))
        return int(done.matched_count)

    def save(self, name: str, where: Filter, fields: Document, if_new: Document) -> None:
        """Insert or replace the fields of the one document that fits."""
        change = {"$set": fields, "$setOnInsert": if_new}
        self._collection(name).update_one(where, change, upsert=True, session=self._session)

    def count(self, name: str, where: Filter, limit: int, hint: str) -> int:
        """How many fit, by an index; no further than the limit."""
        return int(
            self._collection(name).count_documents(
                where, limit=limit, hint=hint, session=self._session
            )
        )

    def remove(self, name: str, where: Filter) -> int:
        done = self._collection(name).delete_many(where, session=self._session)
        return int(done.deleted_count)

    def end(self) -> None:
        self._database = None

    def _collection(self, name: str) -> Any:
        if self._database is None:
            raise StoreMisused(
                "this transaction has ended with the function it was given to; do all of its "
                "work there"
            )
        return self._database[name]


class _Put(NamedTuple):
    name: str
    #: New documents, or what to look for and how to change it.
    documents: list[Document]
    changes: list[tuple[Filter, Document]]
    is_upsert: bool = False
    #: What to raise unless each of them found its document.
    otherwise: Exception | None = None

    @property
    def _is_mixed(self) -> bool:
        return bool(self.documents and self.changes)

    def joined(self, following: _Put) -> _Put | None:
        """Both in one command; None if that cannot be."""
        is_one = self.name == following.name and not (self.is_upsert or following.is_upsert)
        if not is_one or self.changes or following.documents:
            return None
        return following._replace(documents=self.documents)

    def operations(self) -> list[Any]:
        # A command either inserts or changes; a change may also make what it does not find.
        insert = _upsert if self._is_mixed else InsertOne
        inserts: list[Any] = [insert(each) for each in self.documents]
        return inserts + [UpdateOne(*each, upsert=self.is_upsert) for each in self.changes]

    def check(self, done: BulkWriteResult) -> None:
        """Raises unless each did what it was to do."""
        if self._is_mixed and done.upserted_count != len(self.documents):
            message = f"one of {len(self.documents)} documents that were to be new"
            raise DuplicateKeyError(message, DUPLICATE)
        if self.otherwise is not None and done.matched_count != len(self.changes):
            raise self.otherwise

    def tell(self, text: str) -> None:
        """Write it along with the first of them."""
        if self.documents:
            self.documents[0][NEWS] = text
        else:
            self.changes[0][1].setdefault("$set", {})[NEWS] = text


def _upsert(document: Document) -> UpdateOne:
    rest = {name: value for name, value in document.items() if name != "_id"}
    return UpdateOne({"_id": document["_id"]}, {"$setOnInsert": rest}, upsert=True)


def _joined(puts: Iterable[_Put]) -> list[_Put]:
    joined: list[_Put] = []
    for each in puts:
        both = joined[-1].joined(each) if joined else None
        if both is None:
            joined.append(each)
        else:
            joined[-1] = both
    return joined


class Transaction(Reader):
    """A request to change the database: applied as a whole when its function returns, or not.

    It reads one state of the database, that of its beginning, and its own changes. Somebody who
    changed the same document in between is in its way: then it is run again.
    """

    __slots__ = (
        "_ask_time",
        "_is_told",
        "_now",
        "_number",
        "_puts",
        "has_written",
        "may_try",
        "topics",
    )

    def __init__(
        self,
        database: Database[Document],
        session: ClientSession,
        ask_time: Callable[[], int],
        number: Callable[[], int],
        *,
        is_told: bool = False,
        may_try: bool = False,
    ) -> None:
        super().__init__(database, session)
        self._ask_time = ask_time
        self._is_told = is_told
        self._number = number
        self._now: int | None = None
        self._puts: list[_Put] = []
        #: Whether this is the first time, and nobody else's request: then more may be tried than
        #: must be done. If that fails, the request raises Hindered.
        self.may_try = may_try
        #: Whether there is something to commit.
        self.has_written = False
        #: What was announced.
        self.topics: set[str] = set()

    @property
    def now(self) -> int:
        """The time of the server, in milliseconds; the same for the whole transaction."""
        if self._now is None:
            self._now = self._ask_time()
        return self._now

    def heard_time(self, time: datetime) -> None:
        """An answer of the server said how late it is. Tests tell it themselves."""
        if self._now is None and not self._is_told:
            self._now = milliseconds(time)

    def next_number(self) -> int:
        """The place of a new document among the others."""
        return self._number()

    def insert(self, name: str, documents: Iterable[Document]) -> None:
        """With `flush`. One that is there already is a duplicate."""
        self._put(_Put(name, list(documents), []))

    def update(
        self,
        name: str,
        changes: Iterable[tuple[Filter, Document]],
        otherwise: Exception | None = None,
        *,
        upsert: bool = False,
    ) -> None:
        """With `flush`. If one of them finds no document, `otherwise` is raised there."""
        self._put(_Put(name, [], list(changes), upsert, otherwise))

    def announce(self, topic: str) -> None:
        """Wake whoever waits for `topic`, once this is committed. It is told with what is put."""
        self.topics.add(topic)

    def flush(self) -> None:
        """Do all that was put: collection by collection, in few round trips."""
        puts, self._puts = self._puts, []
        if self.topics and puts:
            puts[0].tell(news(*sorted(self.topics)))
        for each in _joined(puts):
            self.has_written = True
            done = self._collection(each.name).bulk_write(each.operations(), session=self._session)
            each.check(done)

    def write(self) -> None:
        """Something was changed at once, not with `flush`."""
        self.has_written = True

    def _put(self, put: _Put) -> None:
        if put.documents or put.changes:
            self._puts.append(put)
