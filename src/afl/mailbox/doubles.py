# ruff: noqa: ARG002 - doubles take what the port says, and ignore most of it
"""Mailboxes for tests of whoever uses one: no threads, no waiting, no surprises."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from afl.clock import FakeClock
from afl.ids import new_id
from afl.mailbox.api import DeadLetter, Mailbox, Message, Peeked
from afl.mailbox.box import Entry, Handle
from afl.mailbox.deliveries import handle_of
from afl.mailbox.memory_box import MemoryBox
from afl.mailbox.memory_queue import MemoryQueue
from afl.mailbox.packing import InProcess, Letter
from afl.mailbox.stored import BoxMailbox

T = TypeVar("T")
R = TypeVar("R")


class NullMailbox(Generic[T, R]):
    """Drops what is sent to it, and never has anything."""

    def __init__(self, name: str = "null") -> None:
        self.name = name
        self._is_closed = False

    @property
    def closed(self) -> bool:
        return self._is_closed

    def send(self, body: T, *, reply_to: Mailbox[R, Any] | None = None) -> str:
        return new_id()

    def receive(
        self,
        *,
        max_messages: int = 1,
        visibility_timeout: float = 30,
        wait_time_seconds: float = 0,
        stop: threading.Event | None = None,
    ) -> Sequence[Message[T, R]]:
        return []

    def wait(
        self,
        timeout: float | None = None,
        stop: threading.Event | None = None,
    ) -> bool:
        return False

    def extend_all(
        self,
        messages: Sequence[Message[T, R]],
        visibility_timeout: float,
    ) -> list[bool]:
        return [False for _ in messages]

    def release_all(self, messages: Sequence[Message[T, R]]) -> None: ...

    def dead_letter(
        self, message: Message[T, R], reason: str, error: BaseException | None = None
    ) -> None: ...

    def dead_letters(self, limit: int = 100) -> Sequence[DeadLetter[Any]]:
        return []

    def redrive(self, ids: Sequence[str] | None = None) -> int:
        return 0

    def peek(self, limit: int = 100) -> Sequence[Peeked[Any]]:
        return []

    def purge(self) -> int:
        return 0

    def approximate_count(self) -> int:
        return 0

    def close(self) -> None:
        self._is_closed = True


class CollectingMailbox(NullMailbox[T, R]):
    """Keeps what is sent to it in `sent`; nothing can be received."""

    def __init__(self, name: str = "collecting") -> None:
        super().__init__(name)
        self.sent: list[T] = []

    def send(self, body: T, *, reply_to: Mailbox[R, Any] | None = None) -> str:
        self.sent.append(body)
        return super().send(body, reply_to=reply_to)

    def approximate_count(self) -> int:
        return len(self.sent)

    def purge(self) -> int:
        count = len(self.sent)
        self.sent.clear()
        return count


class FakeMailbox(BoxMailbox[T, R, Letter]):
    """A mailbox in memory whose time stands still and whose place fails when told.

    Leases and delays never end by themselves: `expire_handle` takes a delivery away, and
    `clock.advance` lets time pass. A receive never waits.
    """

    def __init__(self, name: str = "fake", max_size: int | None = None) -> None:
        self.clock = FakeClock()
        self._faulty = _FaultyBox(name, MemoryQueue(self.clock), "a fake in memory")
        super().__init__(self._faulty, InProcess(), max_size=max_size, clock=self.clock)

    def _let_go(self) -> None:
        # There is no place to let go of: tests look at what is left.
        self._packing.close()

    def expire_handle(self, handle: str) -> None:
        """Whatever is said about this delivery from now on is refused; the message is back."""
        self._faulty.expire(handle_of(handle))

    def set_connection_error(self, error: Exception) -> None:
        """Raise this from everything, until it is cleared."""
        self._faulty.error = error

    def clear_connection_error(self) -> None:
        self._faulty.error = None

    def inject_message(
        self,
        body: T,
        *,
        msg_id: str | None = None,
        delivery_count: int = 1,
        reply_to: Mailbox[R, Any] | None = None,
    ) -> str:
        """A message that is at its delivery number `delivery_count` when it is received."""
        message_id = msg_id or new_id()
        letter = Letter(body, reply_to)
        entry = Entry(message_id, letter, None if reply_to is None else reply_to.name)
        self._faulty.inject(entry, delivery_count - 1)
        return message_id


class _FaultyBox(MemoryBox[Letter]):
    error: Exception | None = None

    def expire(self, handle: Handle) -> None:
        self._shared.give_back([handle], 0, is_counted=True)

    def inject(self, entry: Entry[Letter], deliveries: int) -> None:
        self._shared.put(entry, None, deliveries=deliveries)

    def wait(self, timeout: float | None = None, stop: threading.Event | None = None) -> bool:
        return super().wait(0, stop)

    def _queue(self) -> MemoryQueue[Letter]:
        if self.error is not None:
            raise self.error
        return super()._queue()
