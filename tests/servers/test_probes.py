"""A worker whose database is away is alive, not ready, and patient; it goes on by itself."""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.engine.ledger import Ledger
from tests.engine.places import open_at
from tests.engine.profile import IS_STORM
from tests.servers.test_mongo_faults import SOON
from tests.servers.test_store_faults import check, insist, submit
from tests.workers.crew import Crew

from afl.runtime.lifecycle import wait_until
from afl.testing.servers import MongoServer, PostgresServer, Server, free_port

TASKS = 10
PATIENCE_S = 60.0

pytestmark = pytest.mark.timeout(180)


SERVERS = [PostgresServer, MongoServer] if IS_STORM else [PostgresServer]


@pytest.fixture(params=SERVERS, ids=lambda each: each.kind)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with request.param() as started:
        yield started


def place_of(server: Server) -> str:
    return f"{server.url}/?{SOON}" if isinstance(server, MongoServer) else server.url


class Probes:
    def __init__(self, port: int) -> None:
        self._port = port

    def ask(self, name: str) -> tuple[int, dict[str, Any]]:
        url = f"http://127.0.0.1:{self._port}/health/{name}"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, json.load(refusal)

    def wait_for(self, status: int) -> None:
        assert wait_until(lambda: self.ask("ready")[0] == status, timeout=PATIENCE_S)


def test_a_worker_is_unready_while_its_database_is_away_and_then_ready_again(
    tmp_path: Path, ledger: Ledger, server: Server
) -> None:
    port, place = free_port(), place_of(server)
    probes = Probes(port)
    options = {"lease_ms": 1000, "poll_interval_ms": 200, "drain_s": 20, "health_port": port}
    # At the end of the block it must end by SIGTERM with 0: it was not replaced.
    with (
        open_at(place) as store,
        Crew(tmp_path, ledger.port, [signal.SIGTERM], size=1, place=place, **options),
    ):
        probes.wait_for(200)
        server.stop()
        probes.wait_for(503)
        assert any("afl-agent" in each for each in probes.ask("ready")[1]["reasons"])
        assert probes.ask("live")[0] == 200
        server.start()
        probes.wait_for(200)
        run_id = insist(submit, store, TASKS, 20)
        assert insist(store.wait_for_run, run_id, PATIENCE_S)
        check(store, ledger, run_id, TASKS)
