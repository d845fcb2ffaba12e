"""From a URL to the mailboxes that are there. Drivers are imported when they are wanted."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any

from afl.db.drivers import driver_wanted
from afl.db.urls import hint
from afl.errors import ConfigurationError
from afl.log import redact
from afl.mailbox.named import NamedMailbox
from afl.mailbox.resolver import MailboxResolver, NeighbourResolver

_BACKENDS = {
    "memory": "afl.mailbox.memory",
    "sqlite": "afl.mailbox.sqlite",
    "postgresql": "afl.mailbox.postgres",
    "postgres": "afl.mailbox.postgres",
    "redis": "afl.mailbox.redis",
    "rediss": "afl.mailbox.redis",
}
_FORMS = (
    "expected memory: for mailboxes that die with the process, sqlite:///relative/path.db, "
    "sqlite:////absolute/path.db, postgresql://user@host/database or redis://host:6379/0"
)


def open_mailbox(
    url: str,
    name: str = "default",
    *,
    body_type: Any = None,
    max_size: int | None = None,
    reply_resolver: MailboxResolver[Any, Any] | None = None,
) -> NamedMailbox[Any, Any]:
    """The mailbox with this name at a URL; whoever opens it again shares its messages.

    `body_type` is what bodies are checked against: a dataclass, a msgspec struct, or any other
    type that msgspec reads; None for plain JSON values. `max_size` is how many messages there may
    be. `reply_resolver` finds mailboxes that wait for replies; unless it is given, they are at
    this URL too.

    Raises ConfigurationError for a URL that names no place, if its driver is not installed, and
    for a name that is no text of at most 500 characters; StoreUnavailable if the place cannot be
    reached.
    """
    open_box = partial(_backend(url).open_box, url)
    return NamedMailbox(
        open_box,
        name,
        body_type=body_type,
        max_size=max_size,
        reply_resolver=reply_resolver,
    )


def mailbox_names(url: str) -> list[str]:
    """Names of all mailboxes at a URL that hold messages or dead letters, sorted.

    Raises what `open_mailbox` raises.
    """
    names: list[str] = _backend(url).box_names(url)
    return names


@dataclass(frozen=True, slots=True)
class UrlMailboxFactory:
    """Opens mailboxes at one URL, for a `CompositeResolver`. A name is one mailbox for all who use
    it at the same time; all are closed with the last mailbox that has the resolver."""

    url: str
    _neighbours: NeighbourResolver[NamedMailbox[Any, Any]] = field(
        init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        neighbours = NeighbourResolver(redact(self.url), partial(open_mailbox, self.url))
        object.__setattr__(self, "_neighbours", neighbours)

    def create(self, identifier: str) -> NamedMailbox[Any, Any]:
        return self._neighbours.resolve(identifier)

    def hold(self) -> None:
        self._neighbours.hold()

    def close(self) -> None:
        self._neighbours.close()


def _backend(url: str) -> Any:
    module = _BACKENDS.get(url.partition(":")[0].lower()) if ":" in url else None
    if module is None:
        raise ConfigurationError(
            f"{redact(url)!r} is no place for mailboxes; {_FORMS}{hint(url, _BACKENDS)}"
        )
    with driver_wanted(url):
        return import_module(module)
