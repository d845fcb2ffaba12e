"""The queue: which tasks may be claimed, in which order, and when the next one may.

One question says what is claimable. Claiming and waiting both ask it, so that whoever is told of
work also gets it. A claim looks first and then takes only what is still as it was seen: of two who
want the same one, the second goes on with the next.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Any, NamedTuple

import pymongo
from pymongo.errors import DuplicateKeyError, PyMongoError

from afl.db.mongo import Document, Filter, Reader, Transaction
from afl.ids import new_id
from afl.runtime.claims import claimed
from afl.runtime.entities import TaskDefinition
from afl.runtime.mongo_store.documents import OLDEST_FIRST
from afl.runtime.mongo_store.schema import TASKS
from afl.runtime.mongo_store.tasks import KIND
from afl.runtime.mongo_store.times import Now, literal
from afl.runtime.names import is_short
from afl.runtime.persistence import Claiming

_MOST = 100_000  # in one call
#: What the server looks up one by one to keep the order; more would make it sort.
_NAMES_AT_ONCE = 100
_ROUNDS = 5
#: The living hold a document for milliseconds.
PATIENCE_S = 2.0
#: Where a candidate stands: retries that have become due, then exact names, then short ones.
_DUE, _EXACT, _SHORT = 0, 1, 2
_SEEN = {"seq": 1, "step_id": 1, "state": 1, "version": 1}

#: It waits for no time.
_NEW = {"not_before": 0}

Pipeline = list[dict[str, Any]]


class Wanted(NamedTuple):
    """What a worker can do."""

    names: list[str]
    #: Those that take every task that ends in them.
    short_names: list[str]
    task_list: str

    @classmethod
    def of(cls, names: Sequence[str], task_list: str) -> Wanted:
        return cls(*_asked(tuple(names)), task_list)


@lru_cache(maxsize=64)  # a worker asks for the same names again and again
def _asked(names: tuple[str, ...]) -> tuple[list[str], list[str]]:
    known = sorted(set(names))
    return known, list(filter(is_short, known))


class Claimant(NamedTuple):
    owner: str
    lease_ms: int


# The question


def _parts(wanted: Wanted, now: Now, most: int, is_free: bool) -> list[Pipeline]:
    """The first tasks of each kind, in no order among the kinds."""
    is_due = {"not_before": {"$gt": 0}, "$expr": {"$lte": ["$not_before", now.ms]}}
    parts = []
    for where, rank in _waiting(wanted):
        parts.append(_first({**where, **_NEW}, rank, most, is_free))
        parts.append(_first({**where, **is_due}, _DUE, most, is_free))
    return [*parts, *_abandoned(wanted, now)]


def _waiting(wanted: Wanted) -> Iterable[tuple[Filter, int]]:
    """What waits, due or not, and the place of its kind."""
    for field, names, rank in (
        ("name", wanted.names, _EXACT),
        ("short_name", wanted.short_names, _SHORT),
    ):
        more = {} if field == "name" else {"name": {"$nin": wanted.names}}
        for some in _in_chunks(names):
            where = {
                "state": "pending",
                "task_list_name": wanted.task_list,
                field: some[0] if len(some) == 1 else {"$in": some},
                "held": False,
                **more,
            }
            yield where, rank


def _first(where: Filter, rank: int, most: int, is_free: bool) -> Pipeline:
    free = _ONLY_FREE if is_free else []
    return [{"$match": where}, {"$sort": {"seq": 1}}, *free, {"$limit": most}, _ranked(rank)]


def _abandoned(wanted: Wanted, now: Now) -> Iterable[Pipeline]:
    """Tasks of abandoned claims, in the place in the queue that they had."""
    mine = {
        "state": "running",
        "task_list_name": wanted.task_list,
        "held": False,
        "$or": [{"name": {"$in": wanted.names}}, {"short_name": {"$in": wanted.short_names}}],
    }
    rank = {"$cond": [{"$in": ["$name", literal(wanted.names)]}, _EXACT, _SHORT]}
    has_lapsed, is_ahead = _ways_to_be_over(now)
    only_ahead = {"$and": [is_ahead, {"$not": [has_lapsed]}]}
    for is_over in (has_lapsed, only_ahead):
        yield [{"$match": {**mine, "$expr": is_over}}, _ranked(rank)]


def _ways_to_be_over(now: Now) -> tuple[Filter, Filter]:
    """Of a lease: it has lapsed, or the clock was set back to before its beginning."""
    return {"$lte": ["$lease_expires", now.ms]}, {"$gt": ["$lease_begins", now.ms]}


def _ranked(rank: Any) -> dict[str, Any]:
    return {"$project": {**_SEEN, "rank": rank if isinstance(rank, dict) else literal(rank)}}


#: A step that has a running task lends no second one.
_ONLY_FREE: Pipeline = [
    {
        "$lookup": {
            "from": TASKS,
            "localField": "step_id",
            "foreignField": "step_id",
            "pipeline": [
                {"$match": {"state": "running", "step_id": {"$gt": ""}}},
                {"$limit": 1},
                {"$project": {"_id": 1}},
            ],
            "as": "busy",
        }
    },
    {"$match": {"busy": []}},
]


def _together(parts: list[Pipeline]) -> Pipeline:
    first, *others = parts
    return [*first, *({"$unionWith": {"coll": TASKS, "pipeline": each}} for each in others)]


def _in_chunks(names: list[str]) -> Iterable[list[str]]:
    return (names[at : at + _NAMES_AT_ONCE] for at in range(0, len(names), _NAMES_AT_ONCE))


# Claims


def claim(
    reader: Reader, wanted: Wanted, limit: int, claimant: Claimant, now: Now
) -> list[TaskDefinition]:
    """Raises an error of the driver with `timeout` if nothing could be had because somebody holds
    a task for longer than the living do."""
    limit = min(max(limit, 0), _MOST)
    if not limit or not wanted.names:
        return []
    taken: list[Document] = []
    for number in range(_ROUNDS):
        # More than is wanted: some of those may be on their way to others.
        most = 2 * (limit - len(taken)) + 8
        seen = _candidates(reader, wanted, now, most, is_free=number > 0)
        try:
            _take(reader, seen, limit, claimant, now, taken)
        except PyMongoError as error:
            if not error.timeout or not taken:
                raise
            break  # what is taken is ours, and must be done
        if not seen or len(taken) == limit:
            break
    return [KIND.record(each) for each in taken]


def claim_new(
    reader: Reader, wanted: Wanted, limit: int, claimant: Claimant, now: Now
) -> list[TaskDefinition]:
    """One that waits, if there is one: in a single command, where a look would be another."""
    if limit > 0:
        for where, _rank in _waiting(wanted):
            if taken := _take_first(reader, {**where, **_NEW}, claimant, now):
                return [KIND.record(each) for each in taken]
    return []


def claim_along(tx: Transaction, claiming: Claiming, now: Now) -> list[TaskDefinition]:
    """What a decision asks for, of those that are new, inside of its transaction. Raises an error
    of the driver where others claim the same, or if another task of the same step runs."""
    wanted = Wanted.of(tuple(claiming.names), claiming.task_list)
    claimant = Claimant(claiming.owner, claiming.lease_ms)
    taken: list[TaskDefinition] = []
    for where, _rank in _waiting(wanted):
        left = claiming.limit - len(taken)
        if left == 1:
            taken += _take_new(tx, {**where, **_NEW}, claimant, now)
        elif left > 1:
            taken += _take_some_new(tx, {**where, **_NEW}, left, claimant)
    return taken


def _take_new(tx: Transaction, where: Filter, claimant: Claimant, now: Now) -> list[TaskDefinition]:
    change = _claiming(claimant, new_id(), now)
    found = tx.change(TASKS, where, change, sort=OLDEST_FIRST)
    return [] if found is None else [KIND.record(found)]


def _take_some_new(
    tx: Transaction, where: Filter, limit: int, claimant: Claimant
) -> list[TaskDefinition]:
    """By the time that the transaction knows: so nobody has to ask what they have become."""
    seen = KIND.all(tx, where, limit=limit)
    if seen:
        change = _claiming(claimant, new_id(), Now(tx.now))
        tx.change_all(TASKS, {"_id": {"$in": [each.uuid for each in seen]}}, change)
    return [claimed(each, claimant.owner, tx.now, claimant.lease_ms) for each in seen]


def _candidates(
    reader: Reader, wanted: Wanted, now: Now, most: int, *, is_free: bool
) -> list[Document]:
    """In their order, at most one of each step: the one that runs, or else the first."""
    found = reader.aggregate(TASKS, _together(_parts(wanted, now, most, is_free)))
    chosen: dict[str, Document] = {}
    for each in sorted(found, key=lambda each: (each["state"] != "running", *_place(each))):
        chosen.setdefault(each["step_id"] or each["_id"], each)
    return sorted(chosen.values(), key=_place)[:most]


def _place(seen: Document) -> tuple[int, int]:
    return seen["rank"], seen["seq"]


def _take(
    reader: Reader,
    seen: list[Document],
    limit: int,
    claimant: Claimant,
    now: Now,
    taken: list[Document],
) -> None:
    """Add what could be had of those seen, up to the limit."""
    while seen and len(taken) < limit:
        left = limit - len(taken)
        count = left if left > 1 else _count_alike(seen)
        some, seen = seen[:count], seen[count:]
        take = _take_one if left == 1 or len(some) == 1 else _take_many
        taken += take(reader, some, claimant, now)


def _count_alike(seen: list[Document]) -> int:
    """How many of the first ones wait in one queue: the server finds the first that is left."""
    kind = seen[0]["rank"], "pending"
    alike = takewhile(lambda each: (each["rank"], each["state"]) == kind, seen)
    return max(sum(1 for _ in alike), 1)


def _take_one(reader: Reader, seen: list[Document], claimant: Claimant, now: Now) -> list[Document]:
    """The first of these that can be had. In a crowd most are gone by now: asked for one by one,
    each would be a command in vain."""
    if len(seen) > 1:
        try:
            return _changed_first(reader, _still_waiting(seen, now), claimant, now)
        except DuplicateKeyError:
            pass  # another task of a step runs, and keeps nobody from the others
    each_taken = (_take_first(reader, _as_seen(each, now), claimant, now) for each in seen)
    return next(filter(None, each_taken), [])


def _take_first(reader: Reader, where: Filter, claimant: Claimant, now: Now) -> list[Document]:
    try:
        return _changed_first(reader, where, claimant, now)
    except DuplicateKeyError:
        return []  # another task of the same step runs


def _changed_first(reader: Reader, where: Filter, claimant: Claimant, now: Now) -> list[Document]:
    change = _claiming(claimant, new_id(), now)
    with pymongo.timeout(PATIENCE_S):
        found = reader.change(TASKS, where, change, sort=OLDEST_FIRST)
    return [] if found is None else [found]


def _take_many(
    reader: Reader, seen: list[Document], claimant: Claimant, now: Now
) -> list[Document]:
    token = new_id()
    hindrance: PyMongoError | None = None
    try:
        with pymongo.timeout(PATIENCE_S):
            if not _change_many(reader, seen, _claiming(claimant, token, now), now):
                return []
    except PyMongoError as error:
        if not error.timeout:
            raise
        hindrance = error  # some may be ours: one of the others is held
    ids = [each["_id"] for each in seen]
    found = reader.all(TASKS, {"_id": {"$in": ids}, "claim": token, "state": "running"})
    if hindrance is not None and not found:
        raise hindrance
    return sorted(found, key=lambda each: ids.index(each["_id"]))


def _change_many(reader: Reader, seen: list[Document], change: Pipeline, now: Now) -> bool:
    """Claim all that can be had; whether some may be ours now."""
    if any(each["state"] != "pending" for each in seen):
        return _change_each(reader, seen, change, now)
    try:
        # For the server one change of many costs half of what many changes do.
        return bool(reader.change_all(TASKS, _still_waiting(seen, now), change))
    except PyMongoError as error:
        if error.timeout:
            raise
    # Another task of a step runs, or the answer was lost: some may be ours already. The others are
    # tried one by one, which the driver repeats by itself if it must.
    _change_each(reader, seen, change, now)
    return True


def _change_each(reader: Reader, seen: list[Document], change: Pipeline, now: Now) -> bool:
    return bool(reader.change_each(TASKS, [(_as_seen(each, now), change) for each in seen]))


def _still_waiting(seen: list[Document], now: Now) -> Filter:
    return {
        "_id": {"$in": [each["_id"] for each in seen]},
        "state": "pending",
        "held": False,
        "$expr": {"$lte": ["$not_before", now.ms]},
    }


def _as_seen(seen: Document, now: Now) -> Filter:
    where: dict[str, Any] = {"_id": seen["_id"], "version": seen["version"]}
    if seen["state"] == "running":
        # A look may see a claim that is younger than its time: such a lease looks as if the clock
        # had been set back. The time of this change is later than whatever was seen.
        where["$expr"] = {"$or": [*_ways_to_be_over(now)]}
    return where


def _claiming(claimant: Claimant, token: str, now: Now) -> Pipeline:
    change = {
        "state": "running",
        "owner": literal(claimant.owner),
        "claim": token,
        "fence": {"$add": ["$fence", 1]},
        "deliveries": {"$add": ["$deliveries", 1]},
        "lease_ms": literal(claimant.lease_ms),
        "lease_expires": now.after(claimant.lease_ms),
        "lease_begins": now.ms,
        "not_before": 0,
        "updated": now.ms,
        "version": {"$add": ["$version", 1]},
    }
    return [{"$set": change}]


# Waiting


def seconds_left(reader: Reader, wanted: Wanted, now: Now) -> float:
    """Until a task can be claimed without anybody's doing: 0 now, infinite never."""
    if not wanted.names:
        return math.inf
    parts = _parts(wanted, now, 1, is_free=True)
    if reader.aggregate(TASKS, [*_together(parts), {"$limit": 1}]):
        return 0
    times = reader.aggregate(TASKS, _together(list(_next_times(wanted, now))))
    return min((each["left"] / 1000 for each in times), default=math.inf)


def _next_times(wanted: Wanted, now: Now) -> Iterable[Pipeline]:
    """Of leases the next end of all: most are renewed before it comes, and looking is cheap."""
    yield _next("lease_expires", {"state": "running"}, now)
    for field, names in (("name", wanted.names), ("short_name", wanted.short_names)):
        for some in _in_chunks(names):
            where = {
                "state": "pending",
                "task_list_name": wanted.task_list,
                field: {"$in": some},
                "held": False,
            }
            yield _next("not_before", where, now)


def _next(field: str, where: Filter, now: Now) -> Pipeline:
    ahead = {"$gt": [f"${field}", now.ms]}
    return [
        {"$match": {**where, "$expr": ahead}},
        {"$sort": {field: 1}},
        {"$limit": 1},
        {"$project": {"_id": 0, "left": {"$subtract": [f"${field}", now.ms]}}},
    ]
