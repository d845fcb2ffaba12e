"""Collections and their indexes: made by the first process that opens them.

Indexes and fields are only ever added, so that programs of two releases work side by side. The
version says which release last added some.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pymongo import IndexModel

from afl.db.mongo.errors import errors_translated
from afl.errors import ConfigurationError, NewerSchema

if TYPE_CHECKING:
    from afl.db.mongo.database import MongoDatabase

#: Which version the collections of each component have.
SCHEMA = "afl_schema"


@dataclass(frozen=True, slots=True)
class Index:
    name: str
    fields: Sequence[str]
    is_unique: bool = False
    #: What documents must be like to be in it.
    where: Mapping[str, Any] | None = None
    #: Documents are removed when the time in its field has come.
    is_end_of_life: bool = False

    def model(self) -> IndexModel:
        options: dict[str, Any] = {"name": self.name, "unique": self.is_unique}
        if self.where is not None:
            options["partialFilterExpression"] = dict(self.where)
        if self.is_end_of_life:
            options["expireAfterSeconds"] = 0
        return IndexModel([(each, 1) for each in self.fields], **options)


@dataclass(frozen=True, slots=True)
class Collection:
    name: str
    indexes: Sequence[Index] = ()


def prepare(
    database: MongoDatabase,
    component: str,
    version: int,
    collections: Sequence[Collection],
    *,
    oldest: int = 1,
) -> None:
    """Have the collections of a component there, with all indexes.

    `oldest` is the first version whose programs can use them as they are then: old and new ones
    work side by side while a fleet is replaced. Raises NewerSchema if the database says that of
    this program.
    """
    with errors_translated(database.place):
        if found_version(database, component, version) >= version:
            return
        for each in collections:
            _make(database, each)
        database.majority[SCHEMA].update_one(
            {"_id": component}, {"$max": {"version": version, "oldest": oldest}}, upsert=True
        )


def require_prepared(database: MongoDatabase, component: str, version: int) -> None:
    """For who must not make anything. Raises ConfigurationError if something is missing, and
    NewerSchema as `prepare` does."""
    found = found_version(database, component, version)
    if found < version:
        raise ConfigurationError(
            f"the collections of {component} in {database.place} are those of version {found}, and "
            f"version {version} is needed; let somebody who may make indexes run `afl migrate`"
        )


def found_version(database: MongoDatabase, component: str, known: int) -> int:
    """How far the collections of a component have come; 0 before they are there. Raises
    NewerSchema if programs that know only `known` cannot use them."""
    with errors_translated(database.place):
        document = database.majority[SCHEMA].find_one({"_id": component}) or {}
    found = int(document.get("version", 0))
    if int(document.get("oldest", 1)) > known:
        raise NewerSchema(component, found, known, database.place)
    return found


def _make(database: MongoDatabase, collection: Collection) -> None:
    # Also without indexes: in transactions it would be made by whoever comes first.
    if collection.indexes:
        database.majority[collection.name].create_indexes(
            [each.model() for each in collection.indexes]
        )
    elif collection.name not in database.majority.list_collection_names():
        _make_empty(database, collection.name)


def _make_empty(database: MongoDatabase, name: str) -> None:
    from pymongo.errors import CollectionInvalid, OperationFailure

    try:
        database.majority.create_collection(name)
    except CollectionInvalid:
        pass  # somebody was faster
    except OperationFailure as error:
        if error.code != 48:  # the same, as the server says it
            raise
