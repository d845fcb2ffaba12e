"""Traffic on a fleet: through a load balancer, by our client and by plain HTTP."""

from __future__ import annotations

import itertools
import socket
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
from tests.deploys.fleet import PATIENCE_S, Instance
from tests.deploys.visits import AUTH
from tests.servers.proxy import Proxy

from afl.clock import SYSTEM_CLOCK
from afl.gateway import StreamEvent, TurnClient

#: Load balancers learn late who is ready.
LOOK_S = 0.1


class Balancer(Proxy):
    """Sends each connection to the next instance that was ready when it last looked."""

    def __init__(self) -> None:
        self._ready: tuple[Instance, ...] = ()
        self._next = itertools.count()
        self._over = threading.Event()
        super().__init__(0)
        self.url = f"http://127.0.0.1:{self.port}"

    def add(self, instance: Instance) -> None:
        self._ready = (*self._ready, instance)
        threading.Thread(target=self._watch, args=(instance,), daemon=True).start()

    def close(self) -> None:
        self._over.set()
        super().close()

    def _watch(self, instance: Instance) -> None:
        """Until it is not ready any more: instances that go do not come back."""
        while instance.is_ready():
            if SYSTEM_CLOCK.wait(self._over, LOOK_S):
                return
        self._ready = tuple(each for each in self._ready if each is not instance)

    def _reach_server(self) -> socket.socket | None:
        while not self._over.is_set():
            ready = self._ready
            instance = ready[next(self._next) % len(ready)] if ready else None
            with suppress(OSError):  # it has ended since: the next one
                if instance is not None:
                    return socket.create_connection(("127.0.0.1", instance.port))
            SYSTEM_CLOCK.wait(self._over, LOOK_S)
        return None


@dataclass
class Followed:
    """A turn that a customer has submitted, and seen."""

    order: int
    turn_id: str = ""
    seen: list[StreamEvent] = field(default_factory=list)


class Load:
    """Customers of two kinds. Each submits a turn, waits for its end, and submits the next: so
    there is as much to do as the machine can do."""

    def __init__(self, client: TurnClient, url: str, customers: int) -> None:
        self._client = client
        self._url = url
        self._orders = itertools.count(1)
        self._stop = threading.Event()
        #: Of those who use our client.
        self.followed: list[Followed] = []
        #: Of plain HTTP: how each request was answered, and the turns that were taken.
        self.raw: Counter[str] = Counter()
        self.taken: dict[str, int] = {}
        self._threads = [
            threading.Thread(target=self._come, args=(visit,), daemon=True)
            for visit in (self._follow, self._post)
            for _ in range(customers)
        ]
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        """No more turns; and wait until those that were submitted are over."""
        self._stop.set()
        for each in self._threads:
            each.join(PATIENCE_S)
            assert not each.is_alive(), "somebody waits for ever"

    def _come(self, visit: Callable[[int], None]) -> None:
        while not self._stop.is_set():
            visit(next(self._orders))

    def _follow(self, order: int) -> None:
        followed = Followed(order)
        self.followed.append(followed)
        turn = self._client.submit("support", {"order": order})
        followed.turn_id = turn.id
        followed.seen.extend(turn.stream())

    def _post(self, order: int) -> None:
        answer = self._asked("POST", "/turns", {"loop": "support", "request": {"order": order}})
        if answer is not None and answer.status_code == 202:
            turn_id = answer.json()["id"]
            self.taken[turn_id] = order
            self._client.turn(turn_id).result(PATIENCE_S)
            self._asked("GET", f"/turns/{turn_id}")
        else:
            SYSTEM_CLOCK.wait(self._stop, LOOK_S)

    def _asked(self, method: str, path: str, body: Any = None) -> httpx.Response | None:
        """One request, counted as it ended."""
        try:
            answer = httpx.request(
                method, self._url + path, json=body, headers=AUTH, timeout=PATIENCE_S
            )
        except httpx.HTTPError as error:
            self.raw[f"{method} {type(error).__name__}"] += 1
            return None
        waits = " with Retry-After" if "retry-after" in answer.headers else ""
        self.raw[f"{method} {answer.status_code}{waits}"] += 1
        return answer


def is_one_text(events: Sequence[StreamEvent]) -> bool:
    """Whether the pieces of each answer, without those that were called void, begin it."""
    pieces: dict[str, str] = {}
    for each in events:
        call_id: Any = each.data.get("call_id")
        if each.name == "delta":
            pieces[call_id] = pieces.get(call_id, "") + each.data["text"]
        elif each.name == "superseded":
            pieces.pop(call_id, None)
        elif each.name == "model" and not each.data["text"].startswith(pieces.pop(call_id, "")):
            return False
    return not pieces
