"""Pages that change while somebody looks at them.

One watcher for each event loop looks after all open pages. Of a run, the store announces changes,
and the count of them costs nothing to ask for; other pages are made again every second, once for
all windows of a visitor. Only the parts that have changed are sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import anyio.to_thread

from afl.clock import Clock
from afl.log import get_logger

_log = get_logger(__name__)

#: Seconds between two questions whether a run has changed.
_ASK_S = 0.1
#: Seconds after which a page is made again, also if nobody announced anything: claims are not.
_AGAIN_S = 1.0
#: How many times as long as it takes to make: a large page must leave time for other work. After
#: an announcement it comes sooner.
_SHARE, _SHARE_OF_NEWS = 20, 2

Parts = dict[str, str]


@dataclass
class _Topic:
    """A page that somebody looks at."""

    make: Callable[[], Parts]
    #: Changes when the page may have; None: nobody knows.
    seen: Callable[[], int] | None
    clock: Clock
    parts: Parts = field(default_factory=dict)
    listeners: set[asyncio.Event] = field(default_factory=set)
    problem: Exception | None = None
    last_seen: int | None = None
    made_at: float | None = None
    took_s: float = 0.0
    is_busy: bool = False

    def is_due(self) -> bool:
        if self.is_busy:
            return False
        if self.made_at is None:
            return True
        age = self.clock.monotonic() - self.made_at
        if age >= max(_AGAIN_S, _SHARE * self.took_s):
            return True
        is_news = self.seen is not None and self.seen() != self.last_seen
        return is_news and age >= _SHARE_OF_NEWS * self.took_s

    async def refresh(self) -> None:
        self.is_busy, began_at = True, self.clock.monotonic()
        try:
            # Counted before the look: what comes in between comes with the next one.
            self.last_seen = None if self.seen is None else self.seen()
            self.parts = await anyio.to_thread.run_sync(self.make)
            self.problem = None
        except Exception as error:
            self.problem = error
        finally:
            self.made_at = self.clock.monotonic()
            self.took_s = self.made_at - began_at
            self.is_busy = False
        self.tell()

    def tell(self) -> None:
        for each in self.listeners:
            each.set()


class LiveHub:
    """For the coroutines of one event loop; `close` may be called from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._topics: dict[str, _Topic] = {}
        self._watcher: asyncio.Task[None] | None = None
        self._making: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.is_closed = False

    @property
    def count(self) -> int:
        """Open streams."""
        return sum(len(each.listeners) for each in self._topics.values())

    def close(self) -> None:
        self.is_closed = True
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._tell_all)

    @contextmanager
    def watching(
        self, key: str, make: Callable[[], Parts], seen: Callable[[], int] | None
    ) -> Iterator[tuple[_Topic, asyncio.Event]]:
        """A page, and an event that is set when it was made again or all streams are to end."""
        topic = self._topics.setdefault(key, _Topic(make, seen, self._clock))
        news = asyncio.Event()
        topic.listeners.add(news)
        self._watch()
        try:
            yield topic, news
        finally:
            topic.listeners.discard(news)
            if not topic.listeners and self._topics.get(key) is topic:
                del self._topics[key]

    def _watch(self) -> None:
        if self._watcher is None or self._watcher.done():
            self._loop = asyncio.get_running_loop()
            self._watcher = self._loop.create_task(self._run())

    async def _run(self) -> None:
        while self._topics and not self.is_closed:
            for each in list(self._topics.values()):
                if _is_due(each):
                    making = asyncio.create_task(each.refresh())
                    self._making.add(making)
                    making.add_done_callback(self._making.discard)
            await asyncio.sleep(_ASK_S)
        self._tell_all()

    def _tell_all(self) -> None:
        for each in self._topics.values():
            each.tell()


def _is_due(topic: _Topic) -> bool:
    try:
        return topic.is_due()
    except Exception as error:  # the store is gone: whoever listens is told so
        topic.problem = error
        topic.tell()
        return False


def event(name: str, text: str) -> bytes:
    """A server-sent event with a part of a page."""
    data = "".join(f"data: {line}\n" for line in text.splitlines() or [""])
    return f"event: {name}\n{data}\n".encode()
