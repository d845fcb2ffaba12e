"""A turn API on loopback, and an agent by hand: what the tests of the gateway share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from afl.gateway import LoopInfo, Role, Token, TurnApi, TurnClient
from afl.gateway.sse import EventReader, StreamEvent
from afl.turns import Pause, Turn, TurnRecord, TurnState, TurnStore
from afl.turns.api import Ending
from afl.turns.driving import run_blocking
from afl.turns.values import encode

PATIENCE_S = 20.0
TOKENS = {
    "alice": Token("alice-0123456789abcdef", "alice", Role.CALLER),
    "bob": Token("bob-0123456789abcdef", "bob", Role.CALLER),
    "watcher": Token("watcher-0123456789abcdef", "watcher", Role.READER),
    "admin": Token("admin-0123456789abcdef", "admin", Role.OPERATOR),
}
LOOPS = [LoopInfo("support", str), LoopInfo("anything")]


@contextmanager
def running(api: TurnApi) -> Iterator[TurnApi]:
    thread = threading.Thread(target=api.run, name="api-under-test")
    thread.start()
    try:
        assert api.wait_until_listening(PATIENCE_S)
        yield api
    finally:
        api.shutdown(timeout=PATIENCE_S)
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


class Scene:
    """A server with its store, seen through HTTP as one of `TOKENS`."""

    def __init__(self, api: TurnApi, store: TurnStore) -> None:
        assert api.url is not None
        self.api = api
        self.store = store
        self.url = api.url
        self._clients: dict[str, httpx.Client] = {}

    def http(self, name: str = "alice") -> httpx.Client:
        if name not in self._clients:
            headers = {"authorization": f"Bearer {TOKENS[name].secret}"}
            timeout = httpx.Timeout(PATIENCE_S)
            self._clients[name] = httpx.Client(base_url=self.url, headers=headers, timeout=timeout)
        return self._clients[name]

    def client(self, name: str = "alice", **options: Any) -> TurnClient:
        options = {"patience_s": PATIENCE_S, **options}
        return TurnClient(self.url, token=TOKENS[name].secret, **options)

    def submit(self, request: Any = "hello", name: str = "alice", loop: str = "support") -> str:
        answer = self.http(name).post("/turns", json={"loop": loop, "request": request})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def agent(self, turn_id: str) -> Agent:
        return Agent(self.store, turn_id)

    def events(self, turn_id: str, name: str = "alice", after: str = "") -> list[StreamEvent]:
        """All there are; the turn must be over."""
        headers = {"last-event-id": after} if after else {}
        answer = self.http(name).get(f"/turns/{turn_id}/events", headers=headers)
        assert answer.status_code in (200, 204), answer.text
        return list(EventReader().read(answer.content))

    def close(self) -> None:
        for each in self._clients.values():
            each.close()


class Agent:
    """Does a turn, step by step, as a test says."""

    def __init__(self, store: TurnStore, turn_id: str, owner: str = "agent") -> None:
        self.store = store
        self.turn = Turn(store, store.begin(turn_id, owner, 60_000))
        self.id = turn_id

    @property
    def record(self) -> TurnRecord:
        return self.store.get(self.id)

    def says(self, *pieces: str, call_id: str = "model", whole: bool = True) -> None:
        """Streams words, and answers with them, unless it does not come to that."""
        record = self.record
        for each in pieces:
            self.store.stream(record.claim, record.seq, call_id, each)
        if whole:
            self.turn.model(lambda: answer_in(*pieces))

    def uses(self, name: str, result: Any = "ok", **arguments: Any) -> None:
        self.turn.tool(name, arguments, lambda: result)

    def seals(self, reason: str = "is suspended") -> None:
        self.store.pause(self.record.claim, Pause(TurnState.SUSPENDED, reason, None))

    def finishes(self, result: Any = "done") -> None:
        ending = Ending(TurnState.DONE, "", encode(result))
        run_blocking(self.turn.finish(ending))

    def fails(self, reason: str) -> None:
        run_blocking(self.turn.finish(Ending(TurnState.FAILED, reason)))


def answer_in(*pieces: str) -> dict[str, Any]:
    """An answer of a model, in the form in which agent loops keep it."""
    return {
        "parts": [["text", {"text": "".join(pieces)}]],
        "stop": "end",
        "usage": {"input_tokens": 3, "output_tokens": 5},
        "model": "scripted",
    }


def in_thread(work: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread
