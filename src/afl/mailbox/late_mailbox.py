"""A mailbox for replies that cannot be found while its place cannot be reached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from afl.mailbox.api import Mailbox
from afl.mailbox.deliveries import reaching
from afl.mailbox.errors import MailboxConnectionError, MailboxResolutionError

Find = Callable[[str], Mailbox[Any, Any] | None]


class LateMailbox:
    """Is looked for whenever it is used. Like any other, it raises StoreUnavailable in an outage:
    so a reply waits for its end, and not the turn."""

    def __init__(self, name: str, find: Find) -> None:
        self.name = name
        self._find = find

    def send(self, body: Any, *, reply_to: Mailbox[Any, Any] | None = None) -> str:
        return self._found().send(body, reply_to=reply_to)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._found(), name)

    @reaching
    def _found(self) -> Mailbox[Any, Any]:
        try:
            found = self._find(self.name)
        except OSError as error:
            raise MailboxConnectionError(str(error)) from error
        if found is None:
            raise MailboxResolutionError(self.name)
        return found
