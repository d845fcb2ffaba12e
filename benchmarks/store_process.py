"""A worker on a database in a process of its own, or a bare loop that stands beside it.

`python -m benchmarks.store_process KIND URL` prints a line when it is ready, begins at a line on
its standard input, and prints the monotonic time, which all processes of a machine share, when
nothing is left to do. KIND is

- `ours`: claim a task, complete it, one by one, as a worker with one slot does: where the store
  can, a result brings the next task along;
- `bare`: two commits with the driver alone, in a table or collection of its own;
- `bare_batch`: the same, but claims and completions of `BATCH` tasks in each;
- `worker`: the worker that we ship, which takes what waits together; it never ends by itself.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

from afl.bootstrap import open_store
from afl.clock import SYSTEM_CLOCK
from afl.collector import collector_rare
from afl.ids import new_id
from afl.runtime.agent_poller import AgentPoller, AgentPollerConfig
from afl.runtime.claims import NextClaim
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import DEFAULT_TASK_LIST
from afl.runtime.task_source import TaskSource
from benchmarks.engine import NAME

BATCH, SLOTS = 50, 100
BARE = "bench_bare"

_POSTGRES_TABLE = f"""\
CREATE TABLE {BARE} (id bigint PRIMARY KEY, state text NOT NULL, owner text);
CREATE INDEX ON {BARE} (id) WHERE state = 'new';
INSERT INTO {BARE} SELECT id, 'new' FROM generate_series(1, %d) AS id"""
_POSTGRES_CLAIM = f"""\
UPDATE {BARE} SET state = 'claimed', owner = 'bench' WHERE id = ANY (ARRAY (
    SELECT id FROM {BARE} WHERE state = 'new' ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED
)) RETURNING id"""
_POSTGRES_COMPLETE = f"UPDATE {BARE} SET state = 'done' WHERE id = ANY (%s) AND state = 'claimed'"


def prepare_bare(url: str, tasks: int) -> None:
    """Tasks for bare loops."""
    if url.startswith("postgresql:"):
        import psycopg

        with psycopg.connect(url) as connection:
            connection.execute(f"DROP TABLE IF EXISTS {BARE}")
            connection.execute(_POSTGRES_TABLE % tasks)
    else:
        collection = _mongo_collection(url)
        collection.drop()
        collection.create_index([("state", 1), ("_id", 1)])
        collection.insert_many([{"_id": each, "state": "new"} for each in range(tasks)])


def _mongo_collection(url: str) -> Any:
    import pymongo

    client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(url)
    durable = pymongo.WriteConcern("majority", j=True)
    return client.get_database("bench", write_concern=durable)[BARE]


# What is done until nothing is left

Loop = Callable[[], object]


def ours(url: str) -> Loop:
    store = open_store(url)
    evaluator = Evaluator(store)
    source = TaskSource(store, evaluator, lambda: [NAME], lambda _: None)
    further = NextClaim(frozenset([NAME]), new_id(), task_list=DEFAULT_TASK_LIST)

    def loop() -> None:
        # Those who come second may get nothing though something is left.
        while (works := source.claim(1)) or store.wait_for_work([NAME], 0):
            tasks = [each.task for each in works]
            while tasks:
                tasks = evaluator.complete_task(tasks[0], tasks[0].data, claim=further)

    return loop


def bare(url: str, batch: int = 1) -> Loop:
    return _bare_postgres(url, batch) if url.startswith("postgresql:") else _bare_mongo(url, batch)


def _bare_postgres(url: str, batch: int) -> Loop:
    import psycopg

    connection = psycopg.connect(url, autocommit=True)
    connection.prepare_threshold = 0

    def loop() -> None:
        while rows := connection.execute(_POSTGRES_CLAIM, (batch,)).fetchall():
            connection.execute(_POSTGRES_COMPLETE, ([key for (key,) in rows],))

    return loop


def _bare_mongo(url: str, batch: int) -> Loop:
    collection = _mongo_collection(url)
    claimed = {"$set": {"state": "claimed", "owner": "bench"}}
    done = {"$set": {"state": "done"}}

    def one_by_one() -> None:
        while found := collection.find_one_and_update({"state": "new"}, claimed, sort=[("_id", 1)]):
            collection.update_one({"_id": found["_id"], "state": "claimed"}, done)

    def in_batches() -> None:
        while found := list(collection.find({"state": "new"}, sort=[("_id", 1)], limit=batch)):
            ids = {"$in": [each["_id"] for each in found]}
            collection.update_many({"_id": ids, "state": "new"}, claimed)
            collection.update_many({"_id": ids, "state": "claimed"}, done)

    return one_by_one if batch == 1 else in_batches


def worker(url: str) -> Loop:
    store = open_store(url)
    poller = AgentPoller(store, Evaluator(store), AgentPollerConfig(max_concurrent=SLOTS))
    poller.register(NAME, lambda payload: {"n": payload["n"]})
    return poller.start


KINDS: dict[str, Callable[[str], Loop]] = {
    "ours": ours,
    "bare": bare,
    "bare_batch": lambda url: bare(url, BATCH),
    "worker": worker,
}


def main() -> None:
    kind, url = sys.argv[1:]
    loop = KINDS[kind](url)
    print("ready", flush=True)
    sys.stdin.readline()
    with collector_rare():  # as `afl worker` does; the others have the same
        loop()
    print(SYSTEM_CLOCK.monotonic(), flush=True)
    if kind == "worker":
        threading.Event().wait()


if __name__ == "__main__":
    main()
