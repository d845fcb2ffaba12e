"""A mailbox in the memory of one process: for tests, and for programs that may forget."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from afl.clock import SYSTEM_CLOCK, Clock
from afl.mailbox.api import Mailbox
from afl.mailbox.bodies import JsonBodies
from afl.mailbox.memory_box import MemoryBox
from afl.mailbox.memory_queue import MemoryQueue
from afl.mailbox.packing import InProcess, Letter
from afl.mailbox.stored import BoxMailbox
from afl.mailbox.texts import require_name

T = TypeVar("T")
R = TypeVar("R")

_PLACE = "an object in memory"


class InMemoryMailbox(BoxMailbox[T, R, Letter]):
    """Receivers get the bodies that were sent, the objects themselves.

    With a `body_type` they get copies that went through JSON and its check, as on every other
    backend: then what works here works there.
    """

    def __init__(
        self,
        name: str = "default",
        max_size: int | None = None,
        clock: Clock = SYSTEM_CLOCK,
        *,
        body_type: Any = None,
    ) -> None:
        bodies: JsonBodies[T] | None = None if body_type is None else JsonBodies(body_type)
        super().__init__(
            MemoryBox(require_name(name), MemoryQueue(clock), _PLACE),
            InProcess(bodies),
            max_size=max_size,
            clock=clock,
        )

    def _let_go(self) -> None:
        # There is no place to let go of: what is left can be looked at.
        self._packing.close()


@dataclass(frozen=True)
class InMemoryMailboxFactory(Generic[T, R]):
    """Makes mailboxes, and keeps them in the registry: a name is one mailbox."""

    registry: MutableMapping[str, Mailbox[T, R]] = field(default_factory=dict)

    def create(self, identifier: str) -> Mailbox[T, R]:
        # One step, so that two who ask together get the same one.
        return self.registry.setdefault(identifier, InMemoryMailbox(identifier))


#: Of all URLs and names of this process. They live as long as it does.
_queues: dict[tuple[str, str], MemoryQueue[bytes]] = {}


def open_box(url: str, name: str) -> MemoryBox[bytes]:
    """The box of this process with this name, at `memory:` or another such URL."""
    # One step, so that two who ask together get the same one.
    return MemoryBox(name, _queues.setdefault((url, name), MemoryQueue()), url)


def box_names(url: str) -> list[str]:
    """Names of boxes that hold messages or dead letters, sorted."""
    found = [(name, queue) for (place, name), queue in list(_queues.items()) if place == url]
    return sorted(name for name, queue in found if any(queue.depth()))
