"""Where leased work comes from, and how one piece of it is done: the port of the consumer.

A source lends work: each piece is claimed under a lease that the consumer renews as long as it has
it. The consumer knows nothing about what is done; a source knows nothing about threads.

- **One end.** A piece that was claimed ends in exactly one of `complete`, `fail` and `release`,
  or its claim is lost and nothing that is said about it counts any more.
- **Lost claims.** Whatever comes too late is refused with `ClaimLost`, never applied.
- **Outages.** A source that cannot be reached raises `StoreUnavailable`; the consumer tries again
  with growing pauses and never ends because of it.
- All methods may be called from any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

from afl.errors import Conflict

if TYPE_CHECKING:
    from afl.work.attempts import Attempt


class ClaimLost(Conflict):
    """Somebody else has the work now, or it is over: whatever is known about it is refused."""


class Work(Protocol):
    """One claimed piece. The same piece claimed again is another object."""

    @property
    def id(self) -> str:
        """Stays the same over all claims of it."""

    @property
    def label(self) -> str:
        """As logs and people name it."""


W = TypeVar("W", bound=Work)
W_co = TypeVar("W_co", bound=Work, covariant=True)


# How a piece is done


@dataclass(frozen=True)
class InThread:
    """Blocks a thread of the pool."""

    call: Callable[[Attempt], Any]


@dataclass(frozen=True)
class OnLoop:
    """Waits on the event loop that all of the process share."""

    call: Callable[[Attempt], Awaitable[Any]]


@dataclass(frozen=True)
class InProcess:
    """Runs in a process that can be killed.

    There, `target` (`package.module:function`) is called with `argument`, which must be JSON, and
    a function to send messages with; what it returns must be JSON. Messages come out of
    `on_message(attempt, kind, value)` here, in their order.
    """

    target: str
    argument: Any
    on_message: Callable[[Attempt, str, Any], object]


How: TypeAlias = InThread | OnLoop | InProcess


@dataclass(frozen=True)
class Job:
    """What one piece of work takes."""

    how: How
    #: Seconds from its start after which it is given up.
    timeout_s: float | None = None
    #: Seconds without a sign of progress (`Attempt.beat`) after which it is given up.
    patience_s: float | None = None


# The port


class Room(NamedTuple):
    """What may be claimed along with a result."""

    #: How many pieces, in the place of the one that ends. First of all, those that it makes
    #: possible.
    size: int
    #: Whether nobody asks for more while this place is taken: then any that wait will do.
    is_last: bool


NO_ROOM = Room(0, is_last=False)


class Recording(Protocol[W_co]):
    """An end on its way to the store."""

    def done(self) -> bool: ...

    def result(self, timeout: float | None = None) -> Sequence[W_co]:
        """Wait until it is durable. More work that was claimed along with it.

        Raises ClaimLost; StoreUnavailable if it can be tried again; and whatever says that the
        result itself cannot be recorded.
        """


class Source(Protocol[W]):
    @property
    def lease_s(self) -> float:
        """How long a claim holds unless it is renewed."""

    def claim(self, limit: int) -> Sequence[W]:
        """Up to `limit` pieces, now; none if there are none."""

    def wait(self, timeout: float | None, stop: threading.Event) -> bool:
        """Wait until `claim` may find something: True. False at the timeout, and at once when
        `stop` is set."""

    def extend(self, works: Sequence[W]) -> Sequence[bool]:
        """Renew these leases, in one commit; False for each claim that is lost."""

    def release(self, works: Sequence[W]) -> None:
        """Give unstarted or interrupted work back, to its place; nobody counts the attempt. Says
        nothing about claims that are lost."""

    def job(self, work: W) -> Job:
        """How to do it. What this raises is recorded with `fail`, as if the work had raised it."""

    def complete(self, work: W, result: Any, room: Room) -> Recording[W]:
        """Record the result. More may be claimed along, as far as there is room."""

    def fail(self, work: W, error: BaseException) -> Recording[W]:
        """Record that it failed: `error` is what the work, `job` or the consumer (`TimedOut`)
        raised."""
