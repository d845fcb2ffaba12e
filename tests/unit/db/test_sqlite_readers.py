"""Reads: one snapshot each, many at once, and no way to write."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from afl.db.sqlite import Database, Reader, Transaction
from afl.errors import StoreMisused


def insert(transaction: Transaction) -> None:
    transaction.execute("INSERT INTO item (text) VALUES ('x')")


def counted(reader: Reader) -> int:
    row = reader.query_one("SELECT count(*) FROM item")
    assert row is not None
    return int(row[0])


def test_a_read_sees_the_writes_before_it(database: Database) -> None:
    for expected in range(1, 20):
        database.write(insert)
        assert database.read(counted) == expected


def test_a_read_is_one_snapshot_whatever_is_written_meanwhile(database: Database) -> None:
    def look_twice(reader: Reader) -> tuple[int, int]:
        first = counted(reader)
        database.write(insert)
        return first, counted(reader)

    assert database.read(look_twice) == (0, 0)
    assert database.read(counted) == 1


def test_many_threads_read_at_once_while_the_writer_writes(
    database: Database, start: Callable[..., threading.Thread]
) -> None:
    together = threading.Barrier(16)
    results: list[int] = []

    def meet(reader: Reader) -> int:
        first = counted(reader)
        together.wait(20)
        return first

    threads = [start(lambda: results.append(database.read(meet))) for _ in range(48)]
    database.write(insert)
    for thread in threads:
        thread.join(20)
    assert len(results) == 48
    assert set(results) <= {0, 1}
    assert database.statistics().active_readers == 0


def test_a_read_cannot_write(database: Database) -> None:
    with pytest.raises(StoreMisused, match="cannot change anything"):
        database.read(lambda reader: reader.query_all("DELETE FROM item RETURNING id"))


def test_a_read_inside_a_read_is_refused(database: Database) -> None:
    with pytest.raises(StoreMisused, match="inside a read"):
        database.read(lambda _: database.read(counted))
    assert database.read(counted) == 0


def test_what_a_read_raises_comes_out(database: Database) -> None:
    def fail(_reader: Reader) -> None:
        raise LookupError("not there")

    with pytest.raises(LookupError, match="not there"):
        database.read(fail)
    assert database.read(counted) == 0


def test_a_reader_ends_with_its_function(database: Database) -> None:
    kept = database.read(lambda reader: reader)
    with pytest.raises(StoreMisused, match="has ended"):
        kept.query_one("SELECT 1")


def test_a_read_at_work_survives_the_close(
    database: Database, start: Callable[..., threading.Thread]
) -> None:
    has_begun, may_end = threading.Event(), threading.Event()
    results: list[int] = []

    def slow(reader: Reader) -> int:
        has_begun.set()
        assert may_end.wait(20)
        return counted(reader)

    thread = start(lambda: results.append(database.read(slow)))
    assert has_begun.wait(20)
    database.close()
    may_end.set()
    thread.join(20)
    assert results == [0]
