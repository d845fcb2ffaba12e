"""Places in the stream of a turn: what clients send back to go on without a gap or a repeat."""

from __future__ import annotations

import re
from dataclasses import dataclass

from afl.errors import UsageError
from afl.turns.api import Delta, Entry

#: Behind the last event of a turn that is over.
END = "end"
#: Of all places, and of none.
PATTERN = rf"^({END}|[0-9]{{1,18}}(\.[0-9]{{1,18}})?)?$"
# As much as a database can count to.
_PLACE = re.compile(r"(\d{1,18})(?:\.(\d{1,18}))?", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """So many journal entries, and so many deltas, are known."""

    seq: int = 0
    number: int = 0

    def __str__(self) -> str:
        return f"{self.seq}.{self.number}" if self.number else str(self.seq)


START = Place()


def place_of(item: Entry | Delta) -> Place:
    if isinstance(item, Entry):
        return Place(item.seq)
    return Place(item.after, item.number)


def read_place(text: str) -> Place | None:
    """None for the end. Raises UsageError for what was never an id of ours."""
    if text == END:
        return None
    found = _PLACE.fullmatch(text)
    if found is None:
        raise UsageError(
            f"{text[:40]!r} is no place in a stream; send the id of the last event that you saw, "
            "or nothing to read from the beginning"
        )
    return Place(int(found[1]), int(found[2] or 0))
