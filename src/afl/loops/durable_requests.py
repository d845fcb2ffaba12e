"""Requests as turns keep them: how they are packed, read again, and told apart.

The same `request_id` is the same turn, if the same is asked for. Whoever tries a request again may
have built it anew, so when it was made, by whom, and until when it is wanted do not count.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec

from afl.error_text import text_of
from afl.errors import AflError, NotFound
from afl.loops.requests import AgentLoopRequest, request_of
from afl.mailbox.api import Message
from afl.turns.api import NewTurn, TurnRecord, TurnStore
from afl.turns.errors import KeyReused
from afl.turns.rules import turn_id_of
from afl.turns.values import decode, encode

_NO_TIME = datetime.fromtimestamp(0, UTC)


class UnreadableRequest(AflError):  # noqa: N818 - what happened is what people read
    """What a turn was asked is not what the code expects now."""


def new_turn(loop: str, message: Message[Any, Any]) -> NewTurn:
    request = request_of(message)
    reply_to = None if message.reply_to is None else message.reply_to.name
    return NewTurn(loop, _packed(request), request.request_id, reply_to)


def _packed(request: AgentLoopRequest[Any]) -> bytes:
    try:
        return msgspec.json.encode(request, order="deterministic")
    except (TypeError, ValueError, msgspec.MsgspecError):
        # Resources may be anything in a process; a turn that goes on elsewhere has those of its
        # loop there.
        return encode(replace(request, resources=None))


def request_in(store: TurnStore, record: TurnRecord, request_type: Any) -> AgentLoopRequest[Any]:
    """What a turn was asked. Raises UnreadableRequest; TypeError if nothing is of this type."""
    try:
        packed = store.value(record.request)
    except NotFound as problem:
        raise UnreadableRequest(str(problem)) from problem
    return _read(packed, request_type)


def _read(packed: bytes, request_type: Any) -> AgentLoopRequest[Any]:
    # Before anything is read: a type that cannot be is no fault of the request.
    decoder = msgspec.json.Decoder(AgentLoopRequest[request_type])
    try:
        return decoder.decode(packed)
    except Exception as problem:  # the type may have checks of its own
        raise UnreadableRequest(text_of(problem)) from problem


# The same request again


def accept(store: TurnStore, new: NewTurn, request_type: Any) -> TurnRecord:
    """Keep a new turn; the old one if its key is known. Raises KeyReused if that asks for
    something else."""
    try:
        return store.accept(new)
    except KeyReused:
        known = _known(store, new)
        if known is None:
            return store.accept(new)  # it was pruned meanwhile
        if not _is_same(known, new.request, request_type):
            raise
    # As it was asked first: to the store only that is the same.
    return store.accept(replace(new, request=known))


def _known(store: TurnStore, new: NewTurn) -> bytes | None:
    try:
        return store.value(store.get(turn_id_of(new)).request)
    except NotFound:
        return None


def _is_same(one: bytes, other: bytes, request_type: Any) -> bool:
    """Whether both ask for the same: as objects of the type that there is now, so that a field
    which was added since, with a default, makes no difference."""
    try:
        asked = [_bare(_read(each, request_type)) for each in (one, other)]
    except (UnreadableRequest, TypeError):
        return bool(decode(one) == decode(other))
    # Objects of some types equal only themselves.
    return asked[0] == asked[1] or encode(asked[0]) == encode(asked[1])


def _bare(request: AgentLoopRequest[Any]) -> AgentLoopRequest[Any]:
    """What it asks for, without what is said beside that. Its id is in the key of the turn."""
    return AgentLoopRequest(
        request.request,
        budget=request.budget,
        resources=request.resources,
        experiment=request.experiment,
        request_id="",
        created_at=_NO_TIME,
    )
