"""What a journal says about the calls of a turn, while the code makes them again.

Calls are matched in their order: models by their place alone, since prompts may change under a
turn; tools by name and arguments. A call that is not the recorded one is a `JournalMismatch`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, takewhile
from typing import Any

import msgspec

from afl.turns.api import Entry, Kind
from afl.turns.effects import plan_key
from afl.turns.errors import JournalMismatch
from afl.turns.values import decode

_CALLS = (Kind.MODEL, Kind.TOOL_INTENT, Kind.SLEEP, Kind.INPUT_ASKED)
_FOLLOW = (
    Kind.TOOL_DONE,
    Kind.TOOL_FAILED,
    Kind.TOOL_UNKNOWN,
    Kind.TOOL_AGAIN,
    Kind.TOOL_PAUSED,
    Kind.INPUT_GIVEN,
    Kind.INPUT_EXPIRED,
)
_SAID = (Kind.MEMORY, Kind.NOTE)
_FINAL = (
    Kind.MODEL,
    Kind.TOOL_DONE,
    Kind.TOOL_FAILED,
    Kind.SLEEP,
    Kind.INPUT_GIVEN,
    Kind.INPUT_EXPIRED,
)


class Intent(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept about a tool call before it is made."""

    key: str
    #: What it is for: see `plan_key`.
    plan: str
    arguments: Any = None
    #: The call from before a restart that this one goes on with.
    instead_of: str | None = None


def intent_of(entry: Entry) -> Intent:
    return msgspec.json.decode(entry.value, type=Intent)


