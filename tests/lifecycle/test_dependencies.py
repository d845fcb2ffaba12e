"""Checks: their outcome, their timeouts and pauses, and the ready-made ones."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.lifecycle.loops import PATIENCE_S, eventually

from afl import telemetry
from afl.backoff import Backoff
from afl.clock import SYSTEM_CLOCK, FakeClock
from afl.errors import ConfigurationError
from afl.runtime import MemoryStore
from afl.runtime.dependencies import (
    Dependency,
    Probe,
    WarmupStep,
    as_dependency,
    as_step,
    http_dependency,
    mailbox_dependency,
    model_dependency,
    problems_of,
    store_dependency,
)


class Watched:
    """A probe, and each time it has news."""

    def __init__(self, check: Dependency | WarmupStep, clock: Any = SYSTEM_CLOCK) -> None:
        self.stop = threading.Event()
        self._changed = threading.Semaphore(0)
        self.probe = Probe(check, clock, self.stop, self._changed.release)

    def next(self) -> str | None:
        """How it stands after the next check."""
        assert self._changed.acquire(timeout=PATIENCE_S)
        return self.probe.problem


@pytest.fixture
def watch() -> Iterator[Callable[..., Watched]]:
    made: list[Watched] = []

    def start(check: Dependency | WarmupStep, clock: Any = SYSTEM_CLOCK) -> Watched:
        watched = Watched(check, clock)
        made.append(watched)
        watched.probe.start()
        return watched

    yield start
    for each in made:
        each.stop.set()


def raising(error: Exception) -> Callable[[], None]:
    def check() -> None:
        raise error

    return check


# Outcomes


@pytest.mark.parametrize("answer", [None, True, 0, "fine"])
def test_a_check_that_returns_has_passed(answer: object, watch: Any) -> None:
    assert watch(Dependency("one", lambda: answer)).next() is None


@pytest.mark.parametrize(
    ("check", "problem"),
    [
        (lambda: False, "the check says no"),
        (raising(OSError("away")), "OSError: away"),
        (raising(TimeoutError()), "TimeoutError"),
    ],
)
def test_a_check_that_fails_says_why(check: Any, problem: str, watch: Any) -> None:
    watched = watch(Dependency("one", check))
    assert watched.next() == problem
    assert problems_of([watched.probe]) == [f"one: {problem}"]


def test_a_secret_in_a_problem_is_hidden(watch: Any) -> None:
    check = raising(OSError("postgres://afl:s3cr3t@db/afl is away"))
    assert "s3cr3t" not in str(watch(Dependency("one", check)).next())


def test_what_was_not_checked_yet_is_not_well() -> None:
    probe = Watched(Dependency("one", lambda: None)).probe
    assert probe.problem == "not checked yet"


def test_a_plain_function_is_a_check_under_its_name() -> None:
    def database() -> None: ...

    assert as_dependency(database).name.endswith("database")
    assert as_step(database).action is database
    step = WarmupStep("one", database)
    assert as_step(step) is step


# Time


def test_a_check_without_an_answer_has_failed_after_its_timeout(watch: Any) -> None:
    clock, answer, is_asked = FakeClock(), threading.Event(), threading.Event()

    def check() -> None:
        is_asked.set()
        answer.wait(PATIENCE_S)

    watched = watch(Dependency("one", check, timeout=5), clock)
    assert is_asked.wait(PATIENCE_S)
    clock.advance(5)
    assert watched.probe.problem == "not checked yet"
    clock.advance(0.1)
    assert watched.probe.problem == "no answer within 5s"
    answer.set()
    assert watched.next() == "no answer within 5s", "too late is too late"


def test_a_check_is_repeated_at_its_interval_and_after_failures_with_its_pauses(
    watch: Any,
) -> None:
    clock, is_well = FakeClock(), True
    times: list[float] = []

    def check() -> bool:
        times.append(clock.monotonic())
        return is_well

    retry = Backoff(initial=1, factor=3, maximum=9)
    watched = watch(Dependency("one", check, retry=retry, interval=20), clock)
    for pause in (20, 20):
        assert watched.next() is None
        clock.wait_for_waiters(1)
        clock.advance(pause)
    watched.next()
    is_well = False
    for pause in (20, 1, 3, 9, 9):
        clock.wait_for_waiters(1)
        clock.advance(pause)
        assert watched.next() is not None
    assert times == [0, 20, 40, 60, 61, 64, 73, 82]


def test_a_step_is_done_until_it_passes_and_then_no_more(watch: Any) -> None:
    clock, tries = FakeClock(), list[int]()

    def warm_up() -> bool:
        tries.append(1)
        return len(tries) == 3

    watched = watch(WarmupStep("one", warm_up, retry=Backoff(initial=1, factor=1)), clock)
    for _ in range(2):
        assert watched.next() == "the check says no"
        clock.wait_for_waiters(1)
        clock.advance(1)
    assert watched.next() is None
    clock.advance(1000)
    eventually(lambda: clock.waiters == 0)
    assert len(tries) == 3


def test_being_lost_and_found_are_events_and_staying_so_is_not(watch: Any) -> None:
    events: list[telemetry.Event] = []
    end = telemetry.subscribe(events.append)
    clock, answers = FakeClock(), iter([False, False, True, True, False])
    watched = watch(
        Dependency("one", lambda: next(answers), retry=Backoff(1, 1, 1), interval=1), clock
    )
    for _ in range(4):
        watched.next()
        clock.wait_for_waiters(1)
        clock.advance(1)
    watched.next()
    end()
    names = [each.name for each in events]
    assert names == ["check_failed", "check_passed", "check_failed"]


# Ready-made


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(int(self.path.strip("/")))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def passes(dependency: Dependency) -> bool:
    try:
        return dependency.check() is not False
    except OSError:
        return False


@pytest.mark.parametrize(("status", "is_well"), [(200, True), (204, True), (404, False)])
def test_a_url_is_reachable_if_it_answers_well(site: str, status: int, is_well: bool) -> None:
    assert passes(http_dependency(f"{site}/{status}")) is is_well


@pytest.mark.parametrize(("status", "is_well"), [(200, True), (401, True), (503, False)])
def test_a_model_provider_is_reachable_if_it_answers(site: str, status: int, is_well: bool) -> None:
    assert passes(model_dependency(f"{site}/{status}")) is is_well


def test_nobody_at_an_address_is_not_reachable() -> None:
    assert not passes(http_dependency("http://127.0.0.1:1/", timeout=1))


def test_an_address_of_another_kind_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="http://"):
        http_dependency("file:///etc/passwd")


def test_a_password_in_an_address_is_not_its_name() -> None:
    assert "s3cr3t" not in http_dependency("http://me:s3cr3t@example.org/").name


def test_a_store_is_reachable_if_it_answers() -> None:
    store = MemoryStore()
    dependency = store_dependency(store, timeout=3.0)
    assert (dependency.name, dependency.timeout) == ("store", 3.0)
    assert passes(dependency)


def test_a_mailbox_without_messages_is_well() -> None:
    class Empty:
        name = "requests"

        def approximate_count(self) -> int:
            return 0

    dependency = mailbox_dependency(Empty())
    assert dependency.name == "mailbox requests"
    assert passes(dependency)
