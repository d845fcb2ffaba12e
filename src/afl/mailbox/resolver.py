"""From the name of a mailbox to the mailbox: how a reply finds its way out of this process."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable
from weakref import WeakValueDictionary, ref

from afl.db.forks import ForkSafeLock
from afl.log import get_logger
from afl.mailbox.api import Mailbox
from afl.mailbox.box import Box
from afl.mailbox.errors import MailboxResolutionError

T = TypeVar("T")
R = TypeVar("R")
M = TypeVar("M", bound="_OnBox")

_log = get_logger(__name__)

_KEPT = 64
_forking = ForkSafeLock()


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


@runtime_checkable
class Keeper(Protocol):
    """What resolvers and factories also have that open mailboxes and keep them: they close them
    with the last mailbox whose messages are answered through them."""

    def hold(self) -> None:
        """Count one more holder, who will call `close`."""

    def close(self) -> None: ...


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

    def hold(self) -> None:
        if isinstance(self.factory, Keeper):
            self.factory.hold()

    def close(self) -> None:
        """Let go of what the factory keeps. The registry is of who made it."""
        if isinstance(self.factory, Keeper):
            self.factory.close()


class _OnBox(Mailbox[Any, Any], Protocol):
    @property
    def box(self) -> Box[Any]: ...


class NeighbourResolver(Generic[M]):
    """Knows every name: `open_` opens the mailbox at the same place.

    What mailboxes on a database use unless they are given a resolver. One mailbox serves all who
    use it at the same time; those that were used last are kept, since senders come again.
    """

    def __init__(self, place: str, open_: Callable[[str], M]) -> None:
        self.place = place
        self._open = open_
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        # Senders may have a mailbox for each request: those of the past must not pile up.
        self._opened: WeakValueDictionary[str, M] = WeakValueDictionary()
        self._latest: deque[M] = deque(maxlen=_KEPT)
        #: Of all that were opened. Who finds that nobody has a mailbox any more is the collector,
        #: in the middle of anything, also of what has the locks that closing takes: so boxes are
        #: closed by who comes here next.
        self._boxes: list[tuple[ref[M], Box[Any]]] = []
        self._pid = os.getpid()

    def resolve(self, identifier: str) -> M:
        self._begin_if_forked()
        found = self._usable(identifier)
        if found is not None:
            return found
        with self._lock:
            found = self._usable(identifier)
            if found is None:
                found = self._opened[identifier] = self._open(identifier)
                self._latest.append(found)
                self._boxes.append((ref(found), found.box))
            dropped = self._dropped()
        _close_all(dropped)
        return found

    def resolve_optional(self, identifier: str) -> M | None:
        return self.resolve(identifier)

    def _begin_if_forked(self) -> None:
        """What was opened before a fork is the parent's."""
        if self._pid != os.getpid():
            with _forking:
                if self._pid != os.getpid():
                    self._begin()

    def _usable(self, identifier: str) -> M | None:
        found = self._opened.get(identifier)
        return None if found is None or found.closed else found

    def _dropped(self) -> list[Box[Any]]:
        """Takes out what it gives."""
        boxes, self._boxes = self._boxes, []
        dropped = []
        for mailbox, box in boxes:
            if mailbox() is None:
                dropped.append(box)
            else:
                self._boxes.append((mailbox, box))
        return dropped

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

    def hold(self) -> None:
        self._begin_if_forked()
        with self._lock:
            self._holders += 1

    def close(self) -> None:
        self._begin_if_forked()
        with self._lock:
            self._holders = max(self._holders - 1, 0)
            if self._holders:
                return
            boxes, self._boxes = self._boxes, []
            self._opened.clear()
            self._latest.clear()
        _close_all([mailbox() or box for mailbox, box in boxes])


def _close_all(opened: Sequence[_OnBox | Box[Any]]) -> None:
    for each in opened:
        try:
            each.close()
        except Exception:  # it is not what was asked for here
            _log.exception("mailbox_not_closed", mailbox=each.name)
