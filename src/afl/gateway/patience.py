"""How a client goes on when a server does not: whom it asks next, when, and when it gives up."""

from __future__ import annotations

from collections.abc import Mapping

from afl.backoff import Backoff
from afl.clock import Clock
from afl.gateway.client_errors import ApiUnreachable

_BACKOFF = Backoff(initial=0.1, factor=2.0, maximum=5.0, jitter=0.5)
#: Answers of servers that come or go, and of what stands before them.
PASSING = (408, 429, 502, 503, 504)


class Patience:
    """Of one request. Each server is asked once before any pause."""

    def __init__(self, urls: tuple[str, ...], first: int, seconds: float, clock: Clock) -> None:
        self._urls = urls
        self.index = first
        self._seconds = seconds
        self._clock = clock
        self._failures = 0
        self._failing_since: float | None = None
        self._asked_to_wait: list[float] = []

    @property
    def url(self) -> str:
        return self._urls[self.index % len(self._urls)]

    def succeeded(self) -> None:
        self._failures, self._failing_since = 0, None
        self._asked_to_wait.clear()

    def failed(self, why: str, retry_after: float | None = None) -> float:
        """Seconds to wait before the next try. Raises ApiUnreachable."""
        now = self._clock.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        failing_s = now - self._failing_since
        if failing_s >= self._seconds:
            raise ApiUnreachable(self._urls, failing_s, why)
        self._failures += 1
        self.index += 1
        self._asked_to_wait.append(retry_after or 0.0)
        rounds, rest = divmod(self._failures, len(self._urls))
        if rest:
            return 0.0
        # As soon as the first of them says it can be asked.
        pause = max(_BACKOFF.delay(rounds), min(self._asked_to_wait))
        self._asked_to_wait.clear()
        # One try at the very end of the patience, and then no more.
        return min(pause, self._seconds - failing_s)


def retry_after(headers: Mapping[str, str]) -> float | None:
    text = headers.get("retry-after", "")
    return float(text) if text.isdecimal() else None
