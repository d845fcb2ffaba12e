"""systemd is told through a real socket."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from afl.runtime import sd_notify


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The end of the socket that systemd holds."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield receiver


def test_what_is_told_arrives(manager: socket.socket) -> None:
    told = [sd_notify.READY, "STATUS=two loops", sd_notify.WATCHDOG, sd_notify.STOPPING]
    assert all(sd_notify.notify(each) for each in told)
    heard = [manager.recv(4096).decode() for _ in told]
    assert heard == ["READY=1", "STATUS=two loops", "WATCHDOG=1", "STOPPING=1"]


@pytest.mark.skipif(not Path("/proc").exists(), reason="abstract sockets are of Linux")
def test_an_abstract_address_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(f"\0afl-test-{os.getpid()}")
        receiver.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@afl-test-{os.getpid()}")
        assert sd_notify.notify(sd_notify.READY)
        assert receiver.recv(4096) == b"READY=1"


def test_without_systemd_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert not sd_notify.notify(sd_notify.READY)


def test_a_socket_that_is_gone_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    assert not sd_notify.notify(sd_notify.READY)


def test_a_manager_that_does_not_read_is_not_waited_for(manager: socket.socket) -> None:
    assert sd_notify.notify(sd_notify.WATCHDOG)
    assert any(not sd_notify.notify(sd_notify.WATCHDOG) for _ in range(10_000))


@pytest.mark.parametrize(
    ("usec", "interval_s"),
    [("30000000", 15.0), ("1000", 0.0005), ("0", None), ("soon", None), ("", None)],
)
def test_signs_of_life_are_due_twice_as_often_as_systemd_asks(
    usec: str, interval_s: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    monkeypatch.setenv("WATCHDOG_USEC", usec)
    assert sd_notify.watchdog_interval_s() == interval_s


def test_nobody_watches_without_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WATCHDOG_USEC", raising=False)
    assert sd_notify.watchdog_interval_s() is None


def test_the_watch_of_another_process_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "2000000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid() + 1))
    assert sd_notify.watchdog_interval_s() is None
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    assert sd_notify.watchdog_interval_s() == 1.0
