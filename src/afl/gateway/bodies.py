"""What goes in and out, as types: the OpenAPI document is made of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from afl.operations.turns import Question
from afl.turns.api import TurnRecord, TurnState
from afl.turns.values import decode

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_NAME = 200


class NewTurnBody(Struct, forbid_unknown_fields=True):
    """A request to an agent."""

    #: Name of the loop that is to do it.
    loop: Annotated[str, Meta(min_length=1, max_length=_MAX_NAME)]
    #: What is asked, in the form that the loop wants.
    request: Any


class InputBody(Struct, forbid_unknown_fields=True):
    """The answer to a question of a turn."""

    answer: Any
    #: Which question; the last one if it is not given.
    call_id: Annotated[str, Meta(max_length=_MAX_NAME)] = ""


class ResumeBody(Struct, forbid_unknown_fields=True):
    """The right to let a turn go on."""

    token: Annotated[str, Meta(min_length=1, max_length=2000)]


class Links(Struct):
    """Where a turn can be looked at, followed and answered; relative to this server."""

    self: str
    events: str
    input: str


class QuestionBody(Struct):
    """What a turn waits to be told."""

    call_id: str
    question: Any
    since: datetime
    until: datetime | None


class TurnBody(Struct):
    """A turn, as it is now."""

    id: str
    loop: str
    state: TurnState
    #: Why it is in its state.
    reason: str
    #: The idempotency key that it came with; None if it came in another way.
    key: str | None
    #: How often it was begun.
    attempt: int
    #: Entries in its journal.
    entries: int
    created: datetime
    changed: datetime
    ended: datetime | None
    links: Links
    #: The answer, once it is done.
    result: Any = None
    #: The question that it waits for, if it does.
    waiting: QuestionBody | None = None
    #: Lets it go on, if it is suspended.
    resume_token: str | None = None


class TurnsBody(Struct):
    """Turns, the newest first."""

    turns: list[TurnBody]


class ProblemBody(Struct):
    """RFC 9457. There may be more members."""

    type: str
    title: str
    status: int
    detail: str


def turn_body(
    turn: TurnRecord,
    *,
    key: str | None,
    result: bytes | None = None,
    waiting: Question | None = None,
    resume_token: str | None = None,
) -> TurnBody:
    here = f"/turns/{turn.id}"
    return TurnBody(
        turn.id,
        turn.loop,
        turn.state,
        turn.reason,
        key,
        turn.attempt,
        turn.seq,
        _time(turn.created),
        _time(turn.changed),
        None if turn.ended is None else _time(turn.ended),
        Links(here, f"{here}/events", f"{here}/input"),
        None if result is None else decode(result),
        None if waiting is None else _question(waiting),
        resume_token,
    )


def given_key(turn: TurnRecord) -> str | None:
    """The idempotency key as whoever gave it over HTTP knows it."""
    parts = (turn.key or "").split(":", 2)
    return parts[2] if parts[0] == "http" and len(parts) == 3 else None


def _question(asked: Question) -> QuestionBody:
    until = None if asked.until is None else _time(asked.until)
    return QuestionBody(asked.call_id, asked.question, _time(asked.since), until)


def _time(ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=ms)


def json_of(body: Any) -> bytes:
    return msgspec.json.encode(body)
