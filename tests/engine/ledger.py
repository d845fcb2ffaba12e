"""The outside world: a process of its own that does each effect once and keeps a record.

Handlers send what they do, with the idempotency key of their task. What comes under a known key
is not done again, but its delivery is recorded. Run as a module it is the process; it prints its
port, and ends with its standard input.
"""

from __future__ import annotations

import json
import socket
import socketserver
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.engine.effects import effect_of, sorted_effects

if TYPE_CHECKING:
    from afl.runtime.entities import TaskDefinition

_ROOT = Path(__file__).parents[2]


class Entry(NamedTuple):
    """One key: what was done under it, and how often it was asked for."""

    key: str
    facet: str
    payload: dict[str, Any]
    deliveries: int


class Ledger:
    """The record, as handlers and tests reach it. One connection; not for two threads at once."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._file = self._socket.makefile("rw", encoding="utf-8")

    def deliver(self, task: TaskDefinition) -> None:
        """What a handler of this task does to the world. Raises ValueError if the same key stood
        for something else before."""
        facet, payload = effect_of(task)
        order = {"run": task.workflow_id, "key": task.idempotency_key}
        self._ask({**order, "facet": facet, "payload": payload})

    def entries(self, run_id: str) -> list[Entry]:
        return [Entry(*each) for each in self._ask({"run": run_id})]

    def check(self, case_name: str, run_id: str) -> None:
        """Raises AssertionError unless every effect of the program was done, and once."""
        # Programs, and all that runs them: neither handlers nor this process need them.
        from tests.engine.cases import expected

        done = [(each.facet, each.payload) for each in self.entries(run_id)]
        assert sorted_effects(done) == expected(case_name).effects

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def _ask(self, question: dict[str, Any]) -> Any:
        self._file.write(json.dumps(question) + "\n")
        self._file.flush()
        answer = json.loads(self._file.readline())
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer["answer"]


class LedgerProcess:
    """Starts the process; ends it at the end of a `with`."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.engine.ledger"]
        self._process = subprocess.Popen(
            command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def __enter__(self) -> LedgerProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.communicate()


# The process


class _Book:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, dict[str, Entry]] = {}

    def answer(self, question: dict[str, Any]) -> Any:
        with self._lock:
            entries = self._entries.setdefault(question["run"], {})
            if "key" not in question:
                return list(entries.values())
            key, facet, payload = (question[each] for each in ("key", "facet", "payload"))
            known = entries.get(key)
            if known is not None and (known.facet, known.payload) != (facet, payload):
                raise ValueError(f"{key} stands for {known}, and now for {facet} {payload}")
            times = 1 if known is None else known.deliveries + 1
            entries[key] = Entry(key, facet, payload, times)
            return times


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    # Many workers connect in the same moment.
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.book = _Book()


class _Connection(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, _Server)
        try:
            for line in self.rfile:
                self.wfile.write(json.dumps(self._answer(self.server.book, line)).encode() + b"\n")
        except ConnectionError:
            return  # the worker was killed

    def _answer(self, book: _Book, line: bytes) -> dict[str, Any]:
        try:
            return {"answer": book.answer(json.loads(line))}
        except ValueError as error:
            return {"error": str(error)}


def main() -> None:
    with _Server() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(server.server_address[1], flush=True)  # noqa: T201
        sys.stdin.read()
        server.shutdown()


if __name__ == "__main__":
    main()
