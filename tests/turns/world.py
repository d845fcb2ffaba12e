"""The outside world of an agent, in processes of its own: a model and a server of tools.

The model gives fresh ids and words at each call, and counts its calls. The server of tools does
each effect, once for each key, and keeps a ledger; a request without a key it does each time. Run
as a module it is one of the two; it prints its port, and ends with its standard input.
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
from typing import Any

from afl.ids import new_id

_ROOT = Path(__file__).parents[2]


class World:
    """A connection to one of the two. Not for two threads at once."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._file = self._socket.makefile("rw", encoding="utf-8")

    def ask(self, verb: str, **facts: Any) -> Any:
        self._file.write(json.dumps({"verb": verb, **facts}) + "\n")
        self._file.flush()
        return json.loads(self._file.readline())

    def close(self) -> None:
        self._file.close()
        self._socket.close()


class WorldProcess:
    """Starts one of the two; ends it at the end of a `with`."""

    def __init__(self, kind: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.turns.world", kind],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def __enter__(self) -> WorldProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.communicate()


# The processes


class Model:
    def __init__(self) -> None:
        self._calls: dict[str, int] = {}

    def answer(self, turn: str) -> dict[str, str]:
        self._calls[turn] = self.calls(turn) + 1
        return {"id": new_id(), "words": f"word {new_id()}"}

    def calls(self, turn: str) -> int:
        return self._calls.get(turn, 0)


class Tools:
    def __init__(self) -> None:
        self._receipts: dict[str, str] = {}
        self._ledger: dict[str, list[tuple[str, Any]]] = {}

    def do(self, turn: str, name: str, arguments: Any, key: str | None) -> str:
        known = self._receipts.get(key) if key is not None else None
        if known is not None:
            return known
        self._ledger.setdefault(turn, []).append((name, arguments))
        receipt = f"receipt {new_id()}"
        if key is not None:
            self._receipts[key] = receipt
        return receipt

    def find(self, key: str) -> str | None:
        return self._receipts.get(key)

    def ledger(self, turn: str) -> list[tuple[str, Any]]:
        return self._ledger.get(turn, [])


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, subject: Model | Tools) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.subject = subject
        self.lock = threading.Lock()


class _Connection(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        server = self.server
        assert isinstance(server, _Server)
        try:
            for line in self.rfile:
                facts = json.loads(line)
                with server.lock:
                    answer = getattr(server.subject, facts.pop("verb"))(**facts)
                self.wfile.write(json.dumps(answer).encode() + b"\n")
        except ConnectionError:
            return  # the agent was killed


def main(kind: str) -> None:
    with _Server(Model() if kind == "model" else Tools()) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(server.server_address[1], flush=True)  # noqa: T201
        sys.stdin.read()
        server.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
