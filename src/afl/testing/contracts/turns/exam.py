"""What the parts of the turn suite share: stores on a clock that is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import pytest

from afl.clock import FakeClock
from afl.testing.contracts.mailbox.exam import Background
from afl.turns.api import Claim, Kind, NewEntry, NewTurn, TurnRecord, TurnStore
from afl.turns.replay import Intent
from afl.turns.values import encode

T = TypeVar("T")

#: Opens the store. Each call is as another process would do it: another object.
Stores: TypeAlias = Callable[[], TurnStore]

LOOP = "support"
LEASE_MS = 30_000


class TurnExam:
    """Subclasses give the fixture `stores`: a place without turns, on the time of `clock`."""

    #: How long, in real seconds, to wait for what must happen at once.
    patience_s = 20.0
    #: Whether news of what was written before somebody watched may come after that.
    has_late_news = False

    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    def stores(self, clock: FakeClock) -> Any:
        raise NotImplementedError("return a function that opens the store, made with this clock")

    @pytest.fixture
    def store(self, stores: Stores) -> TurnStore:
        return stores()

    def begin_background(self, action: Callable[[], T]) -> Background[T]:
        return Background(action, self.patience_s)


def accept(store: TurnStore, key: str | None = "one", **options: Any) -> TurnRecord:
    return store.accept(NewTurn(LOOP, encode("hello"), key, **options))


def begin(store: TurnStore, key: str = "one", owner: str = "ann") -> TurnRecord:
    return store.begin(accept(store, key).id, owner, LEASE_MS)


def note(text: str) -> NewEntry:
    return NewEntry(Kind.NOTE, value=encode(text))


def intent(call_id: str, name: str = "charge") -> NewEntry:
    return NewEntry(Kind.TOOL_INTENT, name, call_id, "args", encode(Intent(f"key-{call_id}", "p")))


def unknown(call_id: str, name: str = "charge") -> NewEntry:
    return NewEntry(Kind.TOOL_UNKNOWN, name, call_id, "args")


def values(store: TurnStore, turn_id: str) -> list[bytes]:
    return [each.value for each in store.read(turn_id)]


def stale(record: TurnRecord) -> Claim:
    return Claim(record.id, record.fence - 1)
