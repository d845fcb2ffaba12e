"""What the parts of the mailbox suite share: boxes on a clock that is told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Generic, TypeAlias, TypeVar

import pytest

from afl.clock import FakeClock
from afl.mailbox.box import Box, Delivery, Entry, Handle
from afl.mailbox.named import NamedMailbox

T = TypeVar("T")

#: Opens a box by its name. Each call is as another process would do it: another object.
Boxes: TypeAlias = Callable[[str], Box[bytes]]
#: Opens a mailbox on such a box.
Open: TypeAlias = Callable[..., NamedMailbox[Any, Any]]

LEASE_MS = 30_000


class MailboxExam:
    """Subclasses give the fixture `boxes`: a place without messages, on the time of `clock`."""

    #: How long, in real seconds, to wait for what must happen at once.
    patience_s = 20.0

    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    def boxes(self, clock: FakeClock) -> Any:
        raise NotImplementedError("return a function that opens a box, made with this clock")

    @pytest.fixture
    def box(self, boxes: Boxes) -> Box[bytes]:
        return boxes("requests")

    def advance(self, clock: FakeClock, seconds: float) -> None:
        """Let time pass, for the place and for those who wait. Places with a clock of their own
        move that too."""
        clock.advance(seconds)

    def begin(self, action: Callable[[], T]) -> Background[T]:
        return Background(action, self.patience_s)


class MessageExam(MailboxExam):
    @pytest.fixture
    def mailboxes(self, boxes: Boxes, clock: FakeClock) -> Iterator[Open]:
        """Opens mailboxes, and closes them in the end."""
        with ExitStack() as opened:

            def open_(name: str = "requests", **options: Any) -> NamedMailbox[Any, Any]:
                return opened.enter_context(
                    NamedMailbox(boxes, name, clock=clock, **options)  # type: ignore[arg-type]
                )

            yield open_


class Background(Generic[T]):
    """A call on a thread of its own."""

    def __init__(self, action: Callable[[], T], patience_s: float) -> None:
        self._action = action
        self._patience_s = patience_s
        self._answers: list[T] = []
        self._errors: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._answers.append(self._action())
        except BaseException as error:
            self._errors.append(error)

    def answer(self) -> T:
        """What the call returned or raised; AssertionError if it does not end."""
        self._thread.join(self._patience_s)
        assert not self._thread.is_alive(), "the call did not end"
        if self._errors:
            raise self._errors[0]
        return self._answers[0]


def put(box: Box[bytes], *ids: str) -> None:
    for each in ids:
        assert box.put(Entry(each, each.encode()))


def take(box: Box[bytes], limit: int = 1, lease_ms: int = LEASE_MS) -> list[Delivery[bytes]]:
    return box.take(limit, lease_ms)


def take_one(box: Box[bytes], lease_ms: int = LEASE_MS) -> Delivery[bytes]:
    (delivery,) = box.take(1, lease_ms)
    return delivery


def taken_ids(box: Box[bytes], limit: int = 100) -> list[str]:
    return [each.id for each in box.take(limit, LEASE_MS)]


def handle(delivery: Delivery[bytes]) -> Handle:
    return Handle(delivery.id, delivery.fence)
