"""Bare loops on PostgreSQL and MongoDB: what a database can do for whoever writes the same.

`bare` makes the two commits that a task of ours takes, with the driver alone: one that claims it,
and one that ends it together with its step, the block and the workflow around that, a yield and
the run. It reads nothing, decides nothing, and knows no leases, fences or announcements.

`bare_rows` makes two commits for each task, or for many at once, that change one row each. No store
of runs can come near to that: it says what two commits cost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: What is done until nothing is left.
Loop = Callable[[], object]

BATCH = 50
TASK, STEP, RUN = "bench_task", "bench_step", "bench_run"
#: Steps that change when the only task of a run ends: its own, the block, the workflow.
STEPS = 3

_TABLES = f"""\
DROP TABLE IF EXISTS {TASK}, {STEP}, {RUN};
CREATE TABLE {TASK} (id bigint PRIMARY KEY, state text NOT NULL, owner text);
CREATE INDEX ON {TASK} (id) WHERE state = 'new';
CREATE TABLE {STEP} (id bigint PRIMARY KEY, state text NOT NULL, result text);
CREATE TABLE {RUN} (id bigint PRIMARY KEY, state text NOT NULL, ended bigint);
INSERT INTO {TASK} SELECT id, 'new' FROM generate_series(0, %(last)s) AS id;
INSERT INTO {STEP} SELECT id, 'new' FROM generate_series(0, {STEPS} * (%(last)s + 1) - 1) AS id;
INSERT INTO {RUN} SELECT id, 'running' FROM generate_series(0, %(last)s) AS id"""
_CLAIM = f"""\
UPDATE {TASK} SET state = 'claimed', owner = 'bench' WHERE id = ANY (ARRAY (
    SELECT id FROM {TASK} WHERE state = 'new' ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED
)) RETURNING id"""
_END_TASKS = f"UPDATE {TASK} SET state = 'done' WHERE id = ANY (%s) AND state = 'claimed'"
_END_STEPS = f"UPDATE {STEP} SET state = 'done', result = %s WHERE id = ANY (%s)"
_ADD_STEP = f"INSERT INTO {STEP} VALUES (%s, 'done', %s)"
_END_RUN = f"UPDATE {RUN} SET state = 'done', ended = %s WHERE id = %s AND state = 'running'"
_RESULT = '{"n":[1,"Long"]}'


def prepare_bare(url: str, tasks: int) -> None:
    """A run with one task for each of these."""
    if _is_postgres(url):
        import psycopg

        with psycopg.connect(url) as connection:
            connection.execute((_TABLES % {"last": tasks - 1}).encode())
        return
    database = _mongo_database(url)
    for name in (TASK, STEP, RUN):
        database[name].drop()
    database[TASK].create_index([("state", 1), ("_id", 1)])
    database[TASK].insert_many([{"_id": each, "state": "new"} for each in range(tasks)])
    database[STEP].insert_many([{"_id": each, "state": "new"} for each in range(STEPS * tasks)])
    database[RUN].insert_many([{"_id": each, "state": "running"} for each in range(tasks)])


def bare(url: str) -> Loop:
    return _bare_postgres(url) if _is_postgres(url) else _bare_mongo(url)


def bare_rows(url: str, batch: int = 1) -> Loop:
    return _rows_of_postgres(url, batch) if _is_postgres(url) else _rows_of_mongo(url, batch)


def _is_postgres(url: str) -> bool:
    return url.startswith("postgresql:")


def _steps_of(task: int) -> list[int]:
    return list(range(STEPS * task, STEPS * task + STEPS))


# PostgreSQL


def _postgres(url: str) -> Any:
    import psycopg

    connection = psycopg.connect(url, autocommit=True)
    connection.prepare_threshold = 0
    return connection


def _bare_postgres(url: str) -> Loop:
    connection = _postgres(url)

    def loop() -> None:
        while row := connection.execute(_CLAIM, (1,)).fetchone():
            (task,) = row
            with connection.pipeline(), connection.transaction():
                connection.execute(_END_TASKS, ([task],))
                connection.execute(_END_STEPS, (_RESULT, _steps_of(task)))
                connection.execute(_ADD_STEP, (-1 - task, _RESULT))
                connection.execute(_END_RUN, (1, task))

    return loop


def _rows_of_postgres(url: str, batch: int) -> Loop:
    connection = _postgres(url)

    def loop() -> None:
        while rows := connection.execute(_CLAIM, (batch,)).fetchall():
            connection.execute(_END_TASKS, ([key for (key,) in rows],))

    return loop


# MongoDB

_CLAIMED = {"$set": {"state": "claimed", "owner": "bench"}}
_DONE = {"$set": {"state": "done"}}
_FIRST = [("_id", 1)]


def _mongo_database(url: str) -> Any:
    import pymongo

    client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(url)
    return client.get_database("bench", write_concern=pymongo.WriteConcern("majority", j=True))


def _bare_mongo(url: str) -> Loop:
    from pymongo import UpdateOne

    database = _mongo_database(url)
    tasks, steps, runs = (database[name] for name in (TASK, STEP, RUN))
    ended = {"$set": {"state": "done", "result": _RESULT}}
    over = {"$set": {"state": "done", "ended": 1}}

    def loop() -> None:
        with database.client.start_session() as session:
            while found := tasks.find_one_and_update({"state": "new"}, _CLAIMED, sort=_FIRST):
                task = found["_id"]
                changes = [UpdateOne({"_id": each}, ended) for each in _steps_of(task)]
                with session.start_transaction():
                    # In one command: a change may also make what it does not find.
                    made = UpdateOne({"_id": -1 - task}, ended, upsert=True)
                    steps.bulk_write([made, *changes], session=session)
                    claimed = {"_id": task, "state": "claimed"}
                    tasks.update_one(claimed, _DONE, session=session)
                    runs.update_one({"_id": task, "state": "running"}, over, session=session)

    return loop


def _rows_of_mongo(url: str, batch: int) -> Loop:
    tasks = _mongo_database(url)[TASK]

    def one_by_one() -> None:
        while found := tasks.find_one_and_update({"state": "new"}, _CLAIMED, sort=_FIRST):
            tasks.update_one({"_id": found["_id"], "state": "claimed"}, _DONE)

    def in_batches() -> None:
        while found := list(tasks.find({"state": "new"}, sort=_FIRST, limit=batch)):
            ids = {"$in": [each["_id"] for each in found]}
            tasks.update_many({"_id": ids, "state": "new"}, _CLAIMED)
            tasks.update_many({"_id": ids, "state": "claimed"}, _DONE)

    return one_by_one if batch == 1 else in_batches
