"""`afl servers`: who is there, and who shall leave."""

from __future__ import annotations

from tests.acceptance.in_process import afl, afl_json
from tests.acceptance.operating.desk import lines, server

from afl.runtime.entities import HandledCount, ServerState
from afl.runtime.persistence import PersistenceAPI


def test_servers_are_listed_with_how_they_stand(store: PersistenceAPI) -> None:
    assert afl("servers").out == "There are no servers.\n"
    server(store, "alive", in_flight=2, handled=[HandledCount("t.Work", 7)])
    lost = {"kind": "lost", "message": "its process is gone", "time": 1}
    server(store, "lost", state=ServerState.ERROR, age_ms=40_000, incidents=[lost])
    server(store, "silent", age_ms=50_000)
    table = lines("servers")
    assert table[0] == [
        *("server", "name", "service", "state", "phase", "beat", "in flight", "handled"),
        "version",
    ]
    assert [row[0] for row in table[1:4]] == ["alive", "lost", "silent"]
    assert [row[3] for row in table[1:4]] == ["running", "error", "running, silent"]
    assert [row[4] for row in table[1:4]] == ["ready", "terminate", "ready"]
    assert table[1][6:] == ["2", "7", "1.0"]
    assert table[4] == ["incident of lost: its process is gone"]
    assert [each["server"] for each in afl_json("servers", "list", "--alive")] == ["alive"]


def test_a_server_that_failed_says_why(store: PersistenceAPI) -> None:
    why = f"the table of steps is not there {'x' * 100}"
    server(store, "failed", state=ServerState.ERROR, error={"message": why, "type": "StoreError"})
    server(store, "well")
    assert afl("servers").out.splitlines()[3:] == [f"error of failed: {why}"]


def test_a_server_is_asked_to_drain_and_back(store: PersistenceAPI) -> None:
    server(store, "server-1")
    assert "is asked to drain" in afl("servers", "drain", "serv").out
    assert afl_json("servers")[0]["wanted"] == "drain"
    assert lines("servers")[1][3] == "running, drain asked"
    assert afl_json("servers", "undrain", "server-1") == {"server": "server-1", "wanted": ""}
    assert afl_json("servers")[0]["wanted"] == ""


def test_a_server_that_is_gone_cannot_drain(store: PersistenceAPI) -> None:
    server(store, "server-1", age_ms=60_000)
    done = afl("servers", "drain", "server-1")
    assert done.code == 2
    assert "silent for 60 s; only a server that is alive can drain" in done.err
