"""The writer: batches that are durable before anybody is told, and failures that stay alone."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from afl.clock import SYSTEM_CLOCK
from afl.db.sqlite import Database, Reader, Transaction
from afl.db.sqlite.writer import Writer
from afl.errors import Conflict, StoreClosed, StoreMisused

Held = Callable[[Database], AbstractContextManager[None]]
Items = Callable[[], list[Any]]


def insert(id_: int) -> Callable[[Transaction], int]:
    def request(transaction: Transaction) -> int:
        transaction.execute("INSERT INTO item (id) VALUES (?)", (id_,))
        return id_

    return request


def failing(error: BaseException, id_: int = 99) -> Callable[[Transaction], None]:
    def request(transaction: Transaction) -> None:
        transaction.execute("INSERT INTO item (id) VALUES (?)", (id_,))
        raise error

    return request


def test_a_write_returns_what_its_function_returns(database: Database, items: Items) -> None:
    assert database.write(insert(7)) == 7
    assert items() == [7]


def test_what_waits_together_is_committed_together(
    database: Database, writer_held: Held, items: Items
) -> None:
    before = database.statistics().batches
    with writer_held(database):
        futures = [database.submit(insert(n)) for n in range(50)]
        assert database.statistics().queue_length == 50
    assert [each.result() for each in futures] == list(range(50))
    assert items() == list(range(50))
    statistics = database.statistics()
    assert statistics.batches - before == 2  # the one that held the writer, and ours
    assert statistics.largest_batch == 50


def level(transaction: Transaction) -> int:
    """How SQLite waits for the disk at the next commit: 1 it does not, 2 it does."""
    row = transaction.query_one("PRAGMA synchronous")
    assert row is not None
    return int(row[0])


def test_only_what_must_outlast_the_machine_waits_for_the_disk(database: Database) -> None:
    before = database.statistics()
    assert database.write(level) == 2
    assert database.write(level, is_durable=False) == 1
    assert database.write(level, is_durable=False) == 1
    assert database.write(level) == 2
    after = database.statistics()
    assert after.batches - before.batches == 4
    assert after.flushed_batches - before.flushed_batches == 2


def test_a_batch_waits_for_the_disk_if_one_in_it_must(
    database: Database, writer_held: Held
) -> None:
    with writer_held(database):
        light = [database.submit(level, is_durable=False) for _ in range(2)]
        durable = database.submit(level)
    assert [each.result() for each in (*light, durable)] == [2, 2, 2]
    with writer_held(database):
        light = [database.submit(level, is_durable=False) for _ in range(2)]
    assert [each.result() for each in light] == [1, 1]


# Looking ahead


class Stranger:
    """Another process that writes to the same file."""

    def __init__(self, database: Database) -> None:
        self._path = database.path
        self._ids = count(1000)

    def writes(self) -> int:
        """Without waiting for anybody. What it wrote."""
        with closing(sqlite3.connect(self._path, timeout=0)) as connection, connection:
            id_ = next(self._ids)
            connection.execute("INSERT INTO item (id) VALUES (?)", (id_,))
        return id_


@pytest.fixture
def stranger(database: Database) -> Stranger:
    """One that was noticed: the writer has written since."""
    stranger = Stranger(database)
    database.write(level)
    stranger.writes()
    database.write(level)
    return stranger


def ids(reader: Reader) -> list[int]:
    return [id_ for (id_,) in reader.query_all("SELECT id FROM item ORDER BY id")]


def test_who_writes_alone_does_not_look_ahead(database: Database) -> None:
    looks: list[Reader] = []
    for _ in range(3):
        database.submit(level, look=looks.append).result()
    assert looks == []


def test_beside_others_a_request_looks_before_the_file_is_locked(
    database: Database, stranger: Stranger
) -> None:
    seen: list[list[int]] = []

    def look(reader: Reader) -> None:
        seen.append(ids(reader))
        seen.append([stranger.writes()])  # which would be refused if the file were locked
        seen.append(ids(reader))  # of the same moment as before

    found = database.submit(ids, look=look).result()
    before, (written,), after = seen
    assert before == after
    assert found == [*before, written]


def test_all_that_wait_together_look_at_one_moment(
    database: Database, stranger: Stranger, writer_held: Held
) -> None:
    seen: list[list[int]] = []

    def look(reader: Reader) -> None:
        seen.append(ids(reader))
        stranger.writes()

    with writer_held(database):
        futures = [database.submit(ids, look=look) for _ in range(2)]
        futures.append(database.submit(ids))
    found = [each.result() for each in futures]
    assert len(seen) == 2
    assert seen[0] == seen[1]
    assert len(found[0]) == len(seen[0]) + 2


def test_a_look_that_fails_costs_nothing(database: Database, stranger: Stranger) -> None:
    def look(reader: Reader) -> None:
        reader.query_all("SELECT nonsense FROM nowhere")

    assert database.submit(insert(7), look=look).result() == 7


def test_a_look_cannot_be_used_later(database: Database, stranger: Stranger) -> None:
    kept: list[Reader] = []
    database.submit(ids, look=kept.append).result()
    with pytest.raises(StoreMisused, match="has ended with the function"):
        ids(kept[0])


def test_whoever_wrote_long_ago_is_no_company(
    database: Database, stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Reader] = []
    database.submit(level, look=looks.append).result()
    monkeypatch.setattr(database._writer, "_has_company_until", SYSTEM_CLOCK.monotonic())
    database.submit(level, look=looks.append).result()
    assert len(looks) == 1


def test_a_batch_is_no_larger_than_allowed(folder: Path, writer_held: Held) -> None:
    with Database(folder / "small.db", batch_size=3) as database:
        with writer_held(database):
            futures = [database.submit(lambda _: None) for _ in range(10)]
        for each in futures:
            each.result()
        assert database.statistics().largest_batch == 3


def test_nobody_is_told_before_the_commit(
    database: Database, writer_held: Held, items: Items
) -> None:
    seen_when_told: list[list[int]] = []
    is_first_done: list[bool] = []
    with writer_held(database):
        first = database.submit(insert(1))
        first.add_done_callback(lambda _: seen_when_told.append(items()))
        second = database.submit(lambda _: is_first_done.append(first.done()))
        third = database.submit(lambda _: is_first_done.append(bool(items())))
    assert [first.result(), second.result(), third.result()] == [1, None, None]
    assert is_first_done == [False, False], "neither resolved nor visible within its batch"
    assert seen_when_told == [[1]], "visible to others when it was resolved"


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt()])
def test_a_request_that_raises_undoes_only_itself(
    database: Database, writer_held: Held, items: Items, error: BaseException
) -> None:
    with writer_held(database):
        first = database.submit(insert(1))
        bad = database.submit(failing(error))
        last = database.submit(insert(2))
    assert (first.result(), last.result()) == (1, 2)
    assert bad.exception() is error
    assert items() == [1, 2]
    assert database.statistics().failed_requests == 1
    assert database.statistics().failed_batches == 0


def test_a_row_that_is_there_already_is_a_conflict(database: Database) -> None:
    database.write(insert(1))
    with pytest.raises(Conflict, match=r"item\.id") as caught:
        database.write(insert(1))
    assert isinstance(caught.value.__cause__, sqlite3.IntegrityError)


def test_a_request_may_handle_an_error_of_sql_and_go_on(database: Database, items: Items) -> None:
    def careful(transaction: Transaction) -> str:
        transaction.execute("INSERT INTO item (id) VALUES (1)")
        try:
            transaction.execute("INSERT INTO item (id) VALUES (1)")
        except sqlite3.IntegrityError:
            transaction.execute("INSERT INTO item (id) VALUES (2)")
        return "done"

    assert database.write(careful) == "done"
    assert items() == [1, 2]


def test_wrong_sql_comes_out_as_it_is(database: Database) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        database.write(lambda tx: tx.execute("DELETE FROM nowhere"))


def test_a_cancelled_request_is_not_run(
    database: Database, writer_held: Held, items: Items
) -> None:
    with writer_held(database):
        futures: list[Future[int]] = [database.submit(insert(n)) for n in range(3)]
        assert futures[1].cancel()
    assert (futures[0].result(), futures[2].result()) == (0, 2)
    with pytest.raises(CancelledError):
        futures[1].result()
    assert items() == [0, 2]


def test_a_batch_of_cancelled_requests_is_no_batch(database: Database, writer_held: Held) -> None:
    with writer_held(database):
        future = database.submit(insert(1))
        assert future.cancel()
        batches = database.statistics().batches
    assert wait([future], 20).done == {future}, "who waits for its end is told"
    assert database.statistics().batches == batches + 1


@pytest.mark.parametrize("verb", ["write", "read"])
def test_waiting_for_oneself_is_refused(database: Database, verb: str) -> None:
    with pytest.raises(StoreMisused, match="would wait for itself"):
        database.write(lambda _: getattr(database, verb)(lambda __: None))


def test_closing_on_the_writers_thread_is_refused(database: Database) -> None:
    with pytest.raises(StoreMisused, match="would wait for itself"):
        database.write(lambda _: database.close())
    assert not database.is_closed


def test_a_request_may_submit_another(database: Database, items: Items) -> None:
    later = database.write(lambda _: database.submit(insert(5)))
    assert later.result() == 5
    assert items() == [5]


def test_a_transaction_ends_with_its_function(database: Database) -> None:
    kept = database.write(lambda transaction: transaction)
    with pytest.raises(StoreMisused, match="has ended"):
        kept.execute("DELETE FROM item")
    with pytest.raises(StoreMisused, match="has ended"):
        kept.query_all("SELECT 1")


@pytest.mark.parametrize("sql", ["COMMIT", " rollback to request", "BEGIN", "end", "SAVEPOINT a"])
def test_a_request_cannot_end_the_transaction_of_others(database: Database, sql: str) -> None:
    with pytest.raises(StoreMisused, match="begins and ends by itself"):
        database.write(lambda tx: tx.execute(sql))


def test_statements_tell_how_many_rows_they_touched(database: Database) -> None:
    def request(transaction: Transaction) -> tuple[object, ...]:
        rows = [(n, "a") for n in range(5)]
        return (
            transaction.executemany("INSERT INTO item VALUES (?, ?)", rows),
            transaction.execute("UPDATE item SET text = :new WHERE id < 3", {"new": "b"}),
            transaction.execute("UPDATE item SET text = 'c' WHERE id = 77"),
            transaction.execute("CREATE TABLE other (id)"),
            transaction.query_one("DELETE FROM item WHERE id = 4 RETURNING id, text"),
            transaction.query_one("SELECT id FROM item WHERE id = 4"),
            transaction.query_all("SELECT id, text FROM item WHERE id IN (2, 3) ORDER BY id"),
        )

    assert database.write(request) == (5, 3, 0, 0, (4, "a"), None, [(2, "b"), (3, "a")])


def test_close_writes_what_was_submitted_before(
    folder: Path, writer_held: Held, start: Callable[..., threading.Thread]
) -> None:
    database = Database(folder / "afl.db")
    database.write(lambda tx: tx.execute("CREATE TABLE item (id INTEGER PRIMARY KEY)"))
    with writer_held(database):
        futures = [database.submit(insert(n)) for n in range(600)]
        start(database.close)
    assert [each.result(20) for each in futures] == list(range(600))
    with Database(folder / "afl.db") as again:
        assert again.read(lambda r: r.query_one("SELECT count(*) FROM item")) == (600,)


def test_a_closed_database_says_so(folder: Path) -> None:
    database = Database(folder / "afl.db")
    database.close()
    database.close()
    for attempt in (database.write, database.submit, database.read):
        with pytest.raises(StoreClosed, match=r"afl\.db was closed"):
            attempt(lambda _: None)


def test_the_writer_is_a_daemon_thread_with_a_name(database: Database) -> None:
    thread = database.submit(lambda _: threading.current_thread()).result()
    assert (thread.name, thread.daemon) == ("afl-sqlite-writer", True)


def test_who_writes_alone_and_waits_does_it_without_changing_threads(database: Database) -> None:
    assert database.write(lambda _: threading.current_thread()) is threading.current_thread()


def test_a_write_comes_after_what_the_same_thread_submitted(
    database: Database, items: Items
) -> None:
    for number in range(1, 200, 2):
        database.submit(insert(number))
        database.write(insert(number + 1))
    assert items() == list(range(1, 201))


def test_while_another_thread_writes_a_write_waits_and_joins_the_next_batch(
    database: Database, items: Items
) -> None:
    is_in, may_end = threading.Event(), threading.Event()

    def slow(tx: Transaction) -> None:
        insert(1)(tx)
        is_in.set()
        assert may_end.wait(10)

    with ThreadPoolExecutor(5) as pool:
        first = pool.submit(database.write, slow)
        assert is_in.wait(10)
        others = [pool.submit(database.write, insert(number)) for number in range(2, 6)]
        may_end.set()
        first.result()
        wait(others)
    assert sorted(items()) == [1, 2, 3, 4, 5]


def test_threads_that_write_and_submit_lose_nothing(database: Database, items: Items) -> None:
    def work(first: int) -> None:
        for number in range(first, first + 50):
            if number % 3:
                database.write(insert(number))
            else:
                database.submit(insert(number)).result()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(0, 400, 50)))
    assert sorted(items()) == list(range(400))


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, ValueError])
def test_an_interrupt_inside_a_write_undoes_it_and_harms_nobody_else(
    database: Database, items: Items, kind: type[BaseException]
) -> None:
    def interrupted(tx: Transaction) -> None:
        insert(1)(tx)
        raise kind

    with pytest.raises(kind):
        database.write(interrupted)
    assert database.write(insert(2)) == 2
    assert items() == [2]


def test_a_transaction_that_an_interrupt_left_open_is_undone_by_the_next(
    database: Database, monkeypatch: pytest.MonkeyPatch, items: Items
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("afl.db.sqlite.writer.Writer._attempt", interrupted)
        patch.setattr("afl.db.sqlite.writer.Writer._undo", interrupted)
        with pytest.raises(KeyboardInterrupt):
            database.write(insert(1))
    assert database.write(insert(2)) == 2
    assert items() == [2]


def test_after_the_end_of_a_write_its_thread_may_use_the_database(database: Database) -> None:
    database.write(insert(1))
    assert database.read(lambda reader: reader.query_one("SELECT count(*) FROM item")) == (1,)


def test_what_is_written_is_announced_before_the_write_returns(folder: Path) -> None:
    heard: list[set[str]] = []

    def announce(topics: Iterable[str]) -> None:
        heard.append(set(topics))

    writer = Writer(str(folder / "afl.db"), 1.0, 10, announce)
    try:
        assert writer.submit(lambda tx: tx.announce("news")).result() is None
        assert heard == [{"news"}]
        assert isinstance(writer.submit(_announce_and_raise).exception(), ValueError)
        assert writer.submit(lambda _: "silent").result() == "silent"
        assert heard == [{"news"}], "what is undone or says nothing is not announced"
    finally:
        writer.close()


def _announce_and_raise(transaction: Transaction) -> None:
    transaction.announce("lies")
    raise ValueError


def test_a_failing_announcement_does_not_undo_the_write(folder: Path) -> None:
    def announce(_topics: Iterable[str]) -> None:
        raise RuntimeError("no bell")

    writer = Writer(str(folder / "afl.db"), 1.0, 10, announce)
    try:
        for _ in range(2):
            assert writer.submit(lambda tx: tx.announce("news")).result() is None
    finally:
        writer.close()


def test_a_defect_in_the_writer_reaches_the_caller_and_does_not_kill_it(
    database: Database, monkeypatch: pytest.MonkeyPatch, items: Items
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("afl.db.sqlite.writer.Transaction", None)
        with pytest.raises(TypeError):
            database.submit(insert(1)).result()
        with pytest.raises(TypeError):
            database.write(insert(1))
    assert database.write(insert(2)) == 2
    assert items() == [2]
