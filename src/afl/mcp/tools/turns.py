"""The tool for turns of agents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from afl.errors import UsageError
from afl.gateway.outside import seen_effects, seen_turn
from afl.mcp import shapes
from afl.mcp.arguments import Arguments, Result
from afl.mcp.tool import Call, Hints, Tool, in_thread_for_caller
from afl.operations import turns
from afl.turns.api import TurnRecord

_LOOKS = ("list", "get", "effects")
_NEED_NO_TURN = ("list", "effects")


class Turns(Arguments):
    action: Annotated[
        Literal["list", "get", "effects", "answer", "resume", "settle", "cancel"],
        Meta(
            description="effects lists what may have been done or not, and waits for somebody who "
            "finds out; settle says what became of one; answer answers the question that a turn "
            "waits for."
        ),
    ] = "list"
    turn_id: str = ""
    state: Annotated[
        str,
        Meta(
            description="Of list: accepted, running, waiting, suspended, mismatched, done, failed "
            "or cancelled."
        ),
    ] = ""
    loop: Annotated[str, Meta(description="Of list: turns of this loop.")] = ""
    limit: Annotated[int, Meta(ge=1, le=200)] = 20
    before: Annotated[
        str, Meta(description="Of list: older ones than the turn of this id, the next page.")
    ] = ""
    answer: Annotated[Any, Meta(description="Of answer: the answer, any JSON.")] = UNSET
    outcome: Annotated[
        Literal["", "done", "failed", "again"],
        Meta(description="Of settle: it happened, it failed, or it did not happen and may."),
    ] = ""
    value: Annotated[
        Any, Meta(description="Of settle: what the tool returned, or why it failed.")
    ] = None
    call_id: Annotated[
        str, Meta(description="Which question or effect, if the turn has several; else the last.")
    ] = ""
    reason: Annotated[str, Meta(description="Of cancel: what whoever asked is told.")] = ""


class TurnsResult(Result):
    turns: (
        Annotated[list[dict[str, Any]], Meta(description="Of list: the newest first.")] | UnsetType
    ) = UNSET
    turn: (
        Annotated[
            dict[str, Any],
            Meta(
                description="The turn as it is now; of get, its checkpoint: what was asked, "
                "done, and is open."
            ),
        ]
        | UnsetType
    ) = UNSET
    effects: (
        Annotated[list[dict[str, Any]], Meta(description="Of effects: the oldest first.")]
        | UnsetType
    ) = UNSET


def turns_(call: Call, given: Turns) -> TurnsResult:
    if given.action not in _NEED_NO_TURN and not given.turn_id:
        raise UsageError(f"turn_id is required for {given.action}")
    return _ACTIONS[given.action](call, given)


def _list(call: Call, given: Turns) -> TurnsResult:
    found = turns.list_turns(
        call.backend.turns,
        loop=given.loop or None,
        state=given.state or None,
        limit=given.limit,
        before=given.before or None,
    )
    return TurnsResult(success=True, turns=[shapes.turn(each) for each in found])


def _get(call: Call, given: Turns) -> TurnsResult:
    found = seen_turn(call.backend.turns, given.turn_id, is_inside=call.role.sees_inside)
    return TurnsResult(success=True, turn=found)


def _effects(call: Call, given: Turns) -> TurnsResult:
    found = seen_effects(call.backend.turns, given.limit, is_inside=call.role.sees_inside)
    return TurnsResult(success=True, effects=[asdict(each) for each in found])


def _answer(call: Call, given: Turns) -> TurnsResult:
    if given.answer is UNSET:
        raise UsageError("answer is required for answer: any JSON, null as well")
    return _now(
        turns.answer_turn(call.backend.turns, given.turn_id, given.answer, question=given.call_id)
    )


def _resume(call: Call, given: Turns) -> TurnsResult:
    return _now(turns.resume_turn(call.backend.turns, given.turn_id))


def _settle(call: Call, given: Turns) -> TurnsResult:
    if not given.outcome:
        raise UsageError("outcome is required for settle: done, failed or again")
    return _now(
        turns.settle_effect(
            call.backend.turns, given.turn_id, given.outcome, given.value, call_id=given.call_id
        )
    )


def _cancel(call: Call, given: Turns) -> TurnsResult:
    return _now(turns.cancel_turn(call.backend.turns, given.turn_id, given.reason))


def _now(record: TurnRecord) -> TurnsResult:
    return TurnsResult(success=True, turn=shapes.turn(record))


_ACTIONS: dict[str, Callable[[Call, Turns], TurnsResult]] = {
    "list": _list,
    "get": _get,
    "effects": _effects,
    "answer": _answer,
    "resume": _resume,
    "settle": _settle,
    "cancel": _cancel,
}

TOOLS = (
    Tool(
        "afl_turns",
        "Look at turns of agents, and act on them",
        "Turns are requests to agents, from acceptance to answer. List them, show one with its "
        "journal, answer a question that one waits for, settle an effect of which nobody knows "
        "whether it happened, let one go on, or cancel it.",
        Turns,
        TurnsResult,
        in_thread_for_caller(turns_),
        Hints(is_destructive=True),
        lambda given: given.action not in _LOOKS,
        looks_too=True,
    ),
)
