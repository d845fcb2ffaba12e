"""`afl mcp` as clients use it: a process of its own, spoken to by the official client."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

import afl

PATIENCE_S = 40.0

PROGRAM = """
namespace t

/** Says hello. It prints, too, which must disturb nobody. */
event facet Greet(name: String) => (text: String)

event facet Fail(name: String) => (text: String)

/** Nobody serves it. */
event facet Ask(question: String) => (answer: String)

/**
 * Greets somebody twice.
 * @param name who is greeted
 * @return text what was said
 */
workflow Hello(name: String = "you") => (text: String) andThen {
    first = Greet(name = $.name)
    second = Greet(name = first.text)
    yield Hello(text = second.text)
}

workflow Broken(name: String) => (text: String) andThen {
    tried = Fail(name = $.name)
    yield Broken(text = tried.text)
}

workflow Asking(question: String) => (answer: String) andThen {
    asked = Ask(question = $.question)
    yield Asking(answer = asked.answer)
}
"""

#: Fails until the file `mended` is there.
HANDLERS = """
from pathlib import Path

print("noise on standard output")


def greet(payload):
    print("more noise")
    return {"text": "hello " + payload["name"]}


def fail(payload):
    if not Path("mended").exists():
        raise ValueError("it is broken")
    return {"text": "mended"}
"""


@dataclass(frozen=True)
class Folder:
    """Where a program, its handlers and a store are."""

    path: Path

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}/afl.db"

    def line(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "afl", *arguments]

    def environ(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("AFL_")}
        return {**kept, "PYTHONPATH": str(Path(afl.__file__).parents[1])}

    @asynccontextmanager
    async def stdio(self, *arguments: str) -> AsyncIterator[Client]:
        """A client with a server on its pipes."""
        command, *rest = self.line("mcp", "program.afl", *arguments)
        server = StdioServerParameters(
            command=command, args=rest, cwd=self.path, env=self.environ()
        )
        async with Client(server, read_timeout_seconds=PATIENCE_S) as client:
            yield client

    @contextmanager
    def worker(self) -> Iterator[None]:
        """A worker that is ready."""
        with running(self, "worker", "--drain-deadline", "5s") as process:
            for line in lines_of(process):
                if '"phase": "ready"' in line:
                    break
            read_on(process)
            yield


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return make_folder(tmp_path)


def make_folder(path: Path) -> Folder:
    (path / "program.afl").write_text(PROGRAM)
    (path / "handlers.py").write_text(HANDLERS)
    return Folder(path)


@contextmanager
def running(folder: Folder, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command that runs until the end of the block, and ends well when told to."""
    process = subprocess.Popen(
        folder.line(*arguments),
        cwd=folder.path,
        env=folder.environ(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


@dataclass
class HttpServer:
    """`afl mcp --http` in a process, and what it said at its start."""

    url: str
    said: dict[str, str] = field(default_factory=dict)

    @property
    def operator(self) -> str:
        return self.said["Token of the operator"]

    @property
    def reader(self) -> str:
        return self.said["Token to look only"]

    @asynccontextmanager
    async def client(self, token: str, *, is_legacy: bool = False) -> AsyncIterator[Client]:
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as http,
            Client(
                streamable_http_client(self.url, http_client=http),
                mode="legacy" if is_legacy else "auto",
                read_timeout_seconds=PATIENCE_S,
            ) as client,
        ):
            yield client


@contextmanager
def http_server(folder: Folder, *arguments: str) -> Iterator[HttpServer]:
    with running(folder, "mcp", "program.afl", "--http", "0", *arguments) as process:
        said = dict(_said(lines_of(process)))
        read_on(process)
        yield HttpServer(said["MCP"], said)


def _said(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    """What it tells at its start, by the words before the colon; the address comes last."""
    for line in lines:
        name, _, value = line.strip().partition(": ")
        yield name, value
        if name == "MCP":
            return
    raise AssertionError("the server ended before it served")


def lines_of(process: subprocess.Popen[str]) -> Iterator[str]:
    """One by one: `yield from` would close the pipe when the first reader has enough."""
    assert process.stderr is not None
    for line in process.stderr:  # noqa: UP028
        yield line


def read_on(process: subprocess.Popen[str]) -> None:
    """Let a process never wait for a reader of what it says."""

    def drain() -> None:
        with suppress(ValueError):  # closed at the end
            for _ in lines_of(process):
                pass

    threading.Thread(target=drain, daemon=True).start()


def names(found: Sequence[object]) -> set[str]:
    return {str(getattr(each, "name", "")) for each in found}
