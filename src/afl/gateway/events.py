"""What clients see of a turn while it goes on: journal and deltas as events, by one table.

Callers see what the agent says, which tools it uses and what it waits for. What is inside, the
arguments and results of tools, memory and notes, is for operators: tools return what the model
needs to know, and that is often more than whoever asks may.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from afl.gateway.places import END, place_of
from afl.turns.api import Delta, Entry, Kind, TurnRecord, TurnState
from afl.turns.replay import intent_of
from afl.turns.values import decode

Data = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream. `data` can be JSON."""

    name: str
    #: Where to go on after it.
    id: str
    data: Data


@dataclass(frozen=True, slots=True)
class View:
    """How much somebody sees."""

    is_inside: bool = False
    #: The right to let the turn go on, if it is suspended now, at this entry.
    resume_token: str | None = None
    suspended_at: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """How one kind of entry is shown; `is_inside`: only to those who see that."""

    name: str
    meaning: str
    show: Callable[[Entry, View], Data]
    is_inside: bool = False


def _model(entry: Entry, view: View) -> Data:
    value = decode(entry.value)
    data: Data = {"call_id": entry.call_id, "model": entry.name, **said_in(value)}
    return {**data, "answer": value} if view.is_inside else data


def said_in(answer: Any) -> Data:
    """Text, tools and tokens of an answer, in the form in which agents keep them; of other ones
    only text is known, and only if they are nothing else."""
    if isinstance(answer, Mapping) and isinstance(answer.get("parts"), list):
        parts = [each for each in answer["parts"] if isinstance(each, list) and len(each) == 2]
        texts = [part["text"] for kind, part in parts if kind == "text"]
        tools = [part for kind, part in parts if kind == "tool_call"]
        return {
            "text": "".join(texts),
            "tools": [{"call_id": each["id"], "name": each["name"]} for each in tools],
            "stop": answer.get("stop"),
            "usage": answer.get("usage"),
        }
    text = answer if isinstance(answer, str) else None
    return {"text": text, "tools": [], "stop": None, "usage": None}


def _started(entry: Entry, view: View) -> Data:
    if not view.is_inside:
        return _call(entry)
    intent = intent_of(entry)
    return {**_call(entry), "arguments": intent.arguments, "idempotency_key": intent.key}


def _call(entry: Entry) -> Data:
    return {"call_id": entry.call_id, "tool": entry.name}


def _with(name: str) -> Callable[[Entry, View], Data]:
    """About a call of a tool, with the value of the entry for those who see what is inside."""

    def show(entry: Entry, view: View) -> Data:
        inside = {name: decode(entry.value)} if view.is_inside else {}
        return {**_call(entry), **inside}

    return show


def _value(entry: Entry, view: View) -> Data:  # noqa: ARG001 - as all others
    return {"value": decode(entry.value)}


def _asked(entry: Entry, view: View) -> Data:  # noqa: ARG001
    value = decode(entry.value)
    due_in = value["due_in"]
    until = None if due_in is None else entry.at + due_in
    return {
        "for": "answer",
        "call_id": entry.call_id,
        "question": value["question"],
        "until": until,
    }


def _slept(entry: Entry, view: View) -> Data:  # noqa: ARG001
    return {"for": "time", "call_id": entry.call_id, "until": decode(entry.value)}


def _given(entry: Entry, view: View) -> Data:
    is_given = entry.kind is Kind.INPUT_GIVEN
    data = {"call_id": entry.call_id, "is_given": is_given}
    return {**data, "answer": decode(entry.value)} if view.is_inside and is_given else data


def _sealed(entry: Entry, view: View) -> Data:
    token = view.resume_token if entry.seq == view.suspended_at else None
    return {"reason": decode(entry.value), "is_recoverable": True, "resume_token": token}


def _restarted(entry: Entry, view: View) -> Data:  # noqa: ARG001
    return {"kept": str(decode(entry.value))}


_WAITING = "it waits: `for` an `answer` to its `question`, or for a `time`"
_INPUT = "the question has its answer; or, if not `is_given`, nobody answered in time"

#: Kinds of entries that are not here are shown to nobody.
ROWS: Mapping[Kind, Row] = {
    Kind.MODEL: Row("model", "a model has answered: the whole `text` of this call", _model),
    Kind.TOOL_INTENT: Row("tool_started", "a tool is about to be used", _started),
    Kind.TOOL_DONE: Row("tool_finished", "it has done its work", _with("result")),
    Kind.TOOL_FAILED: Row("tool_failed", "it says that it did not work", _with("error")),
    Kind.TOOL_UNKNOWN: Row(
        "tool_unknown", "nobody knows whether it did: a person must say so", _with("intent")
    ),
    Kind.MEMORY: Row("memory", "the agent remembers something", _value, is_inside=True),
    Kind.NOTE: Row("note", "a remark for whoever looks", _value, is_inside=True),
    Kind.SLEEP: Row("waiting", _WAITING, _slept),
    Kind.INPUT_ASKED: Row("waiting", _WAITING, _asked),
    Kind.INPUT_GIVEN: Row("input", _INPUT, _given),
    Kind.INPUT_EXPIRED: Row("input", _INPUT, _given),
    Kind.SEAL: Row(
        "suspended",
        "the process that did it stops, and it goes on elsewhere; the token lets it go on now",
        _sealed,
    ),
    Kind.HANDED_OVER: Row("handed_over", "another process goes on with it", _value, is_inside=True),
    Kind.RESTART: Row(
        "restarted",
        "what does not fit the code is set aside: all behind the entry `kept`",
        _restarted,
    ),
}

#: What does not come from an entry.
OTHERS = {
    "delta": "a piece of what a model says, before its whole answer",
    "superseded": "all pieces of this call so far, from the event `from` on, are void",
    "done": "the turn is over: its `result`",
    "failed": "the turn is over: the `reason`",
    "cancelled": "the turn is over: the `reason`",
}


def event_of(entry: Entry, view: View) -> Event | None:
    """None if it is not shown."""
    row = ROWS.get(entry.kind)
    if row is None or (row.is_inside and not view.is_inside):
        return None
    return Event(row.name, str(place_of(entry)), {"at": entry.at, **row.show(entry, view)})


def piece_of(delta: Delta, void_from: str | None) -> Event:
    place = str(place_of(delta))
    if delta.text is None:
        return Event("superseded", place, {"call_id": delta.call_id, "from": void_from})
    return Event("delta", place, {"call_id": delta.call_id, "text": delta.text})


def end_of(turn: TurnRecord, result: Any) -> Event:
    data: Data = {"at": turn.ended, "state": turn.state.value, "reason": turn.reason}
    if turn.state is TurnState.DONE:
        data["result"] = result
    return Event(turn.state.value, END, data)
