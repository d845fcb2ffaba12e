"""Server-sent events, as a client reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

#: What a stream ends with.
ENDS = ("done", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """Something that happened in a turn; the reference of the turn API has all names."""

    name: str
    #: Where to go on after it.
    id: str
    data: dict[str, Any]

    @property
    def is_end(self) -> bool:
        return self.name in ENDS


@dataclass
class EventReader:
    """Bytes in any pieces to events. What a cut leaves unfinished is never an event."""

    _rest: bytes = b""
    _fields: dict[str, str] = field(default_factory=dict)

    def read(self, piece: bytes) -> Iterator[StreamEvent]:
        # Not str.splitlines: text may hold letters that it takes for line ends.
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            event = self._line(line.rstrip(b"\r").decode())
            if event is not None:
                yield event

    def _line(self, line: str) -> StreamEvent | None:
        if not line:
            fields, self._fields = self._fields, {}
            return _event(fields)
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data" and "data" in self._fields:
            self._fields["data"] += "\n" + value
        elif name:
            self._fields[name] = value
        return None


def _event(fields: dict[str, str]) -> StreamEvent | None:
    if "data" not in fields:
        return None
    data = msgspec.json.decode(fields["data"])
    return StreamEvent(fields.get("event", "message"), fields.get("id", ""), data)
