"""One database file and many real processes: killed, forked, racing, waking each other."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from afl.db.sqlite import Database

Child = subprocess.Popen[str]
Spawn = Callable[..., Child]

HEAD = """\
import os, sys
from afl.db.migrations import Migration, migrate
from afl.db.sqlite import Database, open_database

def say(*words):
    print(*words, flush=True)

def told():
    return sys.stdin.readline().strip()

path = sys.argv[1]
database = Database(path, poll_interval_s=3600)
"""


@pytest.fixture
def path() -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix="afl-")
    yield str(Path(folder, "afl.db"))
    shutil.rmtree(folder)


@pytest.fixture
def spawn(path: str) -> Iterator[Spawn]:
    children: list[Child] = []

    def start(code: str, head: str = HEAD) -> Child:
        command = [sys.executable, "-W", "ignore", "-c", head + code, path]
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        children.append(child)
        return child

    yield start
    for child in children:
        child.kill()
        child.communicate()


def heard(child: Child) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def tell(child: Child, text: str = "go") -> None:
    assert child.stdin is not None
    child.stdin.write(f"{text}\n")
    child.stdin.flush()


def ended(child: Child) -> None:
    assert child.wait(30) == 0


def ask(path: str, sql: str) -> list[Any]:
    with closing(sqlite3.connect(path, timeout=10)) as connection:
        return [row[0] for row in connection.execute(sql)]


def make_table(path: str) -> None:
    with Database(path) as database:
        database.write(lambda tx: tx.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, text)"))


def test_two_processes_that_write_at_once_lose_nothing(path: str, spawn: Spawn) -> None:
    make_table(path)
    code = """
import threading
say("ready"); told()
def work():
    for n in range(125):
        database.write(lambda tx: tx.execute("INSERT INTO item (text) VALUES ('x')"))
threads = [threading.Thread(target=work) for _ in range(4)]
[each.start() for each in threads]; [each.join() for each in threads]
database.close()
"""
    children = [spawn(code), spawn(code)]
    for child in children:
        assert heard(child) == "ready"
    for child in children:
        tell(child)
    for child in children:
        ended(child)
    assert ask(path, "SELECT count(*) FROM item") == [1000]
    assert ask(path, "PRAGMA integrity_check") == ["ok"]


def test_processes_that_create_the_file_at_once_all_succeed(path: str, spawn: Spawn) -> None:
    early = "import sys\nprint('ready', flush=True)\nsys.stdin.readline()\n" + HEAD
    children = [spawn("say(database.write(lambda tx: 'written'))", head=early) for _ in range(4)]
    for child in children:
        assert heard(child) == "ready"
    for child in children:
        tell(child)
    assert [heard(child) for child in children] == ["written"] * 4


def test_processes_that_come_and_go_lose_nothing(path: str, spawn: Spawn) -> None:
    make_table(path)
    code = """
sys.setswitchinterval(1e-6)
database.close()
say("ready"); told()
for _ in range(30):
    with Database(path, poll_interval_s=0.001) as database:
        database.bell.count("news")
        database.write(lambda tx: tx.execute("INSERT INTO item (text) VALUES ('x')"))
        database.write(lambda tx: tx.announce("news"))
        database.read(lambda r: r.query_one("SELECT count(*) FROM item"))
"""
    children = [spawn(code) for _ in range(4)]
    for child in children:
        assert heard(child) == "ready"
    for child in children:
        tell(child)
    for child in children:
        ended(child)
    assert ask(path, "SELECT count(*) FROM item") == [120]
    assert ask(path, "PRAGMA integrity_check") == ["ok"]
    assert not Path(f"{path}.wake").exists()


def test_a_process_killed_inside_a_transaction_leaves_the_file_whole_and_free(
    path: str, spawn: Spawn
) -> None:
    make_table(path)
    child = spawn("""
def request(tx):
    tx.execute("INSERT INTO item (id) VALUES (1)")
    tx.executemany("INSERT INTO item (text) VALUES (zeroblob(?))", [(9000,)] * 5000)
    say("inside")
    told()
database.write(request)
""")
    assert heard(child) == "inside"
    child.send_signal(signal.SIGKILL)
    child.wait(30)
    with Database(path, busy_timeout_s=1.0) as database:
        database.write(lambda tx: tx.execute("INSERT INTO item (id) VALUES (2)"))
    assert ask(path, "SELECT id FROM item") == [2]
    assert ask(path, "PRAGMA integrity_check") == ["ok"]


@pytest.mark.parametrize("after", [1, 40, 200])
def test_what_a_write_has_returned_survives_a_kill(path: str, spawn: Spawn, after: int) -> None:
    make_table(path)
    child = spawn("""
