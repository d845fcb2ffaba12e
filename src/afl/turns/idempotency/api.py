"""Idempotency keys on the side that acts: the same key acts once, however often it comes.

- Who comes first with a key acts; the answer is kept for the window, and given to all others.
- The same key with another request is refused.
- Twins that come meanwhile wait. A holder that died holds the key no longer than its lease.

Where keys are kept needs to compare and swap one value, and nothing else: see `Cells`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import msgspec

from afl.errors import ConfigurationError, Conflict
from afl.ids import new_id
from afl.turns.errors import KeyReused, TurnError

DAY_S = 24 * 3600.0


class Cells(Protocol):
    """Values that are changed if they are what they were. Safe from any thread."""

    def get(self, key: str) -> bytes | None: ...

    def swap(self, key: str, old: bytes | None, new: bytes | None, ttl_ms: int) -> bool:
        """Put `new`, for this time, in the place of `old`; whether `old` was there. None is
        nothing, and so is what is older than its time."""

    def now_ms(self) -> int:
        """The time of the place."""

    def close(self) -> None: ...


class KeyBusy(TurnError, Conflict):  # noqa: N818 - what happened is what callers catch
    """A twin of the request is being done. It ends, or its lease does, within `seconds_left`."""

    def __init__(self, key: str, seconds_left: float) -> None:
        self.seconds_left = seconds_left
        super().__init__(f"a request with the key {key!r} is being done")


class _Cell(msgspec.Struct, frozen=True, omit_defaults=True):
    request: str
    #: Who does it; two of them never have the same.
    holder: str
    lease_ms: int
    until: int
    answer: bytes | None = None

    def is_held(self, now: int) -> bool:
        return now < self.until <= now + self.lease_ms


@dataclass(frozen=True, slots=True)
class Held:
    """The right to act for a key."""

    key: str
    cell: _Cell


@dataclass(frozen=True, slots=True)
class Kept:
    """What was answered before."""

    answer: bytes


class IdempotencyStore:
    """`window_s` is how long answers are kept: longer than anybody may try again, and at least as
    long as agents that use it may take to drain. `lease_s` is how long a holder that says nothing
    is believed to live. Raises ConfigurationError for a window that is too short."""

    def __init__(
        self,
        cells: Cells,
        *,
        window_s: float = DAY_S,
        lease_s: float = 30.0,
        drain_deadline_s: float = 0.0,
    ) -> None:
        if window_s < max(drain_deadline_s, lease_s):
            raise ConfigurationError(
                f"answers are kept for {window_s:g} s, which must be at least the drain deadline "
                f"of {drain_deadline_s:g} s and the lease of {lease_s:g} s"
            )
        self.lease_s = lease_s
        self._cells = cells
        self._window_ms = round(window_s * 1000)
        self._lease_ms = round(lease_s * 1000)

    def begin(self, key: str, request: str) -> Held | Kept:
        """Act, or take what was answered. `request` is a hash of what is asked. Raises KeyReused,
        KeyBusy."""
        while True:
            old = self._cells.get(key)
            now = self._cells.now_ms()
            if old is not None:
                cell = _read(old)
                if cell.request != request:
                    raise KeyReused(key)
                if cell.answer is not None:
                    return Kept(cell.answer)
                if cell.is_held(now):
                    raise KeyBusy(key, (cell.until - now) / 1000)
            mine = _Cell(request, new_id(), self._lease_ms, now + self._lease_ms)
            if self._cells.swap(key, old, _written(mine), self._window_ms):
                return Held(key, mine)

    def extend(self, held: Held) -> Held | None:
        """Hold it for another lease; None if it was lost."""
        until = self._cells.now_ms() + self._lease_ms
        longer = msgspec.structs.replace(held.cell, until=until)
        return Held(held.key, longer) if self._replaced(held, longer) else None

    def finish(self, held: Held, answer: bytes) -> bool:
        """Keep the answer for all who come; False if somebody else has acted meanwhile."""
        return self._replaced(held, msgspec.structs.replace(held.cell, answer=answer))

    def _replaced(self, held: Held, new: _Cell) -> bool:
        """Whether `new` is kept. A change may have been made though nobody said so, in an outage:
        whoever finds itself as the holder goes on from that."""
        old = _written(held.cell)
        while not self._cells.swap(held.key, old, _written(new), self._window_ms):
            found = self._cells.get(held.key)
            if found is None or found == old:
                return False
            cell = _read(found)
            if cell.holder != new.holder or cell.answer is not None:
                return cell == new
            old = found
        return True

    def release(self, held: Held) -> None:
        """Nothing was done: whoever comes next acts."""
        self._cells.swap(held.key, _written(held.cell), None, 1)

    def close(self) -> None:
        self._cells.close()


def _written(cell: _Cell) -> bytes:
    return msgspec.json.encode(cell)


def _read(value: bytes) -> _Cell:
    return msgspec.json.decode(value, type=_Cell)
