"""Mailboxes that other processes know by their name: bodies are JSON, and so are replies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from afl.clock import SYSTEM_CLOCK, Clock
from afl.mailbox.api import Mailbox
from afl.mailbox.bodies import JsonBodies
from afl.mailbox.box import Box
from afl.mailbox.packing import ByName
from afl.mailbox.resolver import MailboxResolver, NeighbourResolver
from afl.mailbox.stored import BoxMailbox
from afl.mailbox.texts import require_name

T = TypeVar("T")
R = TypeVar("R")


class NamedMailbox(BoxMailbox[T, R, bytes]):
    """A mailbox on a box that `open_box` opens by name.

    `body_type` is what bodies are checked against (see `JsonBodies`). `reply_resolver` finds the
    mailboxes that wait for replies; unless it is given, they are at the same place as this one.
    """

    def __init__(
        self,
        open_box: Callable[[str], Box[bytes]],
        name: str,
        *,
        body_type: Any = None,
        max_size: int | None = None,
        reply_resolver: MailboxResolver[Any, Any] | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        bodies: JsonBodies[T] = JsonBodies(body_type)
        box = open_box(require_name(name))

        def neighbour(other: str) -> NamedMailbox[Any, Any]:
            return NamedMailbox(open_box, other, clock=clock)

        resolver = reply_resolver or NeighbourResolver(box.place, neighbour)
        self._resolver = resolver
        super().__init__(box, ByName(bodies, resolver, clock), max_size=max_size, clock=clock)

    def find(self, name: str) -> Mailbox[Any, Any] | None:
        """The mailbox that replies go to under this name; None if nobody knows it."""
        return self._resolver.resolve_optional(name)
