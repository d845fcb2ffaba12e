"""Facts are what /proc, sockets and stores say; gathering them changes nothing."""

from __future__ import annotations

import socket
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from afl.bootstrap import open_store
from afl.clock import SYSTEM_CLOCK, FakeClock
from afl.db.sqlite.connection import connect
from afl.operations.doctor import gathering
from afl.operations.doctor.facts import StoreFacts
from afl.operations.doctor.store_gathering import file_system_of, store_facts
from afl.runtime.memory_store import MemoryStore


def process(proc: Path, pid: int, words: list[str], parent: int = 0) -> None:
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    (folder / "cmdline").write_bytes(b"".join(each.encode() + b"\0" for each in words))
    (folder / "status").write_text(f"Name:\tx\nPPid:\t{parent}\n", encoding="utf-8")


# Processes


def test_the_first_process_and_the_parent_are_read_from_proc(tmp_path: Path) -> None:
    process(tmp_path, 1, ["/bin/sh", "-c", "afl serve a:b & wait"])
    process(tmp_path, 7, ["bash", "start.sh"], parent=1)
    process(tmp_path, 9, ["python", "-m", "afl"], parent=7)
    found = gathering.process_facts(tmp_path, 9)
    assert found.pid == 9
    assert found.first == ["/bin/sh", "-c", "afl serve a:b & wait"]
    assert found.parent == ["bash", "start.sh"]


def test_processes_that_cannot_be_seen_are_unknown(tmp_path: Path) -> None:
    process(tmp_path, 1, [])
    found = gathering.process_facts(tmp_path, 9)
    assert (found.first, found.parent) == ([], [])


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("KUBERNETES_SERVICE_HOST", "Kubernetes"),
        ("ECS_CONTAINER_METADATA_URI_V4", "ECS"),
        ("NOMAD_ALLOC_ID", "Nomad"),
        ("K_SERVICE", "Cloud Run"),
        ("NOTIFY_SOCKET", "systemd"),
    ],
)
def test_a_platform_is_known_by_its_variable(variable: str, name: str) -> None:
    found = gathering.platform_of({variable: "x"})
    assert found is not None
    assert found.name == name


def test_no_platform_is_made_up() -> None:
    assert gathering.platform_of({"HOME": "/"}) is None


# Ports, extras, folders


def test_a_port_that_somebody_listens_at_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (found,) = gathering.port_facts({"probes": port, "requests": 0})
        assert (found.port, found.used_for) == (port, "probes")
        assert "in use" in (found.problem or "")
    (found,) = gathering.port_facts({"probes": port})
    assert found.problem is None


def test_extras_follow_from_the_settings() -> None:
    assert gathering.extras_of("sqlite:///afl.db", traces=False, serves=False) == []
    found = gathering.extras_of("postgresql://host/db", traces=True, serves=True)
    assert [each.extra for each in found] == ["postgres", "otel", "serve"]
    assert all(each.is_there for each in found), "the tests have them all"


def test_an_extra_that_is_not_installed_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gathering.DRIVERS, "postgresql", ("no_such_package.driver", "postgres"))
    (found,) = gathering.extras_of("postgresql://host/db", traces=False, serves=False)
    assert not found.is_there


def test_folders_that_are_not_there_are_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert gathering.missing_folders([tmp_path, file, tmp_path / "no"]) == [file, tmp_path / "no"]


# SQLite


def sqlite_facts(folder: Path) -> StoreFacts:
    return store_facts(f"sqlite:///{folder}/afl.db", open_store)


def test_a_database_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    found = sqlite_facts(tmp_path)
    assert found.file is not None
    assert (found.file.is_there, found.file.is_writable, found.problem) == (False, True, None)
    assert list(tmp_path.iterdir()) == []


def test_the_tables_of_a_database_are_compared_with_what_this_program_knows(
    tmp_path: Path,
) -> None:
    open_store(f"sqlite:///{tmp_path}/afl.db").close()
    found = sqlite_facts(tmp_path)
    (tables,) = found.tables
    assert tables.component == "engine"
    assert tables.version == tables.oldest == tables.known > 0


def test_a_database_of_a_newer_program_is_read_and_left_alone(tmp_path: Path) -> None:
    open_store(f"sqlite:///{tmp_path}/afl.db").close()
    with closing(connect(f"{tmp_path}/afl.db", 5)) as database:
        database.execute("UPDATE afl_schema SET version = 1000")
    found = sqlite_facts(tmp_path)
    (tables,) = found.tables
    assert (tables.version, tables.oldest) == (1000, 1000)
    assert tables.known < 1000
    assert sqlite_facts(tmp_path) == found


