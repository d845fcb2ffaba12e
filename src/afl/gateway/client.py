"""The client of the turn API: one unbroken stream, whatever is deployed meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import httpx

from afl.clock import SYSTEM_CLOCK, Clock
from afl.errors import UsageError
from afl.gateway.client_errors import RequestRefused, TurnFailed, TurnNotOver
from afl.gateway.client_text import Words
from afl.gateway.headers import KEY, PLACE
from afl.gateway.patience import PASSING, Patience, retry_after
from afl.gateway.places import END
from afl.gateway.sse import EventReader, StreamEvent
from afl.ids import new_id

#: Longer silences than three signs of life: the connection is dead, and nobody said so.
SILENCE_S = 45.0
_ANSWER_S = 30.0
_CONNECT_S = 5.0


class TurnClient:
    """Talks to the servers at `urls`, which share a store: whichever answers.

    What fails for a moment, or while servers are replaced, is tried again, elsewhere if there is
    another one, for `patience_s` seconds without any answer; then ApiUnreachable. Nothing happens
    twice by that: each turn has an idempotency key. Safe from any thread.
    """

    def __init__(
        self,
        urls: str | Sequence[str],
        *,
        token: str | None = None,
        patience_s: float = 60.0,
        silence_s: float = SILENCE_S,
        http: httpx.Client | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._urls = _checked((urls,) if isinstance(urls, str) else tuple(urls))
        self._headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._patience_s = patience_s
        self._silence_s = silence_s
        self._clock = clock
        self._is_mine = http is None
        self._http = http or httpx.Client(limits=httpx.Limits(max_connections=None))
        #: The server that answered last.
        self._index = 0
        self._closed = threading.Event()

    # What can be asked

    def submit(self, loop: str, request: Any, *, key: str | None = None) -> TurnHandle:
        """Submit a turn; it is kept when this returns. The same key is the same turn.

        Raises RequestRefused, ApiUnreachable.
        """
        body = {"loop": loop, "request": request}
        headers = {KEY: key or new_id()}
        found = self.ask("POST", "/turns", body, headers)
        return TurnHandle(self, found["id"])

    def turn(self, turn_id: str) -> TurnHandle:
        """A turn that was submitted before."""
        return TurnHandle(self, turn_id)

    def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Any:
        """What a route answers, as JSON. Raises RequestRefused, ApiUnreachable."""
        patience = self._patience()
        sent = {**self._headers, **(headers or {})}
        json = {} if body is None else {"json": body}
        timeout = httpx.Timeout(_ANSWER_S, connect=_CONNECT_S)
        while True:
            try:
                url = patience.url + path
                answer = self._http.request(method, url, headers=sent, timeout=timeout, **json)
            except httpx.TransportError as error:
                self._pause(patience.failed(_said(error)))
                continue
            if answer.status_code in PASSING:
                self._pause(patience.failed(_status(answer), retry_after(answer.headers)))
                continue
            self._index = patience.index
            return _content(answer)

    def follow(
        self, turn_id: str, after: str = "", *, until: float | None = None
    ) -> Iterator[StreamEvent]:
        """The events of a turn behind a place, to its end. Raises RequestRefused, ApiUnreachable;
        TimeoutError at the time `until`, as the clock counts it."""
        patience, reader = self._patience(), EventReader()
        while after != END:
            try:
                for event in self._connection(turn_id, after, patience, reader, until):
                    after = event.id or after
                    yield event
                    if event.is_end:
                        return
                # It ended in good order: the server stops, and another one goes on.
                pause = patience.failed("the stream ended before the turn")
            except (httpx.TransportError, httpx.DecodingError) as error:
                self._require_time(until)
                pause = patience.failed(_said(error))
            except _Passing as passing:
                pause = patience.failed(str(passing), passing.retry_after)
            reader = EventReader()
            self._pause(pause, until)

    def _connection(
        self,
        turn_id: str,
        after: str,
        patience: Patience,
        reader: EventReader,
        until: float | None,
    ) -> Iterator[StreamEvent]:
        # Who compresses collects, and events come late or never.
        plain = {"accept": "text/event-stream", "accept-encoding": "identity"}
        headers = {**self._headers, **plain}
        if after:
            headers[PLACE] = after
        url = f"{patience.url}/turns/{turn_id}/events"
        timeout = httpx.Timeout(self._silence(until), connect=_CONNECT_S)
        with self._http.stream("GET", url, headers=headers, timeout=timeout) as answer:
            if answer.status_code in PASSING:
                raise _Passing(_status(answer), retry_after(answer.headers))
            if answer.status_code != httpx.codes.OK:
                answer.read()
                _content(answer)
                return
            self._index = patience.index
            # Some compress all the same.
            for piece in answer.iter_bytes():
                patience.succeeded()
                yield from reader.read(piece)
                self._require_time(until)

    # Time

    def _patience(self) -> Patience:
        return Patience(self._urls, self._index, self._patience_s, self._clock)

    def _silence(self, until: float | None) -> float:
        if until is None:
            return self._silence_s
        return max(0.001, min(self._silence_s, until - self._clock.monotonic()))

    def _require_time(self, until: float | None) -> None:
        if until is not None and self._clock.monotonic() >= until:
            raise TimeoutError

    def _pause(self, seconds: float, until: float | None = None) -> None:
        if until is not None:
            seconds = min(seconds, max(0.0, until - self._clock.monotonic()))
        if self._clock.wait(self._closed, seconds):
            raise UsageError("this client was closed")
        self._require_time(until)

    # Ends

    def close(self) -> None:
        """Whoever still waits gets an error."""
        self._closed.set()
        if self._is_mine:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class TurnHandle:
    """One turn. Each method may raise RequestRefused and ApiUnreachable."""

    def __init__(self, client: TurnClient, turn_id: str) -> None:
        self._client = client
        self.id = turn_id
        #: Behind the last event that was seen here.
        self.place = ""

    def state(self) -> dict[str, Any]:
        """The turn as it is now: `state`, `reason`, `waiting`, `result`, …"""
        return self._client.ask("GET", f"/turns/{self.id}")  # type: ignore[no-any-return]

    def stream(self, *, after: str = "") -> Iterator[StreamEvent]:
        """All events behind a place, each once, to the end of the turn. A suspended turn is
        resumed, once for each suspension."""
        return self._events(after, None)

    def text(self, *, live: bool = False) -> Iterator[str]:
        """What the agent says, in pieces, as one text.

        Only answers that are kept, each in one piece, so that nothing is ever taken back. With
        `live`, words as they come: if a process was replaced in the middle of an answer, the text
        goes on where the new words go beyond the old ones; if they differ, WordsChanged.
        """
        words = Words(live)
        for event in self.stream():
            if piece := words.next(event):
                yield piece

    def result(self, timeout: float | None = None) -> Any:
        """What came of it, once it is over. Raises TurnFailed; TurnNotOver after `timeout`
        seconds."""
        clock = self._client._clock
        until = None if timeout is None else clock.monotonic() + timeout
        place = "" if self.place == END else self.place
        try:
            for event in self._events(place, until):
                if event.name == "done":
                    return event.data["result"]
                if event.is_end:
                    raise TurnFailed(self.id, event.name, event.data["reason"])
        except TimeoutError:
            raise self._not_over(timeout) from None
        raise AssertionError("streams end with an end")

    def answer(self, answer: Any, *, call_id: str = "") -> None:
        """Answer the question that it waits for, the last one unless it is named."""
        self._client.ask("POST", f"/turns/{self.id}/input", {"answer": answer, "call_id": call_id})

    def cancel(self) -> None:
        """End it, whoever does it. Raises RequestRefused if it came to another end."""
        self._client.ask("DELETE", f"/turns/{self.id}")

    def _events(self, after: str, until: float | None) -> Iterator[StreamEvent]:
        for event in self._client.follow(self.id, after, until=until):
            self.place = event.id or self.place
            if event.name == "suspended":
                self._resume(event.data.get("resume_token"))
            yield event

    def _resume(self, token: str | None) -> None:
        if token is not None:
            # It is over, or goes on already, or this client may only look: the stream will tell.
            with suppress(RequestRefused):
                self._client.ask("POST", "/turns/resume", {"token": token})

    def _not_over(self, timeout: float | None) -> TurnNotOver:
        text = f"turn {self.id} is not over after {timeout:g} s"
        with suppress(Exception):
            now = self.state()
            text += f": it is {now['state']} {now['reason']}".rstrip()
        return TurnNotOver(text)


class _Passing(Exception):  # noqa: N818 - never leaves this module
    """A server cannot answer now."""

    def __init__(self, why: str, after: float | None) -> None:
        self.retry_after = after
        super().__init__(why)


def _checked(urls: tuple[str, ...]) -> tuple[str, ...]:
    found = tuple(each.rstrip("/") for each in urls)
    wrong = [each for each in found if not each.startswith(("http://", "https://"))]
    if wrong or not found:
        raise UsageError(
            f"{wrong[0] if wrong else 'nothing'!r} is no address of a turn API; expected such as "
            "http://127.0.0.1:8080"
        )
    return found


def _content(answer: httpx.Response) -> Any:
    """Raises RequestRefused."""
    if answer.is_success:
        return answer.json() if answer.content else None
    try:
        problem = answer.json()
    except ValueError:
        problem = {"title": answer.reason_phrase, "detail": answer.text[:200]}
    raise RequestRefused(answer.status_code, problem if isinstance(problem, dict) else {})


def _status(answer: httpx.Response) -> str:
    return f"{answer.status_code} {answer.reason_phrase}"


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
