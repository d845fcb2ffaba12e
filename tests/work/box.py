"""A source as small as possible: a leased queue in memory, with fences, outages and thieves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from afl.clock import SYSTEM_CLOCK, Clock, condition_of
from afl.errors import StoreUnavailable
from afl.work.source import NO_ROOM, ClaimLost, InThread, Job, Room


@dataclass(frozen=True)
class Piece:
    """A claim of something in a box."""

    id: str
    fence: int

    @property
    def label(self) -> str:
        return f"piece {self.id}"


class End(NamedTuple):
    """What was recorded about a piece."""

    kind: str
    value: Any


@dataclass(eq=False)
class _Entry:
    id: str
    job: Job
    #: What becomes claimable when it is done.
    then: tuple[str, ...] = ()
    fence: int = 0
    is_waiting: bool = True
    is_held: bool = False
    lease_ends: float = 0.0
    claims: int = 0
    end: End | None = None


class Settled(Future[Sequence[Piece]]):
    """A recording, as a future that tests can keep open."""


@dataclass
class Calls:
    """What was asked of a box."""

    claims: list[int] = field(default_factory=list)
    rooms: list[Room] = field(default_factory=list)
    extensions: list[list[str]] = field(default_factory=list)
    releases: list[list[str]] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    waits: int = 0


def nothing(_attempt: object) -> None:
    """Work that is done at once."""


class Box:
    """Safe from any thread. What is put in comes out in that order, once for each claim."""

    def __init__(self, lease_s: float = 15.0, clock: Clock = SYSTEM_CLOCK) -> None:
        self.lease_s = lease_s
        self.calls = Calls()
        #: The source cannot be reached.
        self.is_out = False
        #: Raised by the next call of this name.
        self.faults: dict[str, Exception] = {}
        #: Recordings stay open until `settle`.
        self.is_slow = False
        self._open: list[tuple[Settled, Callable[[], Sequence[Piece]]]] = []
        self._clock = clock
        self._lock = threading.RLock()
        self._extended_again = threading.Condition(self._lock)
        self._entries: dict[str, _Entry] = {}
        self._waiters: set[threading.Event] = set()

    # For tests

    def put(
        self,
        name: str,
        call: Callable[..., Any] | Job = nothing,
        *,
        timeout_s: float | None = None,
        patience_s: float | None = None,
        then: Sequence[str] = (),
        is_held: bool = False,
    ) -> None:
        """Add a piece that is done by `call` on a thread, or as the job says."""
        job = call if isinstance(call, Job) else Job(InThread(call), timeout_s, patience_s)
        with self._lock:
            self._entries[name] = _Entry(name, job, tuple(then), is_held=is_held)
        self._ring()

    def follow(self, name: str, following: str) -> None:
        """Let one become claimable when the other is done."""
        with self._lock:
            self._entries[name].then += (following,)

    def steal(self, name: str) -> Piece:
        """Somebody else claims it, whatever its lease says."""
        with self._lock:
            return self._lent(self._entries[name], "thief")

    def end_of(self, name: str) -> End | None:
        return self._entries[name].end

    def ends(self) -> dict[str, End | None]:
        with self._lock:
            return {each.id: each.end for each in self._entries.values()}

    def claims_of(self, name: str) -> int:
        """How often it was claimed and not given back."""
        return self._entries[name].claims

    def waiting(self) -> list[str]:
        with self._lock:
            return [each.id for each in self._entries.values() if self._is_claimable(each)]

    def is_empty(self) -> bool:
        """Whether all that was put in has ended."""
        with self._lock:
            return all(each.end is not None or each.is_held for each in self._entries.values())

    def wait_for_extensions(self, count: int) -> None:
        """Until leases were renewed this often."""
        with self._extended_again:
            assert self._extended_again.wait_for(lambda: len(self.calls.extensions) >= count, 20)

    @property
    def is_waited_for(self) -> bool:
        """Whether somebody waits for work."""
        return bool(self._waiters)

    @property
    def unsettled(self) -> int:
        """How many recordings are kept open."""
        return len(self._open)

    def settle(self) -> int:
        """Let recordings that were kept open end; how many there were."""
        with self._lock:
            settled, self._open = self._open, []
        for future, apply in settled:
            _resolve(future, apply)
        return len(settled)

    # The port

    def claim(self, limit: int) -> Sequence[Piece]:
        with self._lock:
            self._reach("claim")
            self.calls.claims.append(limit)
            free = [each for each in self._entries.values() if self._is_claimable(each)]
            return [self._lent(each) for each in free[:limit]]

    def wait(self, timeout: float | None, stop: threading.Event) -> bool:
        with self._lock:
            self._reach("wait")
            self.calls.waits += 1
            self._waiters.add(stop)
        condition = condition_of(stop)
        with condition:
            self._clock.wait_for(condition, lambda: stop.is_set() or bool(self.waiting()), timeout)
        self._waiters.discard(stop)
        return bool(self.waiting()) and not stop.is_set()

    def extend(self, works: Sequence[Piece]) -> Sequence[bool]:
        with self._lock:
            self._reach("extend")
            self.calls.extensions.append([each.id for each in works])
            self._extended_again.notify_all()
            return [self._extended(each) for each in works]

    def release(self, works: Sequence[Piece]) -> None:
        with self._lock:
            self._reach("release")
            self.calls.releases.append([each.id for each in works])
            for each in works:
                if self._holds(each):
                    entry = self._entries[each.id]
                    entry.is_waiting = True
                    entry.claims -= 1
        self._ring()

    def job(self, work: Piece) -> Job:
        with self._lock:
            if (fault := self.faults.pop("job", None)) is not None:
                raise fault
            return self._entries[work.id].job

    def complete(self, work: Piece, result: Any, room: Room) -> Settled:
        with self._lock:
            self.calls.rooms.append(room)
        return self._record("complete", work, End("done", result), room)

    def fail(self, work: Piece, error: BaseException) -> Settled:
        return self._record("fail", work, End("failed", error), NO_ROOM)

    # Inside

    def _record(self, call: str, work: Piece, end: End, room: Room) -> Settled:
        with self._lock:
            self._reach(call)
        future = Settled()

        def apply() -> Sequence[Piece]:
            return self._ended(work, end, room)

        if self.is_slow:
            with self._lock:
                self._open.append((future, apply))
        else:
            _resolve(future, apply)
        return future

    def _ended(self, work: Piece, end: End, room: Room) -> Sequence[Piece]:
        with self._lock:
            self._reach("record")
            if not self._holds(work):
                self.calls.refusals.append(work.id)
                raise ClaimLost(f"{work.label}: somebody else has it")
            entry = self._entries[work.id]
            assert entry.end is None, "it ends once"
            entry.end, entry.fence = end, entry.fence + 1
            following = [self._entries[each] for each in entry.then]
            for each in following:
                each.is_held = False
            if room.is_last:
                waiting = [each for each in self._entries.values() if self._is_claimable(each)]
                following = list(dict.fromkeys([*following, *waiting]))
            further = [self._lent(each) for each in following[: room.size]]
        if following:
            self._ring()
        return further

    def _reach(self, call: str) -> None:
        if (fault := self.faults.pop(call, None)) is not None:
            raise fault
        if self.is_out:
            raise StoreUnavailable("the box cannot be reached")

    def _is_claimable(self, entry: _Entry) -> bool:
        if entry.end is not None or entry.is_held:
            return False
        return entry.is_waiting or entry.lease_ends <= self._clock.monotonic()

    def _lent(self, entry: _Entry, _owner: str = "") -> Piece:
        entry.is_waiting = False
        entry.fence += 1
        entry.claims += 1
        entry.lease_ends = self._clock.monotonic() + self.lease_s
        return Piece(entry.id, entry.fence)

    def _holds(self, work: Piece) -> bool:
        entry = self._entries[work.id]
        return entry.fence == work.fence and not entry.is_waiting

    def _extended(self, work: Piece) -> bool:
        if not self._holds(work):
            return False
        self._entries[work.id].lease_ends = self._clock.monotonic() + self.lease_s
        return True

    def _ring(self) -> None:
        for each in list(self._waiters):
            condition = condition_of(each)
            with condition:
                condition.notify_all()


def _resolve(future: Settled, apply: Callable[[], Sequence[Piece]]) -> None:
    try:
        future.set_result(apply())
    except Exception as error:
        future.set_exception(error)
