"""Processes of `afl serve`, and what they need beside them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
from tests.turns.world import World, WorldProcess

import afl
from afl.clock import SYSTEM_CLOCK
from afl.gateway import TurnClient
from afl.testing.servers import free_port

ROOT = Path(__file__).parents[2]
PATIENCE_S = 40.0
TOKEN = "test-0123456789abcdef"
RELEASE = "tests/deploys/release.py"
SHOP = "examples/support-agent/shop.py"


def eventually(is_so: Callable[[], Any], what: str = "") -> Any:
    """Wait until it is so; what it then is."""
    deadline = SYSTEM_CLOCK.monotonic() + PATIENCE_S
    while SYSTEM_CLOCK.monotonic() < deadline:
        if found := is_so():
            return found
        SYSTEM_CLOCK.sleep(0.02)
    raise AssertionError(f"it never came to that: {what}")


class Process:
    """Runs a command of ours; its errors are in a file. Killed at the end of a `with`."""

    def __init__(self, command: list[str], log: Path, environ: dict[str, str]) -> None:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("AFL_")}
        kept["PYTHONPATH"] = f"{Path(afl.__file__).parents[1]}:{ROOT}"
        self._log = log
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, *command],
                cwd=ROOT,
                env={**kept, **environ},
                stdout=file,
                stderr=file,
            )

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def send(self, signum: signal.Signals) -> None:
        self._process.send_signal(signum)

    def wait(self) -> int:
        """Its exit code."""
        return self._process.wait(PATIENCE_S)

    def end(self, signum: signal.Signals = signal.SIGTERM) -> int:
        self.send(signum)
        return self.wait()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class Instance(Process):
    """One process of the service."""

    def __init__(self, command: list[str], log: Path, environ: dict[str, str]) -> None:
        self.port, self.health_port = free_port(), free_port()
        ports = ["--port", str(self.port), "--health-port", str(self.health_port)]
        super().__init__(["-m", "afl", "serve", *command, *ports], log, environ)
        self.url = f"http://127.0.0.1:{self.port}"

    def probe(self, name: str) -> httpx.Response | None:
        """What a probe hears; None if nobody answers."""
        try:
            return httpx.get(f"http://127.0.0.1:{self.health_port}/health/{name}", timeout=5.0)
        except httpx.TransportError:
            return None

    def is_ready(self) -> bool:
        answer = self.probe("ready")
        return answer is not None and answer.status_code == 200

    def wait_until_ready(self) -> Instance:
        eventually(lambda: self.is_ready() or not self.is_alive, "ready")
        assert self.is_alive, self.log
        return self

    def reasons(self) -> str:
        """Why it is not ready; empty if it is, or says nothing."""
        answer = self.probe("ready")
        return "" if answer is None or answer.status_code == 200 else answer.text


class Fleet:
    """Instances on one store, with a model and a shop that outlive them."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self.store = f"sqlite:///{folder}/support.db"
        self.tokens = folder / "tokens"
        self.tokens.write_text(TOKEN)
        self.model = stack.enter_context(WorldProcess("model"))
        self._shop_port = free_port()
        self.shop_url = f"http://127.0.0.1:{self._shop_port}"

    def open_shop(self, *options: str, script: str = SHOP) -> Process:
        command = [script, str(self._shop_port), *options]
        shop = Process(command, self._folder / "shop.log", {})
        self._stack.enter_context(shop)
        eventually(lambda: self._shop("/health") is not None, "the shop is open")
        return shop

    def ledger(self) -> list[dict[str, Any]]:
        answer = self._shop("/ledger")
        assert answer is not None
        return list(answer.json())

    def model_calls(self, order: int) -> int:
        with closing(World(self.model.port)) as world:
            return int(world.ask("calls", turn=str(order)))

    def _shop(self, path: str) -> httpx.Response | None:
        try:
            return httpx.get(self.shop_url + path, timeout=5.0)
        except httpx.TransportError:
            return None

    def start(
        self, name: str = "one", *, drain: str = "20s", app: str = RELEASE, **environ: str
    ) -> Instance:
        told = {"SHOP_URL": self.shop_url, "MODEL_PORT": str(self.model.port), **environ}
        options = {
            "--drain-deadline": drain,
            "--store": self.store,
            "--name": name,
            "--token-file": str(self.tokens),
        }
        command = [app, *(word for option in options.items() for word in option)]
        instance = Instance(command, self._folder / f"{name}.log", told)
        self._stack.enter_context(instance)
        return instance

    def client(self, *instances: Instance, url: str = "") -> TurnClient:
        urls = [url] if url else [each.url for each in instances]
        client = TurnClient(urls, token=TOKEN, patience_s=PATIENCE_S)
        self._stack.enter_context(client)
        return client


@contextmanager
def fleet_in(folder: Path) -> Iterator[Fleet]:
    with ExitStack() as stack:
        yield Fleet(folder, stack)
