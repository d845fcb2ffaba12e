"""The SQLite writer, beside bare transactions of one thread on the same disk."""

from __future__ import annotations

import sqlite3
import tempfile
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from afl.db.sqlite import Database, Transaction
from benchmarks.measure import best_of, judged

REQUESTS = 1024
ROUNDS = 4
#: Waiting threads → the longest a request may take, in bare transactions.
AIMS = {1: 2.5, 8: 1.2, 64: 0.7}

_TABLE = "CREATE TABLE item (id INTEGER PRIMARY KEY, state TEXT)"
_INSERT = "INSERT INTO item (state) VALUES ('new')"
_UPDATE = "UPDATE item SET state = 'done' WHERE id = 1"


def run() -> dict[str, Any]:
    return {"group_commit": _group_commit()}


def _group_commit() -> dict[str, Any]:
    """Requests of an insert and an update each; all durable before their callers go on."""
    with tempfile.TemporaryDirectory() as folder, Database(Path(folder, "ours.db")) as database:
        database.write(lambda tx: tx.execute(_TABLE))
        with closing(bare_connection(Path(folder, "bare.db"))) as connection:
            actions = [lambda: _bare(connection), *_ours(database)]
            bare, *ours = best_of(ROUNDS, *actions)
    results = {
        f"{threads}_waiting": judged(
            seconds / bare,
            aim,
            unit="times the bare time",
            per_second=round(REQUESTS / seconds),
            times_faster=round(bare / seconds, 2),
        )
        for seconds, (threads, aim) in zip(ours, AIMS.items(), strict=True)
    }
    return {"bare_per_second": round(REQUESTS / bare), **results}


def bare_connection(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(_TABLE)
    return connection


def bare_transaction(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(_INSERT)
    connection.execute(_UPDATE)
    connection.execute("COMMIT")


def _bare(connection: sqlite3.Connection) -> None:
    for _ in range(REQUESTS):
        bare_transaction(connection)


def _ours(database: Database) -> list[Callable[[], None]]:
    def action(threads: int) -> Callable[[], None]:
        return lambda: _with_threads(database, threads)

    return [action(threads) for threads in AIMS]


def _with_threads(database: Database, threads: int) -> None:
    def work() -> None:
        for _ in range(REQUESTS // threads):
            database.write(_request)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def _request(transaction: Transaction) -> None:
    transaction.execute(_INSERT)
    transaction.execute(_UPDATE)
