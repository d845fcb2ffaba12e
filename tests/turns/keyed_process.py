"""A server of one tool that acts once for each key, and may be told to die.

Its keys are in a SQLite file, its acts are lines of a ledger beside it. `dies` says when it kills
itself, the first time only: `before` it acts, or `after` its answer is kept and before it is sent.
"""

from __future__ import annotations

import json
import os
import signal
import socketserver
import sys
from pathlib import Path

from afl.turns import idempotent, open_idempotency


def main(folder: str, dies: str) -> None:
    place = Path(folder)
    keys = open_idempotency(f"sqlite:///{place}/keys.db", lease_s=0.3)

    def die(moment: str) -> None:
        mark = place / "died"
        if dies == moment and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    @idempotent(keys)
    def charge(amount: int) -> str:
        die("before")
        with (place / "ledger").open("a") as ledger:
            ledger.write(f"{amount}\n")
        return f"charged {amount}"

    class Connection(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            asked = json.loads(self.rfile.readline())
            answer = charge(asked["amount"], idempotency_key=asked["key"])
            die("after")
            self.wfile.write(json.dumps(answer).encode() + b"\n")

    class Server(socketserver.ThreadingUnixStreamServer):
        daemon_threads = True

    (place / "line").unlink(missing_ok=True)  # that of a process that died
    with Server(str(place / "line"), Connection) as server:
        server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
