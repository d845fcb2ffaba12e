"""A server that stands still, and answers nobody, keeps no process from its end."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import NoneType

import pytest
from tests.servers.conftest import PATIENCE_S, until

from afl.bootstrap import open_store
from afl.errors import StoreClosed
from afl.runtime import remote_access
from afl.runtime.persistence import IterationChanges
from afl.testing.contracts.store.exam import new_run
from afl.testing.servers import MongoServer, PostgresServer, Server

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(params=[PostgresServer, MongoServer], ids=lambda each: each.kind)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with request.param() as started:
        yield started


def test_a_worker_ends_when_it_is_told_to(tmp_path: Path, server: Server) -> None:
    log = tmp_path / "worker.log"
    command = [sys.executable, "-m", "afl", "worker", "--store", server.url]
    with (
        log.open("w") as output,
        subprocess.Popen([*command, "--drain-deadline", "1s"], stderr=output, cwd=tmp_path) as it,
    ):
        until(lambda: '"phase": "ready"' in log.read_text())
        server.pause()
        try:
            it.send_signal(signal.SIGTERM)
            assert it.wait(PATIENCE_S) == 0
        finally:
            it.kill()
            server.go_on()


def test_a_store_lets_itself_be_closed(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(remote_access, "_LAST_S", 0.2)
    store = open_store(server.url)
    server.pause()
    try:
        written = store.decide_later(lambda _: (IterationChanges(created_runs=[new_run()]), None))
        store.close()
        assert "writes_left_behind" in caplog.text
    finally:
        server.go_on()
    # It goes on by itself, as far as it can without what was closed.
    assert type(written.exception(PATIENCE_S)) in (NoneType, StoreClosed)
