"""Processes are replaced one after another under load: every request is answered."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.engine.profile import IS_STORM
from tests.loops.office import Office, Results, eventually

import afl
from afl.clock import SYSTEM_CLOCK

ROOT = Path(__file__).parents[2]

#: How often all three are replaced, how long a turn takes, and how many requests come a second.
ROUNDS, SHORTEST_S, LONGEST_S, RATE = (12, 0.5, 5.0, 3.0) if IS_STORM else (1, 0.05, 0.5, 15.0)
PATIENCE_S = 90.0 if IS_STORM else 30.0


class Process:
    """A loop in a process of its own, and what it says."""

    def __init__(self, office: Office, manner: str = "lives") -> None:
        environ = {**os.environ, "PYTHONPATH": f"{Path(afl.__file__).parents[1]}:{ROOT}"}
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.loops.loop_process"),
                *(office.url, office.requests.name, manner),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environ,
            cwd=ROOT,
        )
        self.begun: list[str] = []
        self._is_up = threading.Event()
        self._errors: list[str] = []
        self._readers = [
            threading.Thread(target=each, daemon=True) for each in (self._listen, self._note_errors)
        ]
        for each in self._readers:
            each.start()

    def wait_until_up(self) -> None:
        assert self._is_up.wait(PATIENCE_S), self._errors

    def wait_until_busy(self) -> None:
        """Until it begins with something: then that is in flight."""
        before = len(self.begun)
        eventually(lambda: len(self.begun) > before)

    def end(self, signum: signal.Signals) -> int:
        self._process.send_signal(signum)
        return self.wait()

    def send(self, signum: signal.Signals) -> None:
        self._process.send_signal(signum)

    def wait(self) -> int:
        code = self._process.wait(PATIENCE_S)
        for each in self._readers:
            each.join(PATIENCE_S)
        assert code in (0, -signal.SIGKILL), "".join(self._errors)
        return code

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                word, _, request = line.strip().partition(" ")
                if word == "up":
                    self._is_up.set()
                elif word == "begun":
                    self.begun.append(request)

    def _note_errors(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            self._errors.extend(lines)


class Producer:
    """Sends requests at a steady rate until it is told to stop."""

    def __init__(self, office: Office) -> None:
        self.sent: list[str] = []
        self._office = office
        self._random = random.Random(7)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._produce, daemon=True)
        self._thread.start()

    def stop(self) -> list[str]:
        """The ids of all requests."""
        self._stop.set()
        self._thread.join()
        return self.sent

    def _produce(self) -> None:
        while not SYSTEM_CLOCK.wait(self._stop, 1 / RATE):
            self.sent += self._office.ask(self._random.uniform(SHORTEST_S, LONGEST_S))


@contextmanager
def fleet(office: Office, count: int = 3) -> Iterator[list[Process]]:
    started = [Process(office) for _ in range(count)]
    try:
        for each in started:
            each.wait_until_up()
        yield started
    finally:
        for each in started:
            each.kill()


def answered(office: Office, ids: list[str]) -> Results:
    """All replies, once there is one for each request and nothing is left to do."""
    found: Results = []
    while not set(ids) <= {each.request_id for each in found}:
        found += office.some_answers()
    eventually(lambda: office.requests.approximate_count() == 0)
    return found + office.answers(office.replies.approximate_count())


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def shared(request: pytest.FixtureRequest) -> Office:
    """A place that processes can share."""
    office: Office = request.getfixturevalue(f"{request.param}_office")
    return office


def test_every_request_is_answered_while_processes_are_replaced(shared: Office) -> None:
    killed: set[str] = set()
    with fleet(shared) as running:
        producer = Producer(shared)
        for turn in range(3 * ROUNDS):
            old, is_killed = running.pop(0), turn % 3 == 1
            running.append(Process(shared))
            running[-1].wait_until_up()
            old.wait_until_busy()
            code = old.end(signal.SIGKILL if is_killed else signal.SIGTERM)
            assert code == (-signal.SIGKILL if is_killed else 0)
            killed.update(old.begun if is_killed else ())
        asked = producer.stop()
        replies = answered(shared, asked)
        for each in running:
            assert each.end(signal.SIGTERM) == 0
    assert all(each.success for each in replies), [each.error for each in replies]
    times = Counter(each.request_id for each in replies)
    assert set(times) == set(asked)
    twice = {each for each, count in times.items() if count > 1}
    assert twice <= killed
    for doubled in twice:
        contexts = [each.run_context for each in replies if each.request_id == doubled]
        assert len({each.attempt for each in contexts if each is not None}) == times[doubled]
    assert shared.requests.dead_letters() == []


def test_who_is_killed_between_reply_and_acknowledgement_makes_a_second_reply(
    shared: Office,
) -> None:
    (asked,) = shared.ask(0.0)
    assert Process(shared, "dies-before-acknowledging").wait() == -signal.SIGKILL
    with fleet(shared, 1) as (other,):
        first, second = shared.answers(2)
        assert other.end(signal.SIGTERM) == 0
    assert [first.request_id, second.request_id] == [asked, asked]
    assert (first.output, second.output) == (1, 2)
    assert first.run_context is not None
    assert second.run_context is not None
    assert (first.run_context.attempt, second.run_context.attempt) == (1, 2)
    assert first.run_context.run_id != second.run_context.run_id


def test_a_process_that_was_halted_for_longer_than_its_lease_says_nothing(
    redis_office: Office,
) -> None:
    """Not on a file: who is halted in the middle of a write there halts all others."""
    with fleet(redis_office, 1) as (halted,):
        (asked,) = redis_office.ask(0.5)
        eventually(lambda: halted.begun)
        halted.send(signal.SIGSTOP)
        with fleet(redis_office, 1) as (other,):
            (answer,) = redis_office.answers(1)
            halted.send(signal.SIGCONT)
            assert halted.end(signal.SIGTERM) == 0
            assert other.end(signal.SIGTERM) == 0
    assert (answer.request_id, answer.output) == (asked, 2)
    assert redis_office.replies.approximate_count() == 0


def test_an_idle_process_stops_at_once(sqlite_office: Office) -> None:
    with fleet(sqlite_office, 1) as (process,):
        sqlite_office.ask(0.0)
        sqlite_office.answers(1)
        assert process.end(signal.SIGTERM) == 0


def test_a_request_is_typed_between_processes(sqlite_office: Office) -> None:
    sqlite_office.open("requests").send({"request": "soon", "request_id": "r-1"})
    with fleet(sqlite_office, 1):
        eventually(lambda: sqlite_office.open("requests").dead_letters())
    (letter,) = sqlite_office.open("requests").dead_letters()
    assert "Expected `float`" in letter.last_error
