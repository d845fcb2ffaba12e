"""Mailboxes in a file: they outlive processes, and hear of each other."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from afl.clock import FakeClock
from afl.db.sqlite import open_database
from afl.errors import ConfigurationError, NewerSchema
from afl.mailbox import SqliteMailbox
from afl.mailbox import sqlite_queue as queue
from afl.mailbox.sqlite import SqliteBox, box_names
from afl.testing.contracts.mailbox.exam import Background, put, take_one

SEND = """
import sys
from afl.mailbox import SqliteMailbox
with SqliteMailbox("requests", sys.argv[1]) as mailbox:
    mailbox.send(sys.argv[2])
"""
TAKE_AND_HANG = """
import sys, threading
from afl.mailbox import SqliteMailbox
mailbox = SqliteMailbox("requests", sys.argv[1])
(message,) = mailbox.receive(visibility_timeout=float(sys.argv[2]))
print(message.body, flush=True)
threading.Event().wait()
"""


@pytest.fixture
def path() -> Iterator[Path]:
    """In a folder with a name that is short enough for sockets beside the file."""
    folder = Path(tempfile.mkdtemp(prefix="afl-"))
    yield folder / "afl.db"
    # A mailbox whose last message was dropped may be letting go of the file just now.
    shutil.rmtree(folder, ignore_errors=True)


def python(program: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", program, *map(str, arguments)]


def test_messages_outlive_those_who_sent_them(path: Path) -> None:
    with SqliteMailbox[str, None]("requests", path) as mailbox:
        mailbox.send("a")
        mailbox.send("b")
        mailbox.dead_letter(mailbox.receive()[0], "why")
    with SqliteMailbox[str, None]("requests", path) as mailbox:
        assert [each.body for each in mailbox.receive()] == ["b"]
        assert [each.body for each in mailbox.dead_letters()] == ["a"]
    assert box_names(f"sqlite:///{path}") == ["requests"]


def test_a_message_of_another_process_ends_the_wait(path: Path) -> None:
    with SqliteMailbox[str, None]("requests", path) as mailbox:
        receiver = Background(lambda: mailbox.receive(wait_time_seconds=60), patience_s=50)
        subprocess.run(python(SEND, path, "hello"), check=True)
        (message,) = receiver.answer()
        assert message.body == "hello"


def test_what_a_killed_process_had_in_hand_comes_back(path: Path) -> None:
    with SqliteMailbox[str, None]("requests", path) as mailbox:
        mailbox.send("a")
        with subprocess.Popen(
            python(TAKE_AND_HANG, path, 0.3), stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "a\n"
            process.send_signal(signal.SIGKILL)
        (message,) = mailbox.receive(wait_time_seconds=60)
        assert (message.body, message.delivery_count) == ("a", 2)


def test_replies_cross_processes_by_name(path: Path) -> None:
    with (
        SqliteMailbox[str, str]("requests", path) as requests,
        SqliteMailbox[str, None]("replies", path) as replies,
    ):
        requests.send("ping", reply_to=replies)
        program = """
import sys
from afl.mailbox import SqliteMailbox
with SqliteMailbox("requests", sys.argv[1]) as mailbox:
    (message,) = mailbox.receive()
    message.reply(message.body + " pong")
    message.acknowledge()
"""
        subprocess.run(python(program, path), check=True)
        assert replies.receive()[0].body == "ping pong"
        assert requests.approximate_count() == 0


# Clocks that are set


def test_a_clock_that_is_set_back_hides_nothing_for_longer(path: Path) -> None:
    clock = FakeClock()
    with closing(SqliteBox(path, "requests", clock=clock)) as box:
        put(box, "a", "b")
        take_one(box, 30_000)
        clock.set_wall(clock.now() - timedelta(hours=1))
        # A lease that would end too far ahead is over.
        assert take_one(box, 30_000).id == "a"
        assert take_one(box, 30_000).id == "b"
        clock.advance(29)
        assert box.take(1, 1000) == []
        clock.advance(1)
        assert len(box.take(2, 1000)) == 2


def test_who_came_after_the_clock_was_set_back_sees_it(path: Path) -> None:
    clock = FakeClock()
    with closing(SqliteBox(path, "requests", clock=clock)) as box:
        put(box, "a")
        take_one(box, 30_000)
    clock.set_wall(clock.now() - timedelta(hours=1))
    with closing(SqliteBox(path, "requests", clock=clock)) as box:
        assert box.wait(0) is True
        assert box.depth().ready == 1
        assert take_one(box).id == "a"


def test_who_waits_notices_that_the_clock_was_set_back(path: Path) -> None:
    clock = FakeClock()
    with closing(SqliteBox(path, "requests", clock=clock)) as box:
        put(box, "a")
        take_one(box, 30_000)
        assert box.take(1, 1) == []
        waiter = Background(box.wait, patience_s=20)
        clock.wait_for_waiters(1)
        clock.set_wall(clock.now() - timedelta(hours=1))
        clock.advance(1)
        assert waiter.answer() is True


def test_a_lease_that_is_extended_after_a_step_back_has_its_length(path: Path) -> None:
    from afl.testing.contracts.mailbox.exam import handle

    clock = FakeClock()
    with closing(SqliteBox(path, "requests", clock=clock)) as box:
        put(box, "a")
        held = handle(take_one(box, 30_000))
        clock.set_wall(clock.now() - timedelta(hours=1))
        assert box.extend([held], 10_000) == [True]
        assert box.take(1, 1) == []
        clock.advance(10)
        assert take_one(box).id == "a"


# The file


def test_a_file_that_a_newer_afl_has_used_is_refused(path: Path) -> None:
    SqliteBox(path, "requests").close()
    with open_database(path) as database:
        database.write(
            lambda tx: tx.execute("UPDATE afl_schema SET version = 99 WHERE component = 'mailbox'")
        )
    with pytest.raises(NewerSchema, match="99"):
        SqliteBox(path, "requests")


def test_a_place_that_cannot_be_is_refused(path: Path) -> None:
    with pytest.raises(ConfigurationError, match="does not exist"):
        SqliteMailbox("requests", path.parent / "no" / "where.db")


@pytest.mark.parametrize("name", ["_RIPEN", "_TAKE", "_FINISH", "_IS_READY", "_NEXT_TIME"])
def test_the_frequent_statements_look_through_no_table(path: Path, name: str) -> None:
    with closing(SqliteBox(path, "requests")), open_database(path) as database:
        sql = getattr(queue, name)
        facts = dict.fromkeys(("box", "id", "fence", "now", "lease", "limit"), 1)
        given = facts if ":" in sql else (1,)
        plan = database.read(lambda reader: reader.query_all(f"EXPLAIN QUERY PLAN {sql}", given))
        steps = [str(row[3]) for row in plan]
        assert steps
        assert not [each for each in steps if each.startswith("SCAN")]


def test_all_boxes_share_the_database_of_the_process(path: Path) -> None:
    before = set(threading.enumerate())
    boxes = [SqliteBox(path, f"box-{number}") for number in range(5)]
    assert len(set(threading.enumerate()) - before) <= 1, "one writer for all"
    for box in boxes:
        box.close()
    assert before.issuperset(threading.enumerate())
