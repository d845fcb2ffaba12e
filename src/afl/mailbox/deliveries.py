"""The messages that this process has in hand, and how they end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from queue import SimpleQueue
from threading import Lock, Thread, get_ident
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar
from weakref import ref

from afl.errors import StoreClosed, StoreUnavailable
from afl.mailbox.api import Message
from afl.mailbox.box import Box, Burial, Handle
from afl.mailbox.errors import (
    MailboxClosedError,
    MailboxConnectionError,
    MailboxError,
    ReceiptHandleExpiredError,
)

A = ParamSpec("A")
P = TypeVar("P")
S = TypeVar("S")
V = TypeVar("V")


def reaching(method: Callable[Concatenate[S, A], V]) -> Callable[Concatenate[S, A], V]:
    """Outages of the place where messages are kept are outages of the mailbox."""

    @wraps(method)
    def reached(self: S, /, *args: A.args, **kwargs: A.kwargs) -> V:
        try:
            return method(self, *args, **kwargs)
        except MailboxError:
            raise
        except StoreUnavailable as error:
            raise MailboxConnectionError(str(error)) from error
        except StoreClosed as error:
            raise MailboxClosedError(str(error)) from error

    return reached


class Deliveries(Generic[P]):
    """What was received from a box and has not ended yet.

    The box is let go of when the mailbox was closed and nothing is in hand any more: a turn that
    was begun can be finished.
    """

    def __init__(self, box: Box[P], let_go: Callable[[], None]) -> None:
        self._box = box
        self._let_go = let_go
        self._is_closing = False
        # Weak: who drops a message leaves it to the end of its lease.
        self._in_hand: dict[str, ref[Message[Any, Any]]] = {}
        #: Threads that are about to have more.
        self._receiving: set[int] = set()
        #: Of messages that were dropped after the mailbox was closed.
        self._drops: SimpleQueue[None] = SimpleQueue()
        # Each is taken once.
        self._may_let_go, self._may_watch = Lock(), Lock()

    def add(self, message: Message[Any, Any]) -> None:
        handle = message.receipt_handle
        self._in_hand[handle] = ref(message, partial(self._dropped, handle))

    def begin_receiving(self) -> bool:
        """Whether more may be received; until `end_receiving` the box is not let go of."""
        # In this order: either we see that it is closing, or who closes sees us.
        self._receiving.add(get_ident())
        return not self._is_closing

    def end_receiving(self) -> None:
        self._receiving.discard(get_ident())
        self._let_go_if_idle()

    def close(self) -> None:
        self._is_closing = True
        self._let_go_if_idle()

    # What messages ask for

    @reaching
    def acknowledge(self, handle: str) -> None:
        self._ended(handle, self._box.finish(handle_of(handle)))

    @reaching
    def nack(self, handle: str, delay_s: float) -> None:
        delay_ms = round(delay_s * 1000)
        (is_good,) = self._box.give_back([handle_of(handle)], delay_ms=delay_ms, is_counted=True)
        self._ended(handle, is_good)

    @reaching
    def release(self, handle: str) -> None:
        (is_good,) = self._box.give_back([handle_of(handle)])
        self._ended(handle, is_good)

    @reaching
    def extend(self, handle: str, timeout_s: float) -> None:
        (is_good,) = self._box.extend([handle_of(handle)], round(timeout_s * 1000))
        if not is_good:
            self._ended(handle, is_good)

    # For many at once

    def bury(self, handle: str, burial: Burial) -> None:
        self._ended(handle, self._box.bury(handle_of(handle), burial))

    def extend_all(self, handles: Sequence[str], timeout_s: float) -> list[bool]:
        held = [handle_of(each) for each in handles]
        return self._box.extend(held, round(timeout_s * 1000)) if held else []

    def release_all(self, handles: Sequence[str]) -> None:
        if handles:
            self._box.give_back([handle_of(each) for each in handles])
        for each in handles:
            self._in_hand.pop(each, None)
        self._let_go_if_idle()

    def _ended(self, handle: str, is_good: bool) -> None:
        self._in_hand.pop(handle, None)
        self._let_go_if_idle()
        if not is_good:
            raise ReceiptHandleExpiredError(
                f"the delivery {handle} is over: it was ended, or its lease ran out and somebody "
                "else has the message now; what was done about it does not count"
            )

    def _let_go_if_idle(self) -> None:
        if not self._is_closing or self._receiving:
            return
        if self._in_hand:
            self._watch()
        elif self._may_let_go.acquire(blocking=False):
            self._drops.put(None)  # who watches has nothing more to do
            self._let_go()

    # Messages that nobody has any more

    def _dropped(self, handle: str, _: ref[Message[Any, Any]]) -> None:
        # The collector comes here, and it may come in the middle of anything: this takes no locks,
        # and another thread does what does.
        self._in_hand.pop(handle, None)
        if self._is_closing:
            self._drops.put(None)

    def _watch(self) -> None:
        if self._may_watch.acquire(blocking=False):
            Thread(target=self._let_go_of_dropped, name="afl-mailbox-closing", daemon=True).start()

    def _let_go_of_dropped(self) -> None:
        while self._in_hand:
            self._drops.get()
        self._let_go_if_idle()


def handle_text(message_id: str, fence: int) -> str:
    return f"{message_id}:{fence}"


def handle_of(text: str) -> Handle:
    message_id, _, fence = text.rpartition(":")
    # What is no number was never given to anybody.
    return Handle(message_id, int(fence) if fence.isdecimal() else -1)
