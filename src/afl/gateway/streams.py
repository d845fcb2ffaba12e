"""Open streams: server-sent events with durable ids."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, MutableMapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import msgspec

from afl import telemetry
from afl.clock import Clock
from afl.errors import StoreError
from afl.gateway import problems
from afl.gateway.access import Right, Visitor
from afl.gateway.batches import Batches
from afl.gateway.events import Event, View
from afl.gateway.news import NewsHub
from afl.gateway.places import Place
from afl.gateway.problems import Problem
from afl.gateway.reading import Page, read_page
from afl.gateway.requests import Limits, Receive
from afl.log import get_logger
from afl.turns.api import TurnRecord, TurnStore
from afl.turns.tokens import Tokens

_log = get_logger(__name__)

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MEDIA_TYPE = "text/event-stream"
#: Clients come back after this time, unless they are told otherwise.
_RETRY_MS = 1000
#: Events are sent together, in pieces of about this size.
_PIECE_BYTES = 65_536
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    # Proxies that collect answers would keep events to themselves.
    (b"x-accel-buffering", b"no"),
]


def encoded(event: Event) -> bytes:
    data = msgspec.json.encode(event.data)
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (event.id.encode(), event.name.encode(), data)


@dataclass
class Streams:
    """All that are open in one event loop."""

    store: TurnStore
    tokens: Tokens
    limits: Limits
    hub: NewsHub
    clock: Clock

    def __post_init__(self) -> None:
        self._open: Counter[str] = Counter()
        self._looks = Batches()

    @property
    def count(self) -> int:
        return self._open.total()

    def require_room(self, visitor: Visitor) -> None:
        """Raises Problem."""
        if self._open[visitor.name] >= self.limits.streams:
            text = f"{visitor.name} has {self.limits.streams} open streams; close some"
            raise Problem(problems.TOO_MANY, text, retry_after=5.0)

    async def serve(
        self, turn: TurnRecord, place: Place, visitor: Visitor, receive: Receive, send: Send
    ) -> None:
        """Send what is behind the place, and then what happens, until the turn or the server ends,
        or nobody listens."""
        with self._opened(turn, place, visitor) as telling:
            async with anyio.create_task_group() as group:
                group.start_soon(_until_gone, receive, group.cancel_scope)
                telling.reason = await self._send_all(turn, place, visitor, telling, send)
                group.cancel_scope.cancel()

    async def _send_all(
        self, turn: TurnRecord, place: Place, visitor: Visitor, telling: _Telling, send: Send
    ) -> str:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        try:
            async with aclosing(self._pieces(turn.id, place, visitor, telling)) as pieces:
                async for piece in pieces:
                    async with asyncio.timeout(self.limits.stalled_seconds):
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
        except TimeoutError:
            # The rest is never sent: the client sees that it was cut, and goes on where it was.
            return "the reader took nothing"
        except StoreError as error:
            _log.info("stream_ends", turn=turn.id, reason=str(error))
            telling.end = "the store is not there"
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return telling.end

    async def _pieces(
        self, turn_id: str, place: Place, visitor: Visitor, telling: _Telling
    ) -> AsyncGenerator[bytes, None]:
        yield b"retry: %d\n\n" % _RETRY_MS
        view = View(is_inside=visitor.may(Right.INSIDE))
        tokens = self.tokens if visitor.may(Right.ACT) else None
        with self.hub.watching(turn_id) as news:
            while True:
                news.clear()
                # Before the look: whoever wrote something has done so before it closed the hub.
                is_last = self.hub.is_closed
                page = await self._look(turn_id, place, view, tokens)
                telling.events += len(page.events)
                for piece in _joined(page.events):
                    yield piece
                place = page.place
                if page.is_end or (is_last and not page.is_full):
                    telling.end = "the turn is over" if page.is_end else "the server stops"
                    return
                if not (page.is_full or await _heard(news, self.limits.keep_alive_seconds)):
                    yield b":\n\n"

    async def _look(self, turn_id: str, place: Place, view: View, tokens: Tokens | None) -> Page:
        look = partial(read_page, self.store, turn_id, place, view, tokens)
        return await self._looks.call(look)

    @contextmanager
    def _opened(self, turn: TurnRecord, place: Place, visitor: Visitor) -> Iterator[_Telling]:
        began_at, telling = self.clock.monotonic(), _Telling()
        facts = {"turn": turn.id, "loop": turn.loop, "caller": visitor.name}
        self._open[visitor.name] += 1
        telemetry.emit(telemetry.StreamOpened(at=self.clock.now(), after=str(place), **facts))
        try:
            yield telling
        finally:
            self._open[visitor.name] -= 1
            telemetry.emit(
                telemetry.StreamClosed(
                    at=self.clock.now(),
                    events=telling.events,
                    reason=telling.reason,
                    duration_s=self.clock.monotonic() - began_at,
                    **facts,
                )
            )


@dataclass
class _Telling:
    """How a stream goes."""

    events: int = 0
    end: str = ""
    reason: str = "the reader went away"


async def _heard(news: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await news.wait()
    except TimeoutError:
        return False
    return True


async def _until_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
    scope.cancel()


def _joined(events: Sequence[Event]) -> Iterator[bytes]:
    pending = bytearray()
    for each in events:
        pending += encoded(each)
        if len(pending) >= _PIECE_BYTES:
            yield bytes(pending)
            pending.clear()
    if pending:
        yield bytes(pending)
