"""Mailboxes between processes: woken at once, answered, and given back by those who die."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.servers.conftest import PATIENCE_S, until

from afl.mailbox import open_mailbox

_ROOT = Path(__file__).parents[2]


class Receiver:
    """The process of `tests.servers.receiver`."""

    def __init__(self, url: str, lease_s: float = 600) -> None:
        command = [sys.executable, "-m", "tests.servers.receiver", url, str(lease_s)]
        self._process = subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True)
        assert self.line() == "ready"

    def line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE_S)

    def rest(self) -> list[str]:
        """What it has printed, when it is dead."""
        assert self._process.stdout is not None
        return self._process.stdout.read().split("\n")[:-1]

    def close(self) -> None:
        self.kill()
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture(params=["redis_url", "postgres_url"])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(request.param)
    for name in ("requests", "replies"):
        with closing(open_mailbox(found, name)) as mailbox:
            mailbox.purge()
            mailbox.discard_dead_letters()
    return found


def test_who_waits_in_another_process_is_woken_and_answers(
    url: str, opened: Callable[[Any], Any]
) -> None:
    requests, replies = opened(open_mailbox(url, "requests")), opened(open_mailbox(url, "replies"))
    receiver = opened(Receiver(url))
    for number in range(3):
        requests.send(f"body {number}", reply_to=replies)
        assert receiver.line() == f"body {number} 1"
        (reply,) = replies.receive(wait_time_seconds=PATIENCE_S)
        assert reply.body == f"answer to body {number}"
        reply.acknowledge()


def test_receivers_share_the_work_and_nobody_gets_it_twice(
    url: str, opened: Callable[[Any], Any]
) -> None:
    requests = opened(open_mailbox(url, "requests"))
    receivers = [opened(Receiver(url)) for _ in range(2)]
    bodies = [f"body-{number}" for number in range(200)]
    for each in bodies:
        requests.send(each)
    until(lambda: requests.approximate_count() == 0)
    for receiver in receivers:
        receiver.kill()
    printed = [line for receiver in receivers for line in receiver.rest()]
    assert sorted(printed) == sorted(f"{each} 1" for each in bodies)


def test_what_a_killed_process_had_comes_back_after_its_lease(
    url: str, opened: Callable[[Any], Any]
) -> None:
    requests = opened(open_mailbox(url, "requests"))
    first = opened(Receiver(url, lease_s=1))
    requests.send("hang")
    assert first.line() == "hang 1"
    first.kill()
    (message,) = requests.receive(wait_time_seconds=PATIENCE_S)
    assert (message.body, message.delivery_count) == ("hang", 2)
    message.acknowledge()
    assert requests.approximate_count() == 0
