"""From the name of a mailbox to the mailbox: how a reply finds its way out of this process."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable
from weakref import WeakValueDictionary

from afl.mailbox.api import Mailbox
from afl.mailbox.errors import MailboxResolutionError

T = TypeVar("T")
R = TypeVar("R")

_KEPT = 64


@runtime_checkable
class MailboxResolver(Protocol[T, R]):
    def resolve(self, identifier: str) -> Mailbox[T, R]:
        """Raises MailboxResolutionError if no mailbox is known by this name."""

    def resolve_optional(self, identifier: str) -> Mailbox[T, R] | None:
        """None if no mailbox is known by this name."""


@runtime_checkable
class MailboxFactory(Protocol[T, R]):
    def create(self, identifier: str) -> Mailbox[T, R]:
        """A mailbox for this name. Raises MailboxResolutionError if there cannot be one."""


@dataclass(frozen=True)
class RegistryResolver(Generic[T, R]):
    """Knows the mailboxes that it was given, and no others."""

    registry: Mapping[str, Mailbox[T, R]]

    def resolve(self, identifier: str) -> Mailbox[T, R]:
        found = self.registry.get(identifier)
        if found is None:
            raise MailboxResolutionError(identifier)
        return found

    def resolve_optional(self, identifier: str) -> Mailbox[T, R] | None:
        return self.registry.get(identifier)


@dataclass(frozen=True)
class CompositeResolver(Generic[T, R]):
    """Knows the mailboxes that it was given, and asks the factory for others."""

    registry: Mapping[str, Mailbox[T, R]]
    factory: MailboxFactory[T, R] | None = None

    def resolve(self, identifier: str) -> Mailbox[T, R]:
        found = self.registry.get(identifier)
        if found is not None:
            return found
        if self.factory is None:
            raise MailboxResolutionError(identifier)
        return self.factory.create(identifier)

    def resolve_optional(self, identifier: str) -> Mailbox[T, R] | None:
        try:
            return self.resolve(identifier)
        except MailboxResolutionError:
            return None


class NeighbourResolver:
    """Knows every name: `open_` opens the mailbox at the same place.

    What mailboxes on a database use unless they are given a resolver. One mailbox serves all who
    use it at the same time; those that were used last are kept, since senders come again.
    """

    def __init__(self, place: str, open_: Callable[[str], Mailbox[Any, Any]]) -> None:
        self.place = place
        self._open = open_
        self._lock = threading.Lock()
        # Senders may have a mailbox for each request: those of the past must not pile up.
        self._opened: WeakValueDictionary[str, Mailbox[Any, Any]] = WeakValueDictionary()
        self._latest: deque[Mailbox[Any, Any]] = deque(maxlen=_KEPT)

    def resolve(self, identifier: str) -> Mailbox[Any, Any]:
        found = self._opened.get(identifier)
        if found is not None:
            return found
        with self._lock:
            found = self._opened.get(identifier)
            if found is None:
                found = self._opened[identifier] = self._open(identifier)
                self._latest.append(found)
            return found

    def resolve_optional(self, identifier: str) -> Mailbox[Any, Any] | None:
        return self.resolve(identifier)

    def require_reachable(self, mailbox: Mailbox[Any, Any]) -> None:
        """Raises MailboxResolutionError if receivers would look for it in vain."""
        place = getattr(mailbox, "place", None)
        if place != self.place:
            raise MailboxResolutionError(
                mailbox.name,
                f"receivers would look for {mailbox.name!r} at {self.place}, where this "
                "reply_to is not: use a mailbox at the same place, or open this one with a "
                "reply_resolver that knows it",
            )

    def close(self) -> None:
        with self._lock:
            opened = list(self._opened.values())
            self._opened.clear()
            self._latest.clear()
        for each in opened:
            each.close()
