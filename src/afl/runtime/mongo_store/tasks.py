"""Tasks: the questions that are asked about them, and single changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from afl.db.mongo import Document, Filter, Reader, Transaction
from afl.db.mongo.transaction import BETWEEN_TOPICS, NEWS, news
from afl.errors import Conflict
from afl.runtime.asking.topics import run_topic, work_topic
from afl.runtime.claims import check_save, ended, may_follow
from afl.runtime.entities import TASK_TRANSITIONS, TaskDefinition, TaskState
from afl.runtime.mongo_store.documents import NEWEST_FIRST, Documents
from afl.runtime.mongo_store.runs import Held, head_of, heads_of
from afl.runtime.mongo_store.schema import BY_AGE, QUEUED, RUNS, STEPS, TASKS
from afl.runtime.mongo_store.times import Now, literal
from afl.runtime.persistence import Claim, task_id_of
from afl.runtime.types import WorkflowId


def is_stray(task: TaskDefinition) -> int:
    """Whether it is not the one task that the engine makes for a step."""
    return int(task.uuid != task_id_of(task.step_id))


def _lease_begins(task: TaskDefinition) -> int:
    # Only where there is a lease: other numbers may be anything.
    return task.lease_expires - task.lease_ms if task.state == TaskState.RUNNING else 0


KIND = Documents(
    TASKS,
    TaskDefinition,
    extra={"short_name": "short_name", "is_stray": is_stray, "lease_begins": _lease_begins},
)

#: How a task stands; what it is never changes.
_CHANGING = (
    "state",
    "updated",
    "error",
    "owner",
    "lease_expires",
    "lease_ms",
    "lease_begins",
    "fence",
    "deliveries",
    "failures",
    "not_before",
    "held",
)
#: Of a step in a foreach: its round, and the foreach.
_BLOCKS_ABOVE = 2
#: Terminal states are final, whatever the writer believes: which states may come before each.
_BEFORE = {
    following: [
        str(state)
        for state, allowed in TASK_TRANSITIONS.items()
        if following == state or following in allowed
    ]
    for following in map(str, TaskState)
}


# Questions


def get(reader: Reader, task_id: str) -> TaskDefinition | None:
    return KIND.one(reader, {"_id": task_id})


def get_with_steps(reader: Reader, task_id: str) -> tuple[TaskDefinition, list[Document]] | None:
    """A task, and the documents of its step, of the blocks that step is in, and of what contains
    them if they end with it: who ends a task goes on with them, and asking once takes half as long
    as asking for each. The task alone, if they are too large together for one answer."""
    for found in reader.aggregate(TASKS, [{"$match": {"_id": task_id}}, *_WITH_STEPS]):
        return KIND.record(found), found["steps"] + found["containers"]
    return None


class WithRun(NamedTuple):
    """What the result of a task begins with."""

    task: TaskDefinition
    #: As `get_with_steps` gives them.
    around: list[Document]
    run: Held | None
    #: When the server looked.
    time: datetime


def get_with_run(reader: Reader, task_id: str, workflow_id: str) -> WithRun | None:
    """The same, with the run: all in one question."""
    time_and_run = [{"$set": {"time": "$$NOW"}}, *heads_of(workflow_id, "run")]
    for found in reader.aggregate(
        TASKS, [{"$match": {"_id": task_id}}, *time_and_run, *_WITH_STEPS]
    ):
        run = head_of(found["run"][0]) if found["run"] else None
        around = found["steps"] + found["containers"]
        return WithRun(KIND.record(found), around, run, found["time"])
    return None


#: Blocks that tell their container if they end now; a round of a foreach tells the foreach. Others
#: are not read, because their parameters can be long.
_IS_ENDING = {"$and": [{"$eq": ["$$this.pending", 1]}, {"$not": ["$$this.block_id"]}]}
_ENDING = {"$filter": {"input": "$steps", "cond": _IS_ENDING}}


def _size_of(field: str) -> Filter:
    return {"$sum": {"$map": {"input": field, "in": {"$bsonSize": "$$this"}}}}


#: What the server answers is one document, which has an end, and a little besides.
_MOST_IN_ONE = 16 * 1024 * 1024 - 1024
_FITS = {"$lte": [{"$add": ["$size", _size_of("$steps"), _size_of("$containers")]}, _MOST_IN_ONE]}
_WITH_STEPS: list[Filter] = [
    {"$set": {"size": {"$bsonSize": "$$ROOT"}}},
    {
        "$graphLookup": {
            "from": STEPS,
            "startWith": "$step_id",
            "connectFromField": "block_id",
            "connectToField": "_id",
            "maxDepth": _BLOCKS_ABOVE,
            "as": "steps",
        }
    },
    {"$set": {"ending": {"$map": {"input": _ENDING, "in": "$$this.container_id"}}}},
    {
        "$lookup": {
            "from": STEPS,
            "localField": "ending",
            "foreignField": "_id",
            "as": "containers",
        }
    },
    {"$set": {each: {"$cond": [_FITS, f"${each}", []]} for each in ("steps", "containers")}},
]


def get_many(reader: Reader, task_ids: Sequence[str]) -> dict[str, TaskDefinition]:
    found = map(KIND.record, reader.all(TASKS, {"_id": {"$in": list(task_ids)}}))
    return {each.uuid: each for each in found}


def of_run(reader: Reader, workflow_id: str) -> list[TaskDefinition]:
    return _in_order(_of_run(reader, workflow_id, {}))


def open_of_run(reader: Reader, workflow_id: WorkflowId) -> list[TaskDefinition]:
    is_open = {"state": {"$in": ["pending", "running"]}}
    return _in_order(_of_run(reader, workflow_id, is_open))


def newest_of_run(reader: Reader, workflow_id: str, more: Filter, limit: int) -> list[Document]:
    """In no order."""
    last: list[Filter] = [{"$sort": {"seq": -1}}, {"$limit": limit}]
    return _of_run(reader, workflow_id, more, last)


def _of_run(
    reader: Reader, workflow_id: str, more: Filter, last: Sequence[Filter] = ()
) -> list[Document]:
    """Tasks of steps are found by the steps of the run, whose ids they have."""
    own: list[Filter] = [
        {"$match": {"workflow_id": workflow_id}},
        {"$lookup": {"from": TASKS, "localField": "_id", "foreignField": "_id", "as": "task"}},
        {"$unwind": "$task"},
        {"$replaceWith": "$task"},
        {"$match": more},
    ]
    strays: list[Filter] = [{"$match": {"workflow_id": workflow_id, "is_stray": 1, **more}}]
    return [
        *reader.aggregate(STEPS, [*own, *last]),
        *reader.aggregate(TASKS, [*strays, *last]),
    ]


def _in_order(documents: list[Document]) -> list[TaskDefinition]:
    return [KIND.record(each) for each in sorted(documents, key=lambda each: int(each["seq"]))]


def pending(reader: Reader, task_list: str) -> list[TaskDefinition]:
    # By the queue, not by age: else all tasks might be looked through for the few that wait.
    found = reader.all(TASKS, {**QUEUED, "task_list_name": task_list})
    return _in_order(found)


def newest(reader: Reader, limit: int) -> list[TaskDefinition]:
    return KIND.some_of(reader, BY_AGE, limit, sort=NEWEST_FIRST)


def by_runner(reader: Reader, runner_id: str) -> list[TaskDefinition]:
    known = reader.one(RUNS, {"_id": runner_id}, fields={"workflow_id": 1})
    runs = {runner_id, runner_id if known is None else known["workflow_id"]}
    found = [task for run in sorted(runs) for task in of_run(reader, run)]
    mine = [each for each in found if each.runner_id == runner_id]
    return mine or KIND.all(reader, {"runner_id": runner_id})


def by_state(reader: Reader, state: str, limit: int) -> list[TaskDefinition]:
    return KIND.some_of(reader, {**BY_AGE, "state": state}, limit, sort=NEWEST_FIRST)


# Changes


def create(tx: Transaction, tasks: Sequence[TaskDefinition]) -> None:
    tx.insert(TASKS, [KIND.new(tx, each) for each in tasks])
    announce(tx, tasks)


def update(tx: Transaction, tasks: Sequence[TaskDefinition]) -> None:
    ids = ", ".join(each.uuid for each in tasks)
    refusal = Conflict(
        f"written since it was read, over, or gone: task {ids}; read again and decide anew"
    )
    tx.update(TASKS, map(_update, tasks), refusal)
    announce(tx, tasks)


def _update(task: TaskDefinition) -> tuple[Filter, Document]:
    allowed = {"$in": _BEFORE.get(task.state, [])}
    where = {"_id": task.uuid, "version": task.version, "state": allowed}
    return where, {"$set": {**KIND.some(task, _CHANGING), "version": task.version + 1}}


def save(tx: Transaction, task: TaskDefinition) -> None:
    stored = get(tx, task.uuid)
    if not check_save(stored, task):
        return
    if stored is None:
        create(tx, [task])
    else:
        _replace(tx, stored, task)


def _replace(tx: Transaction, stored: TaskDefinition, task: TaskDefinition) -> None:
    fields = KIND.document(replace(task, version=stored.version + 1))
    where = {"_id": fields.pop("_id"), "version": stored.version}
    tx.update(TASKS, [(where, {"$set": fields})], _moved(task.uuid))
    announce(tx, [task])


def change_state(tx: Transaction, task_id: str, state: str) -> bool:
    task = get(tx, task_id)
    if task is None or not may_follow(task.state, state):
        return False
    # Whatever follows, whoever had claimed it has lost it.
    moved = ended(task, state, tx.now, task.error)
    tx.update(TASKS, [_update(moved)], _moved(task_id))
    announce(tx, [moved])
    return True


def _moved(task_id: str) -> Conflict:
    return Conflict(f"task {task_id} was written at the same moment; read it again")


def touch(tx: Transaction, task_ids: Iterable[str]) -> None:
    """These were read, and must not have changed since."""
    where = {"_id": {"$in": sorted(task_ids)}}
    tx.change_all(TASKS, where, {"$inc": {"touched": 1}})


def announce(tx: Transaction, tasks: Iterable[TaskDefinition]) -> None:
    """Say that these can be claimed, and that something of their runs has changed.

    Also what is not due yet: who waits must know when it will be. The end of a second task lets
    the first one of the step be claimed; the other way round, who waits finds it when looking
    again.
    """
    for each in tasks:
        is_waiting = each.state == TaskState.PENDING and not each.held
        if is_waiting or (each.is_over and is_stray(each)):
            tx.announce(work_topic(each.task_list_name))
        tx.announce(run_topic(each.workflow_id))
        tx.announce(run_topic(each.runner_id))


# Claims: changes of single documents, by the clock of the server


_TOPICS_OF_RELEASE = (
    (work_topic(""), "$task_list_name"),
    (run_topic(""), "$workflow_id"),
    (run_topic(""), "$runner_id"),
)


def _news_of_release() -> Any:
    topics = [part for topic in _TOPICS_OF_RELEASE for part in (BETWEEN_TOPICS, *topic)]
    return {"$concat": [literal(news()), *topics]}


def release(reader: Reader, claim: Claim, not_before: int, now: Now) -> TaskDefinition | None:
    """The task as it is then; None if the claim is lost."""
    change = {
        "state": "pending",
        "owner": "",
        "lease_expires": 0,
        "lease_ms": 0,
        "lease_begins": 0,
        "deliveries": {"$max": [{"$subtract": ["$deliveries", 1]}, 0]},
        "not_before": literal(not_before),
        "updated": now.ms,
        "version": {"$add": ["$version", 1]},
        NEWS: _news_of_release(),
    }
    found = reader.change(TASKS, held_by(claim), [{"$set": change}])
    return None if found is None else KIND.record(found)


def extend(reader: Reader, claims: Sequence[Claim], lease_ms: int, now: Now) -> list[bool]:
    wanted = set(claims)
    if not wanted:
        return []
    change = _extension(lease_ms, now)
    if reader.change_each(TASKS, [(held_by(each), change) for each in wanted]) == len(wanted):
        return [True] * len(claims)
    good = _good(reader, claims)
    return [tuple(each) in good for each in claims]


def held_by(claim: Claim) -> Filter:
    return {"_id": claim.task_id, "state": "running", "fence": claim.fence}


def _good(reader: Reader, claims: Sequence[Claim]) -> set[tuple[str, int]]:
    where = {"_id": {"$in": [each.task_id for each in claims]}, "state": "running"}
    return {(each["_id"], each["fence"]) for each in reader.all(TASKS, where, fields={"fence": 1})}


def _extension(lease_ms: int, now: Now) -> list[dict[str, Any]]:
    """A lease never becomes shorter. One that ends further ahead than it is long comes from a
    clock that was set back, and counts as over."""
    holds = {
        "$and": [
            {"$lt": [now.ms, "$lease_expires"]},
            {"$lte": ["$lease_expires", {"$add": [now.ms, "$lease_ms"]}]},
        ]
    }
    ends = {"$max": [now.after(lease_ms), {"$cond": [holds, "$lease_expires", 0]}]}
    return [
        {"$set": {"lease_expires": ends, "lease_begins": now.ms}},
        {
            "$set": {
                "lease_ms": {"$subtract": ["$lease_expires", "$lease_begins"]},
                "version": {"$add": ["$version", 1]},
            }
        },
    ]