@dataclass(frozen=True, slots=True)
class Call:
    """One call, and the last that is known about it."""

    first: Entry
    last: Entry

    @property
    def call_id(self) -> str:
        return self.first.call_id

    @property
    def state(self) -> Kind:
        return self.last.kind

    @property
    def is_final(self) -> bool:
        """Whether nothing more is to be done about it."""
        return self.state in _FINAL

    def is_within(self, outer: Call) -> bool:
        """Whether the tool of a call that is over made this one. Its id alone does not say so:
        tools may have names like `orders/refund`. A turn makes one call at a time, so what began
        after the end of a call is not part of it."""
        is_below = self.call_id.startswith(f"{outer.call_id}/")
        return is_below and outer.first.seq < self.first.seq < outer.last.seq

    def __str__(self) -> str:
        return described(self.first.kind, self.first.name, self.first.call_id)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A call that the code makes."""

    kind: Kind
    name: str
    call_id: str
    arguments: str = ""

    def fits(self, call: Call) -> bool:
        if self.kind is Kind.MODEL or call.first.kind is Kind.MODEL:
            return self.kind is call.first.kind
        return (self.kind, self.name, self.arguments) == (
            call.first.kind,
            call.first.name,
            call.first.arguments,
        )

    def __str__(self) -> str:
        return described(self.kind, self.name, self.call_id)


_WORDS = {
    Kind.MODEL: "an answer of the model",
    Kind.TOOL_INTENT: "the tool",
    Kind.SLEEP: "a sleep",
    Kind.INPUT_ASKED: "the question",
}


def described(kind: Kind, name: str, call_id: str) -> str:
    return " ".join(each for each in (_WORDS[kind], name, f"({call_id})") if each)


class Replay:
    """Not for two threads at once."""

    def __init__(self, turn_id: str, entries: Sequence[Entry] = ()) -> None:
        self._turn_id = turn_id
        self._calls: dict[str, Call] = {}
        self._set_aside: defaultdict[str, list[Call]] = defaultdict(list)
        self._numbers: Counter[str] = Counter()
        self._used: set[str] = set()
        self._remarks: list[Entry] = []
        for each in entries:
            self._read(each)
        self._said = Counter((each.kind, each.value) for each in self._remarks)

    def _read(self, entry: Entry) -> None:
        if entry.kind in _CALLS:
            self._used.add(entry.call_id)
            self._forget_replaced(entry)
            known = self._calls.get(entry.call_id)
            # A call that is made again keeps its first entry, and its place.
            self._calls[entry.call_id] = Call(known.first if known else entry, entry)
        elif entry.kind in _FOLLOW:
            known = self._calls.get(entry.call_id) or self._aside(entry.call_id)
            if known is not None:
                self._replace(known, replace(known, last=entry))
        elif entry.kind in _SAID:
            self._remarks.append(entry)
        elif entry.kind is Kind.RESTART:
            self._restart(decode(entry.value))

    def _forget_replaced(self, entry: Entry) -> None:
        old = intent_of(entry).instead_of if entry.kind is Kind.TOOL_INTENT else None
        if old is not None:
            for calls in self._set_aside.values():
                calls[:] = [each for each in calls if each.call_id != old]

    def _replace(self, old: Call, new: Call) -> None:
        if self._calls.get(old.call_id) is old:
            self._calls[old.call_id] = new
        for calls in self._set_aside.values():
            calls[:] = [new if each is old else each for each in calls]

    def _aside(self, call_id: str) -> Call | None:
        found = (each for calls in self._set_aside.values() for each in calls)
        return next((each for each in found if each.call_id == call_id), None)

    def _restart(self, fits_until: int) -> None:
        self._remarks = [each for each in self._remarks if each.seq <= fits_until]
        for call_id, call in list(self._calls.items()):
            if call.first.seq > fits_until:
                del self._calls[call_id]
                if call.first.kind is Kind.TOOL_INTENT:
                    self._set_aside[intent_of(call.first).plan].append(call)

    @property
    def memory(self) -> list[Entry]:
        return [each for each in self._remarks if each.kind is Kind.MEMORY]

    # While the code runs

    def numbered(self, call_id: str) -> str:
        """A name for a call that no other call of the turn has: models repeat their ids."""
        self._numbers[call_id] += 1
        number = self._numbers[call_id]
        return call_id if number == 1 else f"{call_id}#{number}"

    def unused(self, call_id: str) -> str:
        """The same, unless the journal has a call of this name: one from before a restart."""
        names = chain([call_id], (f"{call_id}~{number}" for number in count(2)))
        found = next(each for each in names if each not in self._used)
        self._used.add(found)
        return found

    def take(self, wanted: Wanted) -> Call | None:
        """The recorded call; None if the journal does not go so far. Raises JournalMismatch."""
        if not self._calls:
            return None
        call = self._calls.get(wanted.call_id) or next(iter(self._calls.values()))
        if not wanted.fits(call):
            raise JournalMismatch(self._turn_id, call.first.seq, str(call), str(wanted))
        del self._calls[call.call_id]
        if call.is_final:
            self._skip_within(call)
        return call

    def _skip_within(self, outer: Call) -> None:
        """What a tool did while it ran is not asked for again once it is over."""
        # Calls are in the order of their beginnings: most have none within, and look at one.
        earlier = takewhile(lambda each: each.first.seq < outer.last.seq, self._calls.values())
        for each in [each.call_id for each in earlier if each.is_within(outer)]:
            del self._calls[each]

    def planned_before(self, wanted: Wanted) -> Call | None:
        """A tool call from before a restart that was for the same thing; once for each."""
        plan = plan_key(self._turn_id, wanted.name, wanted.arguments)
        calls = self._set_aside.get(plan)
        return calls.pop(0) if calls else None

    def was_said(self, kind: Kind, value: bytes) -> bool:
        """Whether this memory or note is in the journal; once for each time that it is."""
        self._said[kind, value] -= 1
        return self._said[kind, value] >= 0

    @property
    def left_open(self) -> list[Call]:
        """Effects from before a restart that nobody asked for again, and nobody knows about."""
        calls = (each for calls in self._set_aside.values() for each in calls)
        return [each for each in calls if each.state is Kind.TOOL_INTENT]
