"""When the file fails: everybody in the batch is told, nothing is half written, life goes on."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from afl.db.sqlite import Database, Transaction
from afl.errors import StoreMisused, StoreUnavailable

Held = Callable[[Database], AbstractContextManager[None]]
Items = Callable[[], list[Any]]


def insert(transaction: Transaction) -> None:
    transaction.execute("INSERT INTO item (text) VALUES ('small')")


def insert_much(transaction: Transaction) -> None:
    for _ in range(10):
        transaction.execute("INSERT INTO item (text) VALUES (zeroblob(100000))")


@contextmanager
def disk_full(database: Database) -> Iterator[None]:
    """Allow the file not one page more."""
    database.write(lambda tx: tx.query_one("PRAGMA max_page_count = 1"))
    try:
        yield
    finally:
        database.write(lambda tx: tx.query_one("PRAGMA max_page_count = 1073741823"))


def test_a_full_disk_fails_the_whole_batch_and_nothing_of_it_is_there(
    database: Database, writer_held: Held, items: Items
) -> None:
    with disk_full(database):
        with writer_held(database):
            requests = [insert, insert_much, insert]
            futures = [database.submit(each) for each in requests]
        errors = [each.exception() for each in futures]
        assert [type(each) for each in errors] == [StoreUnavailable] * 3
        assert len(set(map(id, errors))) == 3, "each caller has an exception of their own"
        assert "full" in str(errors[2])
        assert items() == []
        assert database.statistics().failed_batches == 1
    database.write(insert)
    assert items() == [1]


def test_who_hides_a_full_disk_cannot_go_on_writing(database: Database, items: Items) -> None:
    refused = []

    def stubborn(transaction: Transaction) -> None:
        try:
            insert_much(transaction)
        except sqlite3.OperationalError:
            try:
                insert(transaction)
            except StoreMisused as error:
                refused.append(str(error))

    with disk_full(database), pytest.raises(StoreUnavailable):
        database.write(stubborn)
    assert refused == ["this transaction was undone after an error; let that error out"]
    assert items() == []


def test_a_failing_commit_fails_the_whole_batch(
    database: Database, writer_held: Held, items: Items
) -> None:
    database.write(
        lambda tx: tx.execute(
            "CREATE TABLE part (item REFERENCES item (id) DEFERRABLE INITIALLY DEFERRED)"
        )
    )
    with writer_held(database):
        good = database.submit(insert)
        orphan = database.submit(lambda tx: tx.execute("INSERT INTO part VALUES (12345)"))
    for future in (good, orphan):
        with pytest.raises(StoreUnavailable, match="FOREIGN KEY"):
            future.result()
    assert items() == []
    database.write(insert)
    assert items() == [1]


@contextmanager
def locked(path: str) -> Iterator[sqlite3.Connection]:
    """Hold the file as a process in the middle of a transaction does."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("ROLLBACK")


def test_a_locked_file_is_waited_for(database: Database, items: Items) -> None:
    with locked(database.path):
        future = database.submit(insert)
        database.submit(insert).cancel()
        assert database.read(lambda reader: reader.query_all("SELECT id FROM item")) == []
        assert not future.done()
    future.result(20)
    assert items() == [1]


def test_a_file_locked_for_too_long_is_unavailable(folder: Path) -> None:
    with Database(folder / "afl.db", busy_timeout_s=0.01) as database:
        with locked(database.path), pytest.raises(StoreUnavailable, match="holds its lock"):
            database.write(lambda _: None)
        database.write(lambda _: None)


def test_a_file_that_is_gone_is_not_written_into(database: Database) -> None:
    Path(database.path).rename(database.path + ".moved")
    with pytest.raises(StoreUnavailable, match="removed or replaced"):
        database.write(insert)
    Path(database.path + ".moved").rename(database.path)
    database.write(insert)


def test_reading_does_not_make_a_new_file_where_one_was_removed(database: Database) -> None:
    Path(database.path).unlink()
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        database.read(lambda reader: reader.query_all("SELECT id FROM item"))
    assert not Path(database.path).exists()


def test_odd_names_are_read_and_written(folder: Path) -> None:
    with Database(folder / "a b%20?#ü'.db") as database:
        database.write(lambda tx: tx.execute("CREATE TABLE item (id)"))
        assert database.read(lambda reader: reader.query_all("SELECT id FROM item")) == []


def test_a_connection_that_cannot_undo_is_replaced(
    database: Database, monkeypatch: pytest.MonkeyPatch, items: Items
) -> None:
    class Broken(sqlite3.Connection):
        def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
            if sql in ("COMMIT", "ROLLBACK"):
                raise sqlite3.OperationalError("disk I/O error")
            return super().execute(sql, *arguments)

    def connect_broken(path: str, _busy_timeout_s: float) -> sqlite3.Connection:
        return sqlite3.connect(path, factory=Broken, isolation_level=None, check_same_thread=False)

    with monkeypatch.context() as patch:
        patch.setattr("afl.db.sqlite.writer.connect", connect_broken)
        second = Database(database.path)
    with second:
        with pytest.raises(StoreUnavailable, match="disk I/O error"):
            second.write(insert)
        second.write(insert)
        assert items() == [1]


def test_an_interrupted_caller_leaves_no_request_behind(
    database: Database, writer_held: Held, items: Items, monkeypatch: pytest.MonkeyPatch
) -> None:
    class InterruptError(BaseException):
        pass

    def interrupt(_future: object) -> None:
        raise InterruptError

    with writer_held(database), monkeypatch.context() as patch:
        patch.setattr("concurrent.futures.Future.result", interrupt)
        with pytest.raises(InterruptError):
            database.write(insert)
    database.write(lambda _: None)
    assert items() == []


def test_many_threads_lose_nothing(
    database: Database, writer_held: Held, start: Callable[..., threading.Thread], items: Items
) -> None:
    # Where the disk is fast, threads that begin one after the other may never meet.
    have_all_asked = threading.Barrier(17)

    def work() -> None:
        first = database.submit(insert)
        have_all_asked.wait()
        first.result()
        for _ in range(24):
            database.write(insert)

    with writer_held(database):
        threads = [start(work) for _ in range(16)]
        have_all_asked.wait()
    for thread in threads:
        thread.join()
    assert len(items()) == 400
    assert database.statistics().largest_batch >= 16