import threading
def work(start):
    for n in range(start, 10**6, 4):
        os.write(1, b"%d\\n" % database.write(
            lambda tx: tx.query_one("INSERT INTO item (id) VALUES (?) RETURNING id", (n,)))[0])
for start in range(4):
    threading.Thread(target=work, args=(start,)).start()
""")
    promised = {int(heard(child)) for _ in range(after)}
    child.send_signal(signal.SIGKILL)
    assert child.stdout is not None
    rest = child.stdout.read().splitlines(keepends=True)
    child.wait(30)
    promised |= {int(line) for line in rest if line.endswith("\n")}
    assert len(promised) >= after
    assert promised <= set(ask(path, "SELECT id FROM item"))
    assert ask(path, "PRAGMA integrity_check") == ["ok"]


def test_processes_that_start_at_once_migrate_once(path: str, spawn: Spawn) -> None:
    code = """
steps = [Migration(n, "step", (f"CREATE TABLE t{n} (id)", f"INSERT INTO t{n} VALUES (1)"))
         for n in range(1, 9)]
say("ready"); told()
say(migrate(database, "engine", steps))
"""
    children = [spawn(code) for _ in range(4)]
    for child in children:
        assert heard(child) == "ready"
    for child in children:
        tell(child)
    taken = [int(heard(child)) for child in children]
    assert sum(taken) == 8, "each step was taken by one of them"
    assert ask(path, "SELECT version FROM afl_schema") == [8]
    assert [ask(path, f"SELECT count(*) FROM t{n}") for n in range(1, 9)] == [[1]] * 8


def test_an_announcement_wakes_other_processes(path: str, spawn: Spawn) -> None:
    make_table(path)
    waiters = [
        spawn("""
seen = database.bell.count("tasks")
while True:
    rows = database.read(lambda r: r.query_all("SELECT id FROM item ORDER BY id"))
    say("saw", len(rows))
    if database.bell.wait("tasks", seen):
        seen = database.bell.count("tasks")
""")
        for _ in range(3)
    ]
    assert [heard(each) for each in waiters] == ["saw 0"] * 3
    with Database(path) as database:
        for n in range(1, 30):

            def request(transaction: Any, id_: int = n) -> None:
                transaction.execute("INSERT INTO item (id) VALUES (?)", (id_,))
                transaction.announce("tasks")

            database.write(request)
            # They look at the file only once an hour: only the announcement can wake them.
            assert [heard(each) for each in waiters] == [f"saw {n}"] * 3


def test_the_socket_of_a_killed_process_is_cleaned_up(path: str, spawn: Spawn) -> None:
    make_table(path)
    child = spawn('say(database.bell.count("tasks")); told()')
    assert heard(child) == "0"
    folder = Path(f"{path}.wake")
    assert len(list(folder.iterdir())) == 1
    child.send_signal(signal.SIGKILL)
    child.wait(30)
    assert len(list(folder.iterdir())) == 1
    with Database(path) as database:
        database.write(lambda tx: tx.announce("tasks"))
        assert list(folder.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_is_refused_and_the_parent_goes_on(path: str, spawn: Spawn) -> None:
    child = spawn("""
shared = open_database(path + "2")
database.write(lambda tx: tx.execute("CREATE TABLE item (id INTEGER PRIMARY KEY)"))
closed = Database(path + "3"); closed.close()

def attempt(action):
    try:
        return repr(action())
    except Exception as error:
        return f"{type(error).__name__}: {'across a fork' in str(error)}"

if os.fork() == 0:
    say(attempt(lambda: database.write(lambda tx: 1)))
    say(attempt(lambda: database.submit(lambda tx: 1)))
    say(attempt(lambda: database.read(lambda r: 1)))
    say(attempt(lambda: database.bell.count("tasks")))
    say(attempt(lambda: open_database(path + "2")))
    say(attempt(lambda: Database(path)))
    say(attempt(database.close))
    say(attempt(lambda: Database(path + "3").write(lambda tx: "after the fork")))
    os._exit(0)
os.wait()
say(database.write(lambda tx: tx.execute("INSERT INTO item (id) VALUES (1)")))
database.close()
""")
    refused = "StoreMisused: True"
    assert [heard(child) for _ in range(9)] == [
        *[refused] * 6,
        "None",
        "'after the fork'",
        "1",
    ]
    ended(child)
