"""Notices of clouds and files, asked of real servers on loopback."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue

import pytest

from afl.clock import FakeClock
from afl.errors import ConfigurationError
from afl.runtime.notices import FileTrigger, Notice, PreemptionNotice, SpotNotice

HOURS = 3600


class Cloud:
    """A metadata service; tests say what it knows."""

    def __init__(self) -> None:
        self.notice: str | None = None
        self.is_broken = False
        self.tokens: list[str] = []
        self.requests: list[str] = []

    def spot(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
        if (method, path) == ("PUT", "/latest/api/token"):
            if headers.get("X-aws-ec2-metadata-token-ttl-seconds") != "21600":
                return 400, ""
            self.tokens.append(f"token-{len(self.tokens)}")
            return 200, self.tokens[-1]
        if headers.get("X-aws-ec2-metadata-token") not in self.tokens[-1:]:
            return 401, ""
        if (method, path) != ("GET", "/latest/meta-data/spot/instance-action"):
            return 400, ""
        return (404, "not found") if self.notice is None else (200, self.notice)

    def google(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
        if headers.get("Metadata-Flavor") != "Google":
            return 403, ""
        if (method, path) != ("GET", "/computeMetadata/v1/instance/preempted"):
            return 404, ""
        return 200, "FALSE" if self.notice is None else self.notice


@contextmanager
def served(
    cloud: Cloud, answer: Callable[[str, str, dict[str, str]], tuple[int, str]]
) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            cloud.requests.append(f"{self.command} {self.path}")
            given = (
                (500, "")
                if cloud.is_broken
                else answer(self.command, self.path, dict(self.headers))
            )
            self.send_response(given[0])
            self.end_headers()
            self.wfile.write(given[1].encode())

        do_GET = do_PUT = answer  # noqa: N815

        def log_message(self, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class Watch:
    """A notice that is being waited for, on a clock that tests move."""

    def __init__(self, notice: Notice, clock: FakeClock) -> None:
        self.clock = clock
        self.heard: Queue[str] = Queue()
        self.notice = notice
        notice.start(self.heard.put)
        self.look()

    def look(self) -> None:
        """Wait until it has looked and waits for its next turn."""
        self.clock.wait_for_waiters(1)

    def look_again(self, after_s: float) -> None:
        self.clock.advance(after_s)
        self.look()

    def reason(self, after_s: float) -> str:
        """What is heard at its next turn."""
        self.clock.advance(after_s)
        return self.heard.get(timeout=20)


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def spot(cloud: Cloud, clock: FakeClock) -> Iterator[Watch]:
    with served(cloud, cloud.spot) as url:
        watch = Watch(SpotNotice(url, clock=clock), clock)
        yield watch
        watch.notice.stop()


@pytest.fixture
def preemption(cloud: Cloud, clock: FakeClock) -> Iterator[Watch]:
    with served(cloud, cloud.google) as url:
        watch = Watch(PreemptionNotice(url, clock=clock), clock)
        yield watch
        watch.notice.stop()


INTERRUPTION = json.dumps({"action": "terminate", "time": "2026-03-01T12:00:00Z"})


def test_a_spot_interruption_is_told_with_its_time(spot: Watch, cloud: Cloud) -> None:
    spot.look_again(5)
    assert spot.heard.empty()
    cloud.notice = INTERRUPTION
    assert spot.reason(5) == "EC2 Spot interruption: terminate at 2026-03-01T12:00:00Z"


def test_spot_asks_with_one_token_until_half_of_its_life(spot: Watch, cloud: Cloud) -> None:
    spot.look_again(5)
    assert cloud.requests == [
        "PUT /latest/api/token",
        "GET /latest/meta-data/spot/instance-action",
        "GET /latest/meta-data/spot/instance-action",
    ]
    spot.look_again(3 * HOURS)
    assert cloud.tokens == ["token-0", "token-1"]


def test_a_token_that_is_refused_is_replaced_at_once(spot: Watch, cloud: Cloud) -> None:
    cloud.tokens.append("of another")
    cloud.notice = INTERRUPTION
    assert spot.reason(5).startswith("EC2 Spot interruption")
    assert cloud.tokens == ["token-0", "of another", "token-2"]


@pytest.mark.parametrize("text", ["", "soon", "[]", "{}", '"stop"'])
def test_an_interruption_that_cannot_be_read_is_one(spot: Watch, cloud: Cloud, text: str) -> None:
    cloud.notice = text
    assert spot.reason(5) == "EC2 Spot interruption"


def test_a_preemption_is_told(preemption: Watch, cloud: Cloud) -> None:
    preemption.look_again(1)
    assert preemption.heard.empty()
    cloud.notice = "TRUE"
    assert preemption.reason(1) == "Google Cloud preemption"


@pytest.mark.parametrize("kind", ["spot", "preemption"])
def test_a_service_that_fails_is_no_notice_and_is_asked_again(
    kind: str, cloud: Cloud, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    cloud.is_broken = True
    with caplog.at_level(logging.WARNING):
        watch: Watch = request.getfixturevalue(kind)
        for _ in range(3):
            watch.look_again(5)
    assert watch.heard.empty()
    assert caplog.text.count("notices_not_seen") == 1
    cloud.is_broken, cloud.notice = False, "TRUE"
    assert watch.reason(5)


@pytest.mark.parametrize("kind", [SpotNotice, PreemptionNotice])
def test_where_there_is_no_service_nothing_is_told(
    kind: type[SpotNotice | PreemptionNotice], clock: FakeClock
) -> None:
    with served(Cloud(), lambda *_: (404, "")) as url:
        pass  # nobody listens there any more
    watch = Watch(kind(url, clock=clock), clock)
    watch.look_again(60)
    assert watch.heard.empty()
    watch.notice.stop()


def test_metadata_is_never_asked_through_a_proxy(
    cloud: Cloud, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    cloud.notice = "TRUE"
    heard: Queue[str] = Queue()
    with served(cloud, cloud.google) as url:
        PreemptionNotice(url, clock=clock).start(heard.put)
        assert heard.get(timeout=20)


@pytest.mark.parametrize("url", ["", "169.254.169.254", "https://metadata", "file:///etc"])
def test_an_address_that_cannot_be_asked_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="must be an address such as"):
        SpotNotice(url)


# Files


def test_a_file_triggers_when_it_appears(tmp_path: Path, clock: FakeClock) -> None:
    watch = Watch(FileTrigger(tmp_path / "drain", clock=clock), clock)
    watch.look_again(1)
    assert watch.heard.empty()
    (tmp_path / "drain").touch()
    assert watch.reason(1) == f"the file {tmp_path / 'drain'} exists"


def test_a_file_that_was_there_before_triggers_too(tmp_path: Path) -> None:
    heard: Queue[str] = Queue()
    FileTrigger(str(tmp_path)).start(heard.put)
    assert heard.get(timeout=20) == f"the file {tmp_path} exists"


# All of them


def test_a_notice_is_told_once(tmp_path: Path) -> None:
    heard = list[str]()
    trigger = FileTrigger(tmp_path, interval_s=0)
    before = set(threading.enumerate())
    trigger.start(heard.append)
    trigger.start(heard.append)
    for thread in set(threading.enumerate()) - before:
        thread.join()
    assert len(heard) == 1


def test_after_stop_nothing_is_told(tmp_path: Path, clock: FakeClock) -> None:
    watch = Watch(FileTrigger(tmp_path / "drain", clock=clock), clock)
    (thread,) = [each for each in threading.enumerate() if each.name == "afl-notice-FileTrigger"]
    watch.notice.stop()
    watch.notice.stop()
    (tmp_path / "drain").touch()
    clock.advance(60)
    thread.join()
    assert watch.heard.empty()


def test_it_can_be_stopped_by_whom_it_tells_and_start_again(tmp_path: Path) -> None:
    heard: Queue[str] = Queue()
    trigger = FileTrigger(tmp_path)

    def stop_and_note(reason: str) -> None:
        trigger.stop()
        heard.put(reason)

    for _ in range(2):
        trigger.start(stop_and_note)
        assert heard.get(timeout=20)


def test_a_listener_that_fails_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_reason: str) -> None:
        raise RuntimeError("no group")

    before = set(threading.enumerate())
    with caplog.at_level(logging.ERROR):
        FileTrigger(tmp_path).start(fail)
        for thread in set(threading.enumerate()) - before:
            thread.join()
    assert "notice_not_taken" in caplog.text
