"""How bodies and reply addresses become payloads of a box, and come back out of them."""

from __future__ import annotations

from math import inf
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast

from afl.clock import SYSTEM_CLOCK, Clock
from afl.errors import StoreUnavailable
from afl.mailbox.api import Mailbox
from afl.mailbox.bodies import JsonBodies
from afl.mailbox.late_mailbox import LateMailbox
from afl.mailbox.resolver import Keeper, MailboxResolver, NeighbourResolver

T = TypeVar("T")
P = TypeVar("P")

#: How long after an outage no mailbox for replies is looked for: each look may take long, and who
#: receives many messages at once has leases that run meanwhile.
_OUTAGE_S = 1.0


class Reply(NamedTuple):
    """Where the answer goes, or why it cannot go there."""

    to: Mailbox[Any, Any] | None
    error: Exception | None = None


class Packing(Protocol[T, P]):
    def pack(self, body: T, reply_to: Mailbox[Any, Any] | None) -> P:
        """Raises SerializationError; MailboxResolutionError if nobody could send a reply."""

    def body(self, payload: P) -> T:
        """Raises SerializationError if this is no such body."""

    def show(self, payload: P) -> Any:
        """The body for people: raw text if it is no such body."""

    def plain(self, payload: P) -> Any:
        """What was sent, whatever it is: raw text if it is no JSON."""

    def reply(self, payload: P, name: str) -> Reply:
        """For the reply address with this name."""

    def close(self) -> None: ...


class Letter(NamedTuple):
    """What stays in the process."""

    body: Any
    reply_to: Mailbox[Any, Any] | None


class InProcess(Generic[T]):
    """Receivers get the bodies themselves, or copies that have passed the check of `bodies`; and
    the very mailbox that waits for the reply."""

    def __init__(self, bodies: JsonBodies[T] | None = None) -> None:
        self._bodies = bodies

    def pack(self, body: T, reply_to: Mailbox[Any, Any] | None) -> Letter:
        return Letter(body if self._bodies is None else self._bodies.write(body), reply_to)

    def body(self, payload: Letter) -> T:
        body: T = payload.body if self._bodies is None else self._bodies.read(payload.body)
        return body

    def show(self, payload: Letter) -> Any:
        return payload.body if self._bodies is None else self._bodies.show(payload.body)

    def plain(self, payload: Letter) -> Any:
        return payload.body if self._bodies is None else self._bodies.plain(payload.body)

    def reply(self, payload: Letter, name: str) -> Reply:  # noqa: ARG002 - as the port says
        return Reply(payload.reply_to)

    def close(self) -> None: ...


class ByName(Generic[T]):
    """Bodies are JSON; the mailbox that waits for the reply is found by its name."""

    def __init__(
        self,
        bodies: JsonBodies[T],
        resolver: MailboxResolver[Any, Any],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._bodies = bodies
        self._resolver = resolver
        self._clock = clock
        self._looks_at = -inf
        if isinstance(resolver, Keeper):
            resolver.hold()

    def pack(self, body: T, reply_to: Mailbox[Any, Any] | None) -> bytes:
        if reply_to is not None and isinstance(self._resolver, NeighbourResolver):
            self._resolver.require_reachable(reply_to)
        return self._bodies.write(body)

    def body(self, payload: bytes) -> T:
        return self._bodies.read(payload)

    def show(self, payload: bytes) -> Any:
        return self._bodies.show(payload)

    def plain(self, payload: bytes) -> Any:
        return self._bodies.plain(payload)

    def reply(self, payload: bytes, name: str) -> Reply:  # noqa: ARG002 - as the port says
        if self._clock.monotonic() < self._looks_at:
            return self._late(name)
        try:
            return Reply(self._resolver.resolve(name))
        except (StoreUnavailable, OSError):
            # The message can be worked on; its answer waits until there is a way to send it.
            self._looks_at = self._clock.monotonic() + _OUTAGE_S
            return self._late(name)
        except Exception as error:  # a resolver may be of anybody; those who receive go on
            return Reply(None, error)

    def _late(self, name: str) -> Reply:
        return Reply(cast("Mailbox[Any, Any]", LateMailbox(name, self._resolver.resolve)))

    def close(self) -> None:
        if isinstance(self._resolver, Keeper):
            self._resolver.close()
