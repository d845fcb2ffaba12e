"""What people do to a fleet by plain HTTP, and what it did to the world."""

from __future__ import annotations

import threading
from collections import Counter

import httpx
from tests.deploys.fleet import PATIENCE_S, TOKEN, Fleet, Instance

from afl.gateway.sse import EventReader, StreamEvent

AUTH = {"authorization": f"Bearer {TOKEN}"}


def effects(fleet: Fleet) -> Counter[tuple[str, int]]:
    return Counter((each["effect"], each["order"]) for each in fleet.ledger())


def submitted(instance: Instance, order: int) -> httpx.Response:
    body = {"loop": "support", "request": {"order": order}}
    return httpx.post(f"{instance.url}/turns", json=body, headers=AUTH, timeout=PATIENCE_S)


class RawStream:
    """What somebody sees who follows a turn without our client: one connection, as it is."""

    def __init__(self, instance: Instance, turn_id: str) -> None:
        self.events: list[StreamEvent] = []
        self.has_begun = threading.Event()
        self.error: Exception | None = None
        self._url = f"{instance.url}/turns/{turn_id}/events"
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        reader = EventReader()
        try:
            with httpx.stream("GET", self._url, headers=AUTH, timeout=PATIENCE_S) as answer:
                for piece in answer.iter_raw():
                    self.events += reader.read(piece)
                    if self.events:
                        self.has_begun.set()
        except httpx.HTTPError as error:
            self.error = error

    def wait(self) -> list[StreamEvent]:
        self._thread.join(PATIENCE_S)
        assert self.error is None, "it ended in good order"
        return self.events