def test_an_older_database_is_not_migrated(tmp_path: Path) -> None:
    with closing(connect(f"{tmp_path}/afl.db", 5)) as database:
        database.execute("CREATE TABLE afl_schema (component TEXT, version INTEGER)")
        database.execute("INSERT INTO afl_schema VALUES ('engine', 0), ('unheard of', 7)")
    found = {each.component: each for each in sqlite_facts(tmp_path).tables}
    assert found["engine"].version == 0 < found["engine"].known
    assert found["unheard of"].known == 0
    assert found == {each.component: each for each in sqlite_facts(tmp_path).tables}


def test_a_database_of_another_program_is_not_touched(tmp_path: Path) -> None:
    file = tmp_path / "afl.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE letters (text)")
    before = file.read_bytes()
    assert sqlite_facts(tmp_path).tables == []
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_nothing_is_left_beside_a_database(tmp_path: Path) -> None:
    open_store(f"sqlite:///{tmp_path}/afl.db").close()
    before = {each.name for each in tmp_path.iterdir()}
    assert sqlite_facts(tmp_path).tables
    assert {each.name for each in tmp_path.iterdir()} == before


def test_a_file_that_is_no_database_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "afl.db").write_bytes(b"This is a letter, and no database." * 100)
    found = sqlite_facts(tmp_path)
    assert "afl.db" in (found.problem or "")
    assert found.file is not None


def test_an_address_that_cannot_be_is_a_problem(tmp_path: Path) -> None:
    found = store_facts(f"sqlite:///{tmp_path}/no/folder/afl.db", open_store)
    assert "does not exist" in (found.problem or "")


MOUNTS = """\
overlay / overlay rw 0 0
server:/export /srv nfs4 rw 0 0
/dev/vdb /srv/local ext4 rw 0 0
tmpfs /srv/local tmpfs rw 0 0
server:/x /my\\040data cifs rw 0 0
"""


@pytest.mark.parametrize(
    ("folder", "file_system"),
    [
        ("/srv/agents", "nfs4"),
        ("/srv/local/agents", "tmpfs"),  # mounted over the other one
        ("/srvice", "overlay"),
        ("/my data", "cifs"),
    ],
)
def test_a_folder_is_on_the_file_system_of_the_nearest_mount(
    folder: str, file_system: str, tmp_path: Path
) -> None:
    (tmp_path / "mounts").write_text(MOUNTS, encoding="utf-8")
    assert file_system_of(Path(folder), tmp_path) == file_system


def test_where_nobody_lists_mounts_the_file_system_is_unknown(tmp_path: Path) -> None:
    assert file_system_of(Path("/srv"), tmp_path) == ""


# Servers


def test_a_store_in_memory_is_said_to_be_one() -> None:
    assert store_facts("memory:", open_store) == StoreFacts(place="memory:")


def test_postgresql_tells_its_time_and_its_tables(postgres_url: str) -> None:
    # Those of a schema of its own, whatever other tests made.
    url = f"{postgres_url}{'&' if '?' in postgres_url else '?'}options=-csearch_path%3Ddoctor"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS doctor CASCADE")
        connection.execute("CREATE SCHEMA doctor")
    found = store_facts(url, open_store)
    assert found.problem is None
    assert found.tables == []
    assert found.skew_s is not None
    assert abs(found.skew_s) < 60
    open_store(url).close()
    (tables,) = store_facts(url, open_store).tables
    assert (tables.component, tables.version) == ("engine", tables.known)
    assert tables.oldest <= tables.known


def test_a_clock_that_differs_is_measured(postgres_url: str) -> None:
    clock = FakeClock(SYSTEM_CLOCK.now() - timedelta(hours=1))
    found = store_facts(postgres_url, open_store, clock=clock)
    assert found.skew_s is not None
    assert found.skew_s == pytest.approx(3600, abs=60)


def test_a_server_that_does_not_answer_is_a_problem_without_its_password() -> None:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    found = store_facts(f"postgresql://me:hunter2@127.0.0.1:{port}/db", open_store)
    assert "cannot be reached" in (found.problem or "")
    assert "hunter2" not in f"{found}"


def test_other_stores_are_asked_for_their_time() -> None:
    clock = FakeClock(SYSTEM_CLOCK.now())
    ahead = FakeClock(clock.now() + timedelta(seconds=5))
    found = store_facts("other://host", lambda _url: MemoryStore(ahead), clock=clock)
    assert found.skew_s == pytest.approx(5, abs=0.002)
    behind = FakeClock(clock.now() - timedelta(seconds=5))
    found = store_facts("other://host", lambda _url: MemoryStore(behind), clock=clock)
    assert found.skew_s == pytest.approx(-5, abs=0.002)


def test_an_unknown_kind_of_store_is_a_problem() -> None:
    assert "no store" in (store_facts("ftp://host", open_store).problem or "")
