"""Opening: addresses, one object for each file, and the last who closes it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from afl.clock import FakeClock
from afl.db.sqlite import Database, open_database
from afl.db.sqlite.address import database_path
from afl.errors import ConfigurationError, StoreClosed


@pytest.fixture(autouse=True)
def _in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def test_relative_and_absolute_addresses(folder: Path) -> None:
    expected = str(folder.resolve() / "afl.db")
    for address in (
        "sqlite:///./afl.db",
        "sqlite:///afl.db",
        f"sqlite:///{folder}/afl.db",
        "SQLite:///afl.db",
        "afl.db",
        Path("afl.db"),
        folder / "afl.db",
    ):
        assert database_path(address) == expected


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (":memory:", "use memory:"),
        ("sqlite:///:memory:", "use memory:"),
        ("sqlite://:memory:", "three slashes"),
        ("memory:", "has no file"),
        ("", "names no database file"),
        ("a\0b", "names no database file"),
        ("sqlite:///", "names no database file"),
        ("sqlite://", "three slashes"),
        ("sqlite:afl.db", r"three slashes.*; did you mean sqlite:///afl\.db\?"),
        ("sqlite://afl.db", r"three slashes.*; did you mean sqlite:///afl\.db\?"),
        ("sqlite:/srv/afl.db", r"three slashes.*; did you mean sqlite:////srv/afl\.db\?"),
        ("sqlite://host/afl.db", "three slashes"),
        ("sqlite:///afl.db?mode=ro", "takes no options"),
        ("postgresql://host/afl", "not the address of a SQLite database"),
        ("file:afl.db", "not the address of a SQLite database"),
        ("missing/afl.db", "folder .*missing does not exist; create it"),
        (".", "is a folder"),
    ],
)
def test_a_bad_address_is_explained(address: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as refused:
        open_database(address)
    # The settings take none, so nobody should be told to try one.
    assert "plain path" not in str(refused.value)


@pytest.mark.parametrize(
    "options", [{"batch_size": 0}, {"busy_timeout_s": -1.0}, {"poll_interval_s": 0.0}]
)
def test_numbers_that_make_no_sense_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        Database("afl.db", **options)  # type: ignore[arg-type]


def test_the_same_file_is_the_same_object(folder: Path) -> None:
    (folder / "link.db").symlink_to(folder / "afl.db")
    with open_database("sqlite:///afl.db") as first, open_database(folder / "link.db") as second:
        assert first is second
        with open_database("other.db") as other:
            assert other is not first


def test_the_last_who_closes_it_closes_it() -> None:
    first = open_database("afl.db")
    second = open_database("afl.db")
    first.close()
    assert second.write(lambda _: 1) == 1
    second.close()
    with pytest.raises(StoreClosed):
        second.write(lambda _: 1)
    with open_database("afl.db") as third:
        assert third is not first
        assert third.write(lambda _: 1) == 1


def test_the_same_file_with_other_settings_is_refused() -> None:
    with open_database("afl.db") as first:
        with pytest.raises(ConfigurationError, match="open already"):
            open_database("afl.db", batch_size=1)
        assert first.write(lambda _: 1) == 1
    with open_database("afl.db", batch_size=1) as later:
        assert later.write(lambda _: 1) == 1


def test_threads_that_open_and_close_at_once(start: Callable[..., threading.Thread]) -> None:
    done: list[int] = []

    def work() -> None:
        for _ in range(10):
            with open_database("afl.db") as database:
                done.append(database.write(lambda _: 1))

    for thread in [start(work) for _ in range(8)]:
        thread.join()
    assert len(done) == 80


def test_a_failed_opening_leaves_nothing_behind(folder: Path) -> None:
    (folder / "letter.txt").write_bytes(b"Dear reader, " * 500)
    with pytest.raises(ConfigurationError):
        open_database("letter.txt")
    (folder / "letter.txt").unlink()
    with open_database("letter.txt") as database:
        assert database.write(lambda _: 1) == 1


def test_the_time_of_the_store_is_the_wall_time_of_its_clock() -> None:
    clock = FakeClock(datetime(2030, 1, 1, tzinfo=UTC))
    with Database("afl.db", clock=clock) as database:
        start = database.now_ms()
        assert start == 1_893_456_000_000
        clock.advance(1.5)
        assert database.now_ms() == start + 1500
        clock.set_wall(datetime(2029, 1, 1, tzinfo=UTC))
        assert database.now_ms() < start
