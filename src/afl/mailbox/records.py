"""Records for people, made of what a box holds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from afl.mailbox.api import DeadLetter, Peeked
from afl.mailbox.box import Buried, Waiting


def moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def type_name(error: BaseException) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}"


def dead_letter_of(buried: Buried[Any], body: Any, mailbox: str) -> DeadLetter[Any]:
    return DeadLetter(
        message_id=buried.id,
        body=body,
        source_mailbox=mailbox,
        delivery_count=buried.deliveries,
        last_error=buried.burial.reason,
        last_error_type=buried.burial.error_type,
        dead_lettered_at=moment(buried.buried_ms),
        first_received_at=moment(buried.first_taken_ms),
        enqueued_at=moment(buried.enqueued_ms),
        request_id=request_id_of(body),
        reply_to=buried.reply_to,
        trace_id=trace_id_of(body),
    )


def peeked_of(waiting: Waiting[Any], body: Any) -> Peeked[Any]:
    return Peeked(
        message_id=waiting.id,
        body=body,
        delivery_count=waiting.deliveries,
        enqueued_at=moment(waiting.enqueued_ms),
        hidden_s=waiting.hidden_ms / 1000,
        reply_to=waiting.reply_to,
    )


def request_id_of(body: Any) -> str | None:
    """Requests that carry an id of their own are found again by it."""
    return _text(_fact(body, "request_id"))


def trace_id_of(body: Any) -> str | None:
    return _text(_fact(_fact(body, "run_context"), "trace_id") or _fact(body, "trace_id"))


def _fact(body: Any, name: str) -> Any:
    return body.get(name) if isinstance(body, Mapping) else getattr(body, name, None)


def _text(fact: Any) -> str | None:
    return None if fact is None else str(fact)
