"""Handlers for the event facets of parcels.afl: one waits for others, one blocks a thread."""

from __future__ import annotations

import asyncio
from typing import Any

from afl.runtime import HandlerContext

PRICES = {"letterbox": 2.5, "heavy goods": 9.0}


async def quote(payload: dict[str, Any]) -> dict[str, Any]:
    # Where a real one asks a service: thousands of these can wait at once.
    await asyncio.sleep(0.01)
    carrier = "letterbox" if payload["kilos"] < 2 else "heavy goods"
    return {"carrier": carrier, "price": PRICES[carrier]}


def print_label(payload: dict[str, Any], context: HandlerContext) -> dict[str, Any]:
    context.log(f"printing for {payload['country']}, attempt {context.attempt}")
    return {"label": f"{payload['carrier']} to {payload['country']}"}
