"""What comes in, and how much of it may."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from afl.errors import ConfigurationError
from afl.gateway import problems
from afl.gateway.problems import Problem

T = TypeVar("T")
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

#: Strings, which may hold brackets, and brackets. A string without an end goes on to that of the
#: body, and nothing is read twice: else a small body could keep the whole process busy for minutes.
_BRACKET = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one client can cost. Raises ConfigurationError for what makes no sense."""

    #: Of a request.
    body_bytes: int = 1_000_000
    body_seconds: float = 30.0
    header_bytes: int = 16_384
    #: How deep JSON may be nested.
    json_depth: int = 64
    #: Open at once, for each name of a token.
    streams: int = 1000
    #: Streams say at least this often that they are alive.
    keep_alive_seconds: float = 15.0
    #: A reader that takes nothing for so long is cut; it goes on where it was.
    stalled_seconds: float = 60.0

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if not value > 0:
                raise ConfigurationError(f"the limit {name} is {value}; expected more than 0")


async def body_of(receive: Receive, headers: Mapping[str, str], limits: Limits) -> bytes:
    """The whole body. Raises Problem: of one that is too large nothing is kept."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        # Also: no page of another site can send this without asking first.
        raise Problem(problems.NOT_A_TYPE, "send the body as application/json")
    said = headers.get("content-length", "0")
    if said.isdigit() and int(said) > limits.body_bytes:
        raise _too_large(limits)
    try:
        async with asyncio.timeout(limits.body_seconds):
            return await _read(receive, limits)
    except TimeoutError:
        text = f"the body did not come within {limits.body_seconds:g} s"
        raise Problem(problems.TOO_SLOW, text, headers={"connection": "close"}) from None


async def _read(receive: Receive, limits: Limits) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Problem(problems.BAD_JSON, "the connection ended before the body did")
        body += message.get("body", b"")
        if len(body) > limits.body_bytes:
            raise _too_large(limits)
        if not message.get("more_body", False):
            return bytes(body)


def _too_large(limits: Limits) -> Problem:
    text = f"a body may have {limits.body_bytes} bytes; send less, or a reference to it"
    # The rest of it is not read, so nothing can follow on this connection.
    return Problem(problems.TOO_LARGE, text, headers={"connection": "close"})


def decoded(body: bytes, kind: type[T], limits: Limits) -> T:
    """Raises Problem."""
    if depth_of(body) > limits.json_depth:
        text = f"the JSON is nested more than {limits.json_depth} deep"
        raise Problem(problems.INVALID, text)
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as problem:
        raise Problem(problems.INVALID, str(problem)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise Problem(problems.BAD_JSON, str(problem)) from None


def depth_of(body: bytes) -> int:
    """How deep brackets are nested; nothing has been decoded yet, which could go too deep."""
    depth = deepest = 0
    for found in _BRACKET.finditer(body):
        letter = found[0]
        if letter in (b"[", b"{"):
            depth += 1
            deepest = max(deepest, depth)
        elif letter in (b"]", b"}"):
            depth -= 1
    return deepest


def converted(value: Any, kind: Any, what: str) -> Any:
    """A value as JSON has it, as this type. Raises Problem."""
    try:
        return msgspec.convert(value, kind, str_keys=True)
    except msgspec.ValidationError as problem:
        raise Problem(problems.INVALID, f"{what} does not fit: {problem}") from None
