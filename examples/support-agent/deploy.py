"""Deploys over ten turns in flight, and prints a receipt.

    python deploy.py

The first release of the agent takes ten complaints. The second one, with another prompt, starts
beside it on the same store; then the first gets SIGTERM, as from any platform. What it has begun
goes on in the second. At the end the books are compared: those of the store, of the shop, of the
model, and of the customers, who have followed their turns all the time.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from receipt import Customer, Receipt, receipt_of

from afl.clock import SYSTEM_CLOCK
from afl.gateway import TurnClient
from afl.testing.servers import free_port
from afl.turns import open_turns

HERE = Path(__file__).parent
CUSTOMERS = 10
DRAIN = "30s"
#: For anything to happen, on a machine that has other things to do.
PATIENCE_S = 60.0
_LAST_LINES = 15


class Place:
    """Where everything of a demonstration is."""

    def __init__(self, folder: Path) -> None:
        self.store = f"sqlite:///{folder}/support.db"
        self.logs = folder
        self.token = secrets.token_urlsafe()
        self.token_file = folder / "tokens"
        self.token_file.write_text(f"customers caller {self.token}\n", encoding="utf-8")
        self.shop, self.model = (f"http://127.0.0.1:{free_port()}" for _ in range(2))


class Release:
    """One process of the service."""

    def __init__(self, place: Place, name: str, prompt: str) -> None:
        self.name = name
        port, health_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.ready_url = f"http://127.0.0.1:{health_port}/health/ready"
        environ = {
            "ANTHROPIC_API_KEY": "none is needed",
            "ANTHROPIC_BASE_URL": place.model,
            "SHOP_URL": place.shop,
            "SUPPORT_PROMPT": prompt,
        }
        options = {
            "--drain-deadline": DRAIN,
            "--store": place.store,
            "--port": str(port),
            "--health-port": str(health_port),
            "--name": name,
            "--token-file": str(place.token_file),
        }
        words = [word for option in options.items() for word in option]
        command = [sys.executable, "-m", "afl", "serve", str(HERE / "agent.py"), *words]
        self.process = started(place, name, command, environ)


def started(
    place: Place, name: str, command: list[str], environ: dict[str, str]
) -> subprocess.Popen[bytes]:
    with (place.logs / f"{name}.log").open("wb") as log:
        return subprocess.Popen(  # noqa: S603 - our own programs
            command, env={**os.environ, **environ}, stdout=log, stderr=log
        )


def wait_for(url: str, process: subprocess.Popen[bytes]) -> Any:
    """What it answers, as soon as it does."""
    deadline = SYSTEM_CLOCK.monotonic() + PATIENCE_S
    while SYSTEM_CLOCK.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - ours
                return msgspec.json.decode(answer.read())
        except OSError:
            SYSTEM_CLOCK.sleep(0.05)
    raise TimeoutError(f"{url} does not answer")


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        process.kill()
        process.wait()


class Demonstration:
    def __init__(self, place: Place, stack: ExitStack) -> None:
        self.place = place
        self._stack = stack

    def server(self, name: str, url: str, check: str, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, str(HERE / f"{name}.py"), url.rpartition(":")[2], *words]
        process = started(self.place, name, command, {})
        self._stack.enter_context(ended(process))
        wait_for(url + check, process)
        return process

    def release(self, name: str, prompt: str) -> Release:
        release = Release(self.place, name, prompt)
        self._stack.enter_context(ended(release.process))
        return release

    def customers(self, urls: list[str]) -> list[Customer]:
        client = TurnClient(urls, token=self.place.token, patience_s=PATIENCE_S)
        self._stack.enter_context(client)
        found = [Customer(client, order) for order in range(1, CUSTOMERS + 1)]
        for each in found:
            threading.Thread(target=each.follow, daemon=True).start()
        for each in found:
            each.is_under_way.wait(PATIENCE_S)
        return found


def deploy(demonstration: Demonstration) -> Receipt:
    place = demonstration.place
    shop = demonstration.server("shop", place.shop, "/health")
    # However long the second release takes to start, there is something to hand over to it.
    model = demonstration.server("model", place.model, "/calls", "talkative")
    first = demonstration.release("first", "You help the customers of a shop. Be brief.")
    wait_for(first.ready_url, first.process)
    second = demonstration.release("second", "You help the customers of a shop. Be friendly.")
    customers = demonstration.customers([first.url, second.url])
    print(f"{len(customers)} turns are in flight, and the second release starts")
    wait_for(second.ready_url, second.process)
    print("the second release is ready; SIGTERM to the first")
    first.process.send_signal(signal.SIGTERM)
    # The model need not take its time any more: those who watch have seen enough of it.
    urllib.request.urlopen(f"{place.model}/hurry", data=b"", timeout=5).close()  # noqa: S310 - ours
    code = first.process.wait(PATIENCE_S)
    print(f"the first has ended with code {code}")
    for each in customers:
        each.is_over.wait(PATIENCE_S)
    with closing(open_turns(place.store)) as turns:
        return receipt_of(
            customers,
            turns,
            ledger=wait_for(f"{place.shop}/ledger", shop),
            model=wait_for(f"{place.model}/calls", model),
            exit_code=code,
        )


def main() -> int:
    os.environ.setdefault("NO_PROXY", "127.0.0.1")
    with TemporaryDirectory() as folder, ExitStack() as stack:
        try:
            receipt = deploy(Demonstration(Place(Path(folder)), stack))
            print(receipt)
        except (OSError, subprocess.TimeoutExpired) as problem:
            print(problem)
        else:
            if receipt.is_good:
                return 0
        show_logs(Path(folder))
    return 1


def show_logs(folder: Path) -> None:
    """The last words of everybody, for who wants to know why."""
    for log in sorted(folder.glob("*.log")):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        print(f"--- {log.name}", *lines[-_LAST_LINES:], sep="\n")


if __name__ == "__main__":
    sys.exit(main())
