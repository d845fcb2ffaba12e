"""A server process of a test: started, stopped, killed, paused, and never left behind."""

from __future__ import annotations

import importlib.util
import os
import random
import shutil
import signal
import socket
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

PATIENCE_S = 30.0
LOOK_S = 0.005
_PORTS = 10  # to try: another program may take one before the server does
_MEMORY = Path("/dev/shm")  # noqa: S108
#: More than all servers of a run of tests write.
_MEMORY_BYTES = 4 * 2**30
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
        deadline = SYSTEM_CLOCK.monotonic() + PATIENCE_S
        while SYSTEM_CLOCK.monotonic() < deadline:
            assert self._process is not None
            if self._process.poll() is not None:
                return False
            if self._is_ready():
                return True
            SYSTEM_CLOCK.sleep(LOOK_S)
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
            process.wait(PATIENCE_S)
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


def package(name: str) -> Path:
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


def memory_folder() -> str | None:
    """A folder that is in memory; None if there is none with room for servers and programs."""
    if not os.access(_MEMORY, os.W_OK) or shutil.disk_usage(_MEMORY).free < _MEMORY_BYTES:
        return None
    return None if os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC else str(_MEMORY)


def free_port() -> int:
    """A loopback port that nobody uses now, and that no client gets by chance.

    Ports for clients are left out: whoever knocks again and again at one of those, where nobody
    listens yet, may be given it as its own, and then talks to itself.
    """
    for port in random.sample(_PORTS_FOR_SERVERS, _PORTS):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise RuntimeError(f"no free port among {_PORTS} between 15000 and 32000")
