"""Reading what a request brings, for pages and for the API."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.requests import Request

from afl.gateway import problems
from afl.gateway.problems import Problem
from afl.gateway.requests import Limits

FORM = "application/x-www-form-urlencoded"


def query_of(given: Mapping[str, str], known: Mapping[str, Any], *more: str) -> dict[str, Any]:
    """The parameters of a query; empty ones say nothing. `more` are taken as they are. Raises
    Problem: a filter with a typing error would find everything."""
    unknown = sorted(set(given).difference(known, more))
    if unknown:
        there = ", ".join(sorted(known)) or "none"
        raise Problem(
            problems.INVALID, f"there is no parameter {unknown[0]!r} here; there are: {there}"
        )
    found: dict[str, Any] = {name: given[name] for name in more if given.get(name)}
    for name, kind in known.items():
        if given.get(name):
            found[name] = _converted(given[name], kind, name)
    return found


def _converted(text: str, kind: Any, name: str) -> Any:
    try:
        return msgspec.convert(text, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Problem(problems.INVALID, f"{name}: {error}") from None


async def form_bytes(request: Request, limits: Limits) -> bytes:
    """The body of a form. Raises Problem: of one that is too large nothing is kept."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (FORM, ""):
        raise Problem(problems.NOT_A_TYPE, f"send the form as {FORM}")
    body = bytearray()
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for piece in request.stream():
                body += piece
                if len(body) > limits.body_bytes:
                    text = f"a form may have {limits.body_bytes} bytes"
                    raise Problem(problems.TOO_LARGE, text, headers={"connection": "close"})
    except TimeoutError:
        raise Problem(problems.TOO_SLOW, "the form did not come in time") from None
    return bytes(body)
