"""Sockets beside the file: private, found by all, and gone with their owners."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from afl.db.sockets import Inbox, send, wake_folder
from afl.db.wake import Bell


@pytest.fixture
def place(folder: Path) -> str:
    found = wake_folder(str(folder / "afl.db"))
    assert found is not None
    return found


def names(folder: str) -> list[str]:
    return [each.name for each in Path(folder).iterdir()]


@pytest.fixture
def inbox(place: str) -> Iterator[Inbox]:
    made = Inbox(place)
    yield made
    made.close()


def test_the_folder_is_beside_the_file_and_closed_to_others(place: str, inbox: Inbox) -> None:
    assert place.endswith("afl.db.wake")
    assert Path(place).stat().st_mode & 0o777 == 0o700
    assert names(place) == [inbox.name]


def test_a_long_path_has_its_folder_elsewhere() -> None:
    first, second = (wake_folder(f"/data/{'x' * 90}/{name}.db") for name in "ab")
    assert first != second
    assert first is not None
    assert len(first) < 80
    assert first == wake_folder(f"/data/{'x' * 90}/a.db"), "all processes must find the same"


def test_where_no_path_is_short_enough_there_are_no_sockets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: f"/data/{'x' * 90}")
    assert wake_folder(f"/data/{'x' * 90}/a.db") is None


def test_topics_arrive(place: str, inbox: Inbox) -> None:
    send(place, ["a", "b"])
    send(place, ["b", "ü\n\0"])
    assert set(inbox.drain() or ()) == {"a", "b", "ü\n\0"}
    assert inbox.drain() == ()


def test_the_sender_can_leave_itself_out(place: str, inbox: Inbox) -> None:
    send(place, ["a"], skip=inbox.name)
    assert inbox.drain() == ()


def test_a_full_inbox_means_any_topic(place: str, inbox: Inbox) -> None:
    for n in range(1000):
        send(place, [str(n)])
    assert inbox.drain() is None


@pytest.mark.parametrize("payload", [b"", b"{", b"7", b"[7]", b'["cut'])
def test_a_datagram_that_says_nothing_means_any_topic(
    place: str, inbox: Inbox, payload: bytes
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(payload, f"{place}/{inbox.name}")
    assert inbox.drain() is None


def test_the_socket_of_a_dead_process_is_removed_by_who_sends(place: str, inbox: Inbox) -> None:
    dead = Inbox(place)
    dead.socket.close()  # as the kernel does for a process that was killed
    assert len(names(place)) == 2
    send(place, ["a"])
    assert names(place) == [inbox.name]
    assert inbox.drain() == ("a",)


def test_sending_where_nobody_ever_listened_does_nothing(folder: Path) -> None:
    send(str(folder / "nowhere"), ["a"])
    assert list(folder.iterdir()) == []


def test_the_last_who_leaves_takes_the_folder_along(place: str) -> None:
    first, second = Inbox(place), Inbox(place)
    first.close()
    assert Path(place).is_dir()
    second.close()
    assert not Path(place).exists()


def test_processes_that_come_and_go_do_not_trip_over_each_other(place: str) -> None:
    failures: list[BaseException] = []

    def come_and_go() -> None:
        try:
            for _ in range(100):
                Inbox(place).close()
        except OSError as error:
            failures.append(error)

    threads = [threading.Thread(target=come_and_go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert failures == []


def test_a_folder_that_others_can_enter_is_not_used(
    folder: Path, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    Path(place).mkdir()
    Path(place).chmod(0o777)
    with pytest.raises(PermissionError, match="0700"):
        Inbox(place)
    versions = iter(range(1_000_000))
    bell = Bell(str(folder / "afl.db"), lambda: next(versions), poll_interval_s=0.001)
    assert bell.wait("tasks", bell.count("tasks")), "looking still works"
    bell.close()
    assert "sqlite_wakes_by_polling" in caplog.text


def test_a_socket_that_somebody_removed_is_made_again(folder: Path, place: str) -> None:
    bell = Bell(str(folder / "afl.db"), lambda: 1, poll_interval_s=0.001)
    seen = bell.count("tasks")
    (name,) = names(place)
    Path(place, name).unlink()
    results: list[bool] = []
    thread = threading.Thread(target=lambda: results.append(bell.wait("tasks", seen, 20)))
    thread.start()
    while thread.is_alive():
        send(place, ["tasks"])
    bell.close()
    assert results == [True]
