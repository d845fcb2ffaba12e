"""Middleware for ASGI applications: requests with an `Idempotency-Key` act once.

- The first request with a key goes to the application; its answer is kept, then sent.
- The same request again gets the kept answer, with `Idempotency-Replayed: true`.
- Another request with the same key gets 422.
- Twins that come meanwhile wait, and get 409 if that takes too long.

Answers of all kinds are kept, also errors: who sees one does not know what happened before it.
Only 429 and 503 are not, because they say that nothing happened. An answer that is streamed is
kept and sent when it is whole, also if the client has gone away meanwhile.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec

from afl.errors import StoreUnavailable
from afl.turns.errors import KeyReused
from afl.turns.idempotency.api import Held, IdempotencyStore, Kept, KeyBusy
from afl.turns.idempotency.holding import AsyncKeeper, begun_async, keep

Scope: TypeAlias = MutableMapping[str, Any]
AsgiMessage: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[AsgiMessage]]
Send: TypeAlias = Callable[[AsgiMessage], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADER = b"idempotency-key"
REPLAYED = (b"idempotency-replayed", b"true")
_METHODS = ("POST", "PUT", "PATCH", "DELETE")
_NOTHING_HAPPENED = (429, 503)
_LONGEST_KEY = 255


class _Answer(msgspec.Struct, frozen=True):
    status: int
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes


class _Disconnected(Exception):  # noqa: N818 - never leaves this module
    """The client went away before it had sent its request."""


class IdempotencyMiddleware:
    """`wait_s` is how long a twin waits; `max_body` how many bytes a request with a key may have,
    because it is held in memory. With `is_required`, requests that change something and have no
    key get 400."""

    def __init__(
        self,
        app: App,
        store: IdempotencyStore,
        *,
        wait_s: float = 30.0,
        max_body: int = 10_000_000,
        is_required: bool = False,
    ) -> None:
        self._app = app
        self._store = store
        self._wait_s = wait_s
        self._max_body = max_body
        self._is_required = is_required

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in _METHODS:
            await self._app(scope, receive, send)
            return
        key = _key_of(scope)
        if key is None and not self._is_required:
            await self._app(scope, receive, send)
        elif not key or len(key) > _LONGEST_KEY:
            text = f"send an Idempotency-Key of 1 to {_LONGEST_KEY} characters"
            await _send(send, _problem(400, text))
        else:
            with suppress(_Disconnected):
                await self._once(key, scope, receive, send)

    async def _once(self, key: str, scope: Scope, receive: Receive, send: Send) -> None:
        body = await self._body(receive)
        if body is None:
            text = f"requests with a key have at most {self._max_body} bytes"
            await _send(send, _problem(413, text))
            return
        try:
            request = _digest(scope, body)
            found = await begun_async(self._store, key, request, wait_s=self._wait_s)
        except KeyReused as reused:
            await _send(send, _problem(422, str(reused)))
        except KeyBusy as busy:
            await _send(send, _problem(409, str(busy), retry_after=1))
        except StoreUnavailable:
            # Without the keys nobody could tell a repetition: rather nothing than twice.
            await _send(send, _problem(503, "keys cannot be looked up now", retry_after=5))
        else:
            if isinstance(found, Kept):
                answer = msgspec.json.decode(found.answer, type=_Answer)
                await _send(send, answer, REPLAYED)
            else:
                await self._act(found, scope, body, send)

    async def _body(self, receive: Receive) -> bytes | None:
        """None if it is too long."""
        parts: list[bytes] = []
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Disconnected
            parts.append(message.get("body", b""))
            if sum(map(len, parts)) > self._max_body:
                return None
            if not message.get("more_body", False):
                return b"".join(parts)

    async def _act(self, held: Held, scope: Scope, body: bytes, send: Send) -> None:
        async with AsyncKeeper(self._store, held) as keeper:

            async def settle(answer: _Answer) -> None:
                await self._keep(await keeper.stop(), answer)
                await _send(send, answer)

            captured = _Captured(settle)
            # What another server could send in other ways must come through here.
            inner = {**scope, "extensions": {}}
            try:
                await self._app(inner, _replaying(body, captured.is_whole), captured.send)
            except Exception:
                if not captured.is_whole.is_set():
                    # Whether it acted before that, nobody knows.
                    failure = _problem(500, "the application failed")
                    await self._keep(await keeper.stop(), failure)
                raise
            if not captured.is_whole.is_set():
                await settle(_problem(500, "the application gave no whole answer"))

    async def _keep(self, held: Held, answer: _Answer) -> None:
        if answer.status not in _NOTHING_HAPPENED:
            await asyncio.to_thread(keep, self._store, held, msgspec.json.encode(answer))
            return
        with suppress(StoreUnavailable):  # then twins wait until the lease is over
            await asyncio.to_thread(self._store.release, held)


class _Captured:
    """What an application sends, until it is whole."""

    def __init__(self, settle: Callable[[_Answer], Awaitable[None]]) -> None:
        self._settle = settle
        self._status = 500
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self.is_whole = asyncio.Event()

    async def send(self, message: AsgiMessage) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = message.get("headers", ())
            self._headers = [(bytes(name), bytes(value)) for name, value in headers]
        elif message["type"] == "http.response.body":
            self._body.append(message.get("body", b""))
            if not message.get("more_body", False):
                # What the application does after its answer is for nobody to wait for.
                await self._settle(_Answer(self._status, self._headers, b"".join(self._body)))
                self.is_whole.set()


def _replaying(body: bytes, is_over: asyncio.Event) -> Receive:
    """The body that was read already. That a client goes away is not said: the answer is for its
    twins as well, so the application does not stop in the middle of it."""
    first = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> AsgiMessage:
        if first:
            return first.pop()
        await is_over.wait()
        return {"type": "http.disconnect"}

    return again


async def _send(send: Send, answer: _Answer, *more: tuple[bytes, bytes]) -> None:
    start = {"type": "http.response.start", "status": answer.status}
    await send({**start, "headers": [*answer.headers, *more]})
    await send({"type": "http.response.body", "body": answer.body})


def _problem(status: int, detail: str, *, retry_after: int | None = None) -> _Answer:
    body = msgspec.json.encode({"type": "about:blank", "status": status, "detail": detail})
    headers = [(b"content-type", b"application/problem+json")]
    if retry_after is not None:
        headers.append((b"retry-after", str(retry_after).encode()))
    return _Answer(status, headers, body)


def _key_of(scope: Scope) -> str | None:
    found = [bytes(value) for name, value in scope["headers"] if bytes(name).lower() == HEADER]
    return found[0].decode("latin-1").strip() if found else None


def _digest(scope: Scope, body: bytes) -> str:
    """What is asked: the same key must ask the same."""
    what = [scope["method"].encode(), scope["path"].encode(), scope.get("query_string", b"")]
    head = msgspec.json.encode([each.decode("latin-1") for each in what])
    return hashlib.sha256(head + body).hexdigest()
