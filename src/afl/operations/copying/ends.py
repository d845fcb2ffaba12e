"""The two ends of a copy: all that is kept at one URL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

from afl.db.plain import PlainRows
from afl.errors import ConfigurationError
from afl.mailbox.moving import messages_at
from afl.operations.copying.turns import turns_in_hand
from afl.runtime.persistence import PersistenceAPI
from afl.turns.idempotency.moving import keys_at
from afl.turns.opening import open_turns
from afl.turns.stored import StoredTurns


@dataclass(frozen=True)
class End:
    store: PersistenceAPI
    #: None where no turns can be kept.
    turns: StoredTurns | None
    messages: list[PlainRows]
    keys: list[PlainRows]

    @property
    def turns_in_hand(self) -> list[str]:
        return [] if self.turns is None else turns_in_hand(self.turns)


@contextmanager
def opened(store: PersistenceAPI, url: str) -> Iterator[End]:
    """`store` is open at this URL, and stays so."""
    with ExitStack() as stack:
        turns = _open_turns(url)
        if turns is not None:
            stack.enter_context(closing(turns))
        messages = stack.enter_context(messages_at(url))
        yield End(store, turns, messages, stack.enter_context(keys_at(url)))


def _open_turns(url: str) -> StoredTurns | None:
    try:
        found = open_turns(url)
    except ConfigurationError:
        return None  # the store is open, so the URL is right: turns cannot be kept there
    assert isinstance(found, StoredTurns)
    return found
