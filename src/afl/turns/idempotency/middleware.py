"""Middleware for ASGI applications: requests with an `Idempotency-Key` act once.

- The first request with a key goes to the application; its answer is kept, then sent.
- The same request again gets the kept answer, with `Idempotency-Replayed: true`.
- Another request with the same key gets 422.
- Twins that come meanwhile wait, and get 409 if that takes too long.

Answers of all kinds are kept, also errors: who sees one does not know what happened before it.
Only 429 and 503 are not, because they say that nothing happened.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec

from afl.errors import StoreUnavailable
from afl.log import get_logger
from afl.turns.errors import KeyReused
from afl.turns.idempotency.api import Held, IdempotencyStore, Kept, KeyBusy
from afl.turns.idempotency.functions import LOOKS

_log = get_logger(__name__)

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
            found = await self._begun(key, _digest(scope, body))
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
                await self._act(found, scope, body, receive, send)

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

    async def _begun(self, key: str, request: str) -> Held | Kept:
        loop = asyncio.get_running_loop()
        deadline, looks = loop.time() + self._wait_s, 0
        while True:
            try:
                return await asyncio.to_thread(self._store.begin, key, request)
            except KeyBusy:
                if loop.time() >= deadline:
                    raise
            looks += 1
            await asyncio.sleep(LOOKS.delay(looks))

    async def _act(
        self, held: Held, scope: Scope, body: bytes, receive: Receive, send: Send
    ) -> None:
        captured = _Captured()
        async with _Keeper(self._store, held) as keeper:
            try:
                await self._app(scope, _replaying(body, receive), captured.send)
            except Exception:
                # Whether it acted before that, nobody knows.
                await self._keep(await keeper.stop(), _problem(500, "the application failed"))
                raise
            answer = captured.answer()
            await self._keep(await keeper.stop(), answer)
        await _send(send, answer)

    async def _keep(self, held: Held, answer: _Answer) -> None:
        try:
            if answer.status in _NOTHING_HAPPENED:
                await asyncio.to_thread(self._store.release, held)
                return
            kept = msgspec.json.encode(answer)
            if not await asyncio.to_thread(self._store.finish, held, kept):
                _log.error("idempotency_key_lost", key=held.key)
        except StoreUnavailable as problem:
            # It has acted, and whoever asked should know.
            _log.error("answer_not_kept", key=held.key, error=str(problem))


class _Keeper:
    """Renews a lease from the beginning of an `async with` to its end, or until it is stopped."""

    def __init__(self, store: IdempotencyStore, held: Held) -> None:
        self._store = store
        self._held = held
        self._over = asyncio.Event()

    async def __aenter__(self) -> _Keeper:
        self._task = asyncio.get_running_loop().create_task(self._work())
        return self

    async def __aexit__(self, *_anything: object) -> None:
        self._over.set()

    async def stop(self) -> Held:
        """What is held then: nothing changes it any more."""
        self._over.set()
        await self._task
        return self._held

    async def _work(self) -> None:
        while not await self._is_over():
            with suppress(StoreUnavailable):
                longer = await asyncio.to_thread(self._store.extend, self._held)
                if longer is None:
                    return
                self._held = longer

    async def _is_over(self) -> bool:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), self._store.lease_s / 3)
        return self._over.is_set()


class _Captured:
    """What an application sends."""

    def __init__(self) -> None:
        self._status = 500
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []

    async def send(self, message: AsgiMessage) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = [(bytes(name), bytes(value)) for name, value in message["headers"]]
        elif message["type"] == "http.response.body":
            self._body.append(message.get("body", b""))

    def answer(self) -> _Answer:
        return _Answer(self._status, self._headers, b"".join(self._body))


def _replaying(body: bytes, receive: Receive) -> Receive:
    """The body that was read already, then whatever comes."""
    first = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> AsgiMessage:
        return first.pop() if first else await receive()

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
