"""Turns that a store brings back, as messages: loops need not know the difference."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from afl.mailbox.api import Mailbox, Message
from afl.turns.api import Pause, TurnRecord, TurnState, TurnStore
from afl.turns.errors import StaleTurn

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class TurnMessage(Message[Any, Any]):
    """A turn that was claimed from its store."""

    record: TurnRecord = field(kw_only=True)
    #: It was left here, in good order: what is said about that is true.
    is_left: bool = field(default=False, kw_only=True)

    def acknowledge(self) -> None:
        """A turn that was left is for others: they may have ended it by now."""
        if self.is_left:
            self._is_finalized = True
        else:
            Message.acknowledge(self)


class TurnHolder:
    """What becomes of the turn when its message ends."""

    def __init__(self, store: TurnStore, record: TurnRecord) -> None:
        self._store = store
        self._record = record

    def acknowledge(self, handle: str) -> None:  # noqa: ARG002 - there is one turn
        self._store.answered(self._record.id)

    def nack(self, handle: str, delay_s: float) -> None:  # noqa: ARG002
        barren = self._record.barren
        pause = Pause(
            TurnState.SUSPENDED, "it is tried again", _ms(delay_s), is_failure=True, barren=barren
        )
        self._leave(pause)

    def release(self, handle: str) -> None:  # noqa: ARG002
        self._leave(Pause(TurnState.SUSPENDED, "it was given back", 0))

    def extend(self, handle: str, timeout_s: float) -> None:  # noqa: ARG002
        self._store.extend([self._record.claim], _ms(timeout_s))

    def _leave(self, pause: Pause) -> None:
        try:
            self._store.pause(self._record.claim, pause)
        except StaleTurn:
            return  # it was left, or ended, in another way


def message_of(
    store: TurnStore, record: TurnRecord, request: Any, reply_to: Mailbox[Any, Any] | None
) -> TurnMessage:
    return TurnMessage(
        id=record.id,
        body=request,
        receipt_handle=f"{record.id}:{record.fence}",
        # How often it was begun in vain: a turn that fails each time, or ends its process, is
        # found.
        delivery_count=max(record.barren, 1),
        enqueued_at=_EPOCH + timedelta(milliseconds=record.created),
        reply_to=reply_to,
        _holder=TurnHolder(store, record),
        record=record,
    )


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
