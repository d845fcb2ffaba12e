"""A shop over HTTP that acts once for each key, and dies at every effect.

Its keys are in a SQLite file, its acts are lines of a ledger beside it. At each key it kills
itself once for every side that it is told: `before` it acts, and `after` its answer is kept and
before that is sent. It listens on a socket of whoever starts it, so requests wait for the next one.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from afl.turns import IdempotencyMiddleware, open_idempotency

_LEASE_S = 0.5


class Mortal:
    def __init__(self, folder: Path, sides: str) -> None:
        self._folder = folder
        self._sides = sides.split(",")
        keys = open_idempotency(f"sqlite:///{folder}/keys.db", lease_s=_LEASE_S)
        shop = Starlette(routes=[Route("/{effect:str}", self.act, methods=["POST"])])
        self._shop = IdempotencyMiddleware(shop, keys, is_required=True)

    async def act(self, request: Request) -> JSONResponse:
        effect, arguments = request.path_params["effect"], await request.json()
        self._die("before", request.headers["idempotency-key"])
        with (self._folder / "ledger").open("a") as ledger:
            ledger.write(json.dumps([effect, arguments]) + "\n")
        return JSONResponse({"receipt": f"receipt of {effect}"})

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def dying(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = dict(scope["headers"])
                self._die("after", headers[b"idempotency-key"].decode())
            await send(message)

        await self._shop(scope, receive, dying)

    def _die(self, side: str, key: str) -> None:
        mark = self._folder / f"{side}-{key}"
        if side in self._sides and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)


def main(fd: str, folder: str, sides: str) -> None:
    config = uvicorn.Config(Mortal(Path(folder), sides), lifespan="off", log_level="warning")
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=int(fd))])


if __name__ == "__main__":
    main(*sys.argv[1:])
