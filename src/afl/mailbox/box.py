"""The port of backends: a queue of payloads that knows leases and dead letters, and no types.

Everything that is the same for all backends is written once above it (`afl.mailbox.stored`). A
backend is small, and must do exactly this:

- Each call is one atomic, durable change: applied as a whole, or not and an error is raised.
- Time is the backend's own (`now_ms`), never that of the caller.
- A message is *hidden* until a time, or not. `take` gives the first messages that are not hidden,
  in the order of `put`, and hides them for the lease. The end of a lease needs nobody's doing.
- A *fence* belongs to a message and only grows: with every `take`, `give_back` and `bury`. A
  `Handle` with the present fence is good, also when its lease has run out and nobody took the
  message since. Any other handle is refused with False and changes nothing.
- A message that comes back, in whatever way, has the place in the order that it had.
- News is announced to all processes: `put`, `give_back` and `revive`.

Boxes with the same name at the same place are one box. Its dead letters (*buried*) belong to it.
Methods raise `StoreUnavailable` when the place cannot be reached, `StoreClosed` after `close`.
They may be called from any thread.

A module of a backend also has `open_box(url, name) -> Box[bytes]` and `box_names(url) ->
list[str]`: the names of boxes that hold messages or dead letters there, sorted. Its mailbox is a
`afl.mailbox.named.NamedMailbox` on such a box.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

P = TypeVar("P")


class Entry(NamedTuple, Generic[P]):
    """What is sent."""

    id: str
    payload: P
    #: Name of the mailbox that waits for the answer.
    reply_to: str | None = None


class Handle(NamedTuple):
    """One delivery of one message."""

    id: str
    fence: int


class Delivery(NamedTuple, Generic[P]):
    """A message that was taken."""

    id: str
    fence: int
    payload: P
    reply_to: str | None
    enqueued_ms: int
    #: When it was taken for the first time: now, unless `deliveries` is more than 1.
    first_taken_ms: int
    #: How often it was taken, this time included, without takes that were not counted.
    deliveries: int


class Waiting(NamedTuple, Generic[P]):
    """A message that was looked at."""

    id: str
    payload: P
    reply_to: str | None
    enqueued_ms: int
    deliveries: int
    #: Milliseconds until it can be taken; 0: now.
    hidden_ms: int


class Burial(NamedTuple):
    """Why a message is among the dead letters, in texts that any place can keep."""

    reason: str
    #: `module.qualname` of the error, if there was one.
    error_type: str | None = None


class Buried(NamedTuple, Generic[P]):
    """A dead letter."""

    id: str
    payload: P
    reply_to: str | None
    enqueued_ms: int
    #: When it was taken for the first time.
    first_taken_ms: int
    deliveries: int
    buried_ms: int
    burial: Burial


class Depth(NamedTuple):
    """How many messages a box has."""

    #: Can be taken now.
    ready: int
    #: Taken, or delayed.
    hidden: int
    buried: int

    @property
    def total(self) -> int:
        """Without dead letters."""
        return self.ready + self.hidden


class Box(Protocol[P]):
    @property
    def name(self) -> str: ...

    @property
    def place(self) -> str:
        """Where it is, for people, without secrets. The same text is the same place."""

    def now_ms(self) -> int:
        """The time that leases run on, as milliseconds since 1970."""

    def put(self, entry: Entry[P], capacity: int | None = None) -> bool:
        """Add it at the end. False if `capacity` or more messages are there: ready and hidden.

        An entry whose id is there already changes nothing and is True, so that a sender who saw
        no answer can try again.
        """

    def take(self, limit: int, lease_ms: int) -> list[Delivery[P]]:
        """The first `limit` (1 or more) that are not hidden; they are hidden for the lease."""

    def finish(self, handle: Handle) -> bool:
        """Delete the message."""

    def give_back(
        self, handles: Sequence[Handle], *, delay_ms: int = 0, is_counted: bool = False
    ) -> list[bool]:
        """Back to its place, hidden for the delay. Unless it is counted, it was not taken."""

    def extend(self, handles: Sequence[Handle], lease_ms: int) -> list[bool]:
        """Hidden until the lease is over, counted from now, or as long as it already is."""

    def bury(self, handle: Handle, burial: Burial) -> bool:
        """Move the message to the dead letters."""

    def buried(self, limit: int) -> list[Buried[P]]:
        """The first that were buried."""

    def revive(self, ids: Sequence[str] | None = None) -> int:
        """Move dead letters, these or all, to the end of the queue in the order of their burial.

        Their deliveries are 0 again; the time when they were sent stays. How many it were.
        """

    def discard_buried(self, ids: Sequence[str] | None = None) -> int:
        """Delete dead letters, these or all; how many it were."""

    def peek(self, limit: int) -> list[Waiting[P]]:
        """The first messages in their order, hidden or not."""

    def depth(self) -> Depth: ...

    def purge(self) -> int:
        """Delete all messages, hidden or not, but no dead letters; how many it were."""

    def wait(self, timeout: float | None = None, stop: threading.Event | None = None) -> bool:
        """Wait until `take` may find something: True; at once if there is something now.

        False at the timeout (in seconds; None: never, 0: only look), and at once when `stop` is
        set or `end_waits` is called. Wakes for news of any process, and when a message is hidden
        no more.
        """

    def end_waits(self) -> None:
        """Whoever waits through this object returns at once, now and from now on. Everything else
        still works: messages in hand can be ended."""

    def close(self) -> None:
        """End the waits and let go of the place. May be called again."""
