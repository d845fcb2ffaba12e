"""The shop behind the agent: refunds money and sends mail, and writes down what it did.

    python shop.py 8100

Each request has the idempotency key of the call that it belongs to. The middleware acts once for
each key, however often the request comes. `GET /ledger` says what was done, in order.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from afl.turns import IdempotencyMiddleware, open_idempotency

#: As long as a shop thinks about it.
ACT_S = 0.2

ledger: list[dict[str, Any]] = []


async def act(request: Request) -> JSONResponse:
    effect = request.path_params["effect"]
    arguments = await request.json()
    await asyncio.sleep(ACT_S)
    ledger.append({"effect": effect, **arguments})
    return JSONResponse({"receipt": f"{effect}-{len(ledger)}"})


async def show_ledger(request: Request) -> JSONResponse:  # noqa: ARG001 - as routes are
    return JSONResponse(ledger)


async def health(request: Request) -> JSONResponse:  # noqa: ARG001
    return JSONResponse({})


def main(port: str, keys: str = "memory:") -> None:
    """`keys` is where the answers that were given are kept: a URL such as sqlite:///keys.db."""
    shop = Starlette(
        routes=[
            Route("/ledger", show_ledger),
            Route("/health", health),
            Route("/{effect:str}", act, methods=["POST"]),
        ]
    )
    # At least as long as agents take to drain: a call is repeated by who comes after them.
    once = IdempotencyMiddleware(shop, open_idempotency(keys, window_s=3600), is_required=True)
    uvicorn.run(once, port=int(port), log_level="warning")


if __name__ == "__main__":
    main(*sys.argv[1:])
