"""What a loop with durable turns has beside other loops."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast
from weakref import WeakValueDictionary

from afl.agents.recording import TurnSuspended
from afl.clock import Clock
from afl.error_text import text_of
from afl.errors import AflError, StoreClosed, StoreUnavailable
from afl.log import get_logger
from afl.loops.durable import Durability, DurableTurns
from afl.loops.durable_mailbox import DurableMailbox
from afl.loops.hand_over import HandOver
from afl.mailbox.api import Mailbox, Message
from afl.mailbox.late_mailbox import Find, LateMailbox

_log = get_logger(__name__)

#: How long a drain waits for turns to come to a boundary before it takes them. There may be no more
#: than some tenths of a second for all of it.
_BOUNDARY_S = 0.2
#: How long who looks after due turns pauses: when one is due, until somebody has had time to take
#: it; and when the store cannot be reached.
_PAUSE_S = 0.1
_OUTAGE_S = 1.0
#: How often old turns are deleted.
_PRUNE_S = 3600.0


@dataclass(frozen=True)
class LoopFacts:
    """What must be known about the loop."""

    name: str
    worker_id: str
    requests: Mailbox[Any, Any]
    responses: Mailbox[Any, Any] | None
    lease_s: float
    clock: Clock
    #: Makes the reply for a turn that did not come to its end.
    failure: Callable[[Message[Any, Any], BaseException, str], Any]


class DurableFront:
    """Brings turns of a store to a loop, and leaves them there when it stops."""

    def __init__(self, options: Durability, loop: LoopFacts) -> None:
        self._options = options
        self._loop = loop
        self._store = options.store
        #: Mailboxes that wait for replies, as long as anybody else has them.
        self._known: WeakValueDictionary[str, Mailbox[Any, Any]] = WeakValueDictionary()
        self.turns = DurableTurns(options, loop.name, loop.lease_s, loop.clock)
        self.mailbox = DurableMailbox(
            loop.requests, self.turns, loop.name, loop.worker_id, self._resolve, self._tell
        )
        self._hand_over = HandOver(self.turns, loop.name, loop.worker_id, loop.clock)

    @property
    def is_streaming(self) -> bool:
        return self._options.is_streaming

    def suspend_all(self) -> None:
        """Let each turn be left at its next boundary if it comes soon; seal those that stay, and
        give their messages back."""
        self._hand_over.leave()
        self.turns.request_suspend("is suspended: the process that did it stops")
        if not self.turns.wait_until_none(_BOUNDARY_S):
            self.mailbox.release_all(self.turns.messages)

    # Replies

    def remember(self, message: Message[Any, Any]) -> None:
        """Its sender may have to be told later, without it."""
        if message.reply_to is not None:
            self._known[message.reply_to.name] = message.reply_to

    def _resolve(self, name: str) -> Mailbox[Any, Any] | None:
        known = self._known.get(name)
        find: Find | None = getattr(self._loop.requests, "find", None)
        if known is not None or find is None:
            return known
        try:
            return find(name)
        except (StoreUnavailable, OSError):
            # The turn can go on; its answer waits until there is a way to send it.
            return cast("Mailbox[Any, Any]", LateMailbox(name, find))

    def _tell(self, message: Message[Any, Any], suspended: TurnSuspended) -> None:
        target = message.reply_to or self._loop.responses
        if target is None:
            return
        try:
            target.send(self._loop.failure(message, suspended, text_of(suspended)))
        except (AflError, OSError) as problem:
            # Its turn is safe; the answer itself is still to come.
            _log.warning("suspension_not_told", message=message.id, error=str(problem))

    # Due turns

    @contextmanager
    def handing_over(self, stop: threading.Event) -> Iterator[None]:
        """Be ready for turns of others until the stop; then look for somebody who takes those that
        are in hand."""
        with self._hand_over.going_on(stop, self.mailbox.has_received):
            yield

    @contextmanager
    def watching(self, look: Callable[[], object]) -> Iterator[None]:
        """Call `look` whenever a turn is due, on a thread of its own."""
        self.turns.allow()
        self.mailbox.outage = None
        over = threading.Event()
        watcher = threading.Thread(
            target=self._watch, args=(look, over), name=f"turns-{self._loop.name}", daemon=True
        )
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()

    def _watch(self, look: Callable[[], object], over: threading.Event) -> None:
        clock = self._loop.clock
        prune_at = clock.monotonic()
        while not over.is_set():
            try:
                if clock.monotonic() >= prune_at:
                    self._prune()
                    prune_at = clock.monotonic() + _PRUNE_S
                if self._store.wait_due(self._loop.name, _PRUNE_S, over):
                    look()
                    clock.wait(over, _PAUSE_S)
            except StoreClosed:
                return
            except StoreUnavailable as problem:
                _log.warning("due_turns_unknown", loop=self._loop.name, error=str(problem))
                clock.wait(over, _OUTAGE_S)

    def _prune(self) -> None:
        retention = self._options.retention
        if retention is not None:
            self._store.prune(self._store.now_ms() - round(retention.total_seconds() * 1000))
