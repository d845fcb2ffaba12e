"""Between which stores a copy may go: two that are not the same, and both quiet."""

from __future__ import annotations

import math
from collections.abc import Sequence

from afl.clock import Clock
from afl.errors import UsageError
from afl.ids import new_id
from afl.operations.fleet import is_alive, view
from afl.runtime.claims import lease_holds
from afl.runtime.entities import LockMetaData, ServerDefinition, TaskState
from afl.runtime.fleet import MISSED_BEATS
from afl.runtime.persistence import PersistenceAPI

#: Of the lock of a destination: while a copy goes on, and for ever after it.
LOCK = "afl.store.copy"
_FOR_EVER_MS = 100 * 365 * 86_400_000
_COMPLETE = "complete"
_ALL = 2**31 - 1
#: How often to look whether another copy is over.
_LOOK_S = 0.2


def refuse_memory(*urls: str) -> None:
    """What dies with this process is neither worth copying nor a place to copy to."""
    for each in urls:
        if each.lower().startswith("memory:"):
            raise UsageError(f"{each!r} dies with this process; name a database")


def refuse_same_place(source: PersistenceAPI, target: PersistenceAPI) -> None:
    """However both are spelled: what is locked in one is not locked in the other."""
    key, owner = f"{LOCK}:{new_id()}", new_id()
    target.acquire_lock(key, 60_000, owner=owner)
    try:
        if source.check_lock(key) is not None:
            raise UsageError("source and destination are the same place; name another destination")
    finally:
        target.release_lock(key, owner=owner)


def refuse_busy(store: PersistenceAPI, which: str, turns: Sequence[str] = ()) -> None:
    """Raise UsageError while somebody works there."""
    now = store.now_ms()
    alive = [each for each in store.get_all_servers() if is_alive(each, now)]
    if alive:
        raise UsageError(
            f"the {which} is in use by {_some(_processes(alive))}; a copy needs quiet stores: stop "
            "all workers and services on it (`afl servers list` shows them), then copy. One that "
            f"was killed is taken for alive until it has missed {MISSED_BEATS} beats: if nobody "
            f"else is there, that is in {_silent_in_s(alive, now)} s"
        )
    running = store.get_tasks_by_state(TaskState.RUNNING, _ALL)
    held = [each.uuid for each in running if lease_holds(each, now)]
    if held or turns:
        what = f"task {_some(held)}" if held else f"turn {_some(turns)}"
        raise UsageError(
            f"somebody works on {what} of the {which}; a copy needs quiet stores: stop whoever "
            "does it. If that was killed just now, its lease ends within seconds: try again then"
        )


def _processes(servers: Sequence[ServerDefinition]) -> list[str]:
    """Each once, however many servers it has: one for each kind of work that it does."""
    places = ((each.host, each.manager, each.pid or each.uuid) for each in servers)
    return list(dict(zip(places, map(_process, servers), strict=True)).values())


def _process(server: ServerDefinition) -> str:
    if server.pid:
        return f"process {server.pid} on {server.host}"
    return server.server_name or server.uuid


def _silent_in_s(servers: Sequence[ServerDefinition], now: int) -> int:
    """When all of them are taken for dead, if none of them beats any more."""
    views = [view(each, now) for each in servers]
    return math.ceil(max(MISSED_BEATS * each.beat_s - each.beat_age_s for each in views)) + 1


def _some(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


class CopyLock:
    """One copy at a time, and one in all: when it is complete, the lock stays."""

    def __init__(self, target: PersistenceAPI, lease_ms: int, clock: Clock) -> None:
        self._target = target
        self._lease_ms = lease_ms
        self._clock = clock
        self._owner = new_id()
        self._kept_at = clock.monotonic()

    def take(self) -> None:
        """Waits for the lease of one that was killed. Raises UsageError."""
        deadline = self._clock.monotonic() + 2 * self._lease_ms / 1000
        while not self._take(self._lease_ms):
            held = self._target.check_lock(LOCK)
            if held is not None and held.meta is not None and held.meta.topic == _COMPLETE:
                raise UsageError(
                    "the destination has taken a complete copy before; another one could bring "
                    "back what was done since. Copy into an empty database"
                )
            if self._clock.monotonic() >= deadline:
                raise UsageError("another copy to this destination goes on; wait for its end")
            self._clock.sleep(_LOOK_S)

    def keep(self) -> None:
        """Raises UsageError if somebody else has taken it."""
        if self._clock.monotonic() < self._kept_at + self._lease_ms / 3000:
            return
        if not self._take(self._lease_ms):
            raise UsageError("another copy to this destination has begun; this one ends here")

    def complete(self) -> None:
        if not self._take(_FOR_EVER_MS, LockMetaData(topic=_COMPLETE)):
            raise UsageError("another copy to this destination has begun; this one ends here")

    def release(self) -> None:
        """After an error, so that the next one need not wait."""
        self._target.release_lock(LOCK, owner=self._owner)

    def _take(self, duration_ms: int, meta: LockMetaData | None = None) -> bool:
        self._kept_at = self._clock.monotonic()
        return self._target.acquire_lock(LOCK, duration_ms, meta, owner=self._owner)
