"""Messages whose body cannot be read, for receivers who can tell their senders.

Most who receive can do nothing about such a message, so mailboxes bury it and go on. Who can asks
for them around the call: a further parameter would be unknown to mailboxes of others, and to those
who wrap or override `receive`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_are_wanted: ContextVar[bool] = ContextVar("afl_unread_wanted", default=False)


@contextmanager
def unread_too() -> Iterator[None]:
    """What is received in this block may have a `body_error`, and is ended by who receives it."""
    token = _are_wanted.set(True)
    try:
        yield
    finally:
        _are_wanted.reset(token)


def unread_are_wanted() -> bool:
    return _are_wanted.get()
