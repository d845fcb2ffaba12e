"""What a decision has read, and how it makes sure that nothing of it has changed.

A transaction reads one state of the database. That alone does not keep two of them from deciding
on the same state about different documents. So whoever decides changes a document that stands for
all it has read: the run, for its steps; and each task by itself, because tasks are claimed without
their run. Of two who change the same document one is refused, and decides anew.
"""

from __future__ import annotations

from collections.abc import Iterable

from afl.db.mongo import Transaction
from afl.runtime.mongo_store import runs
from afl.runtime.mongo_store.schema import GUARDS

_GROW = {"$inc": {"n": 1}}
#: Bits for the new documents of one decision about one run.
_ROOM = 20


def run_guard(run_id: str) -> str:
    """Of steps and logs for which there is no run."""
    return f"run:{run_id}"


class Holding:
    """What one decision has read and holds."""

    __slots__ = ("_guards", "_seen", "_tx", "_used", "tasks")

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        #: Of the runs that are held: numbers that grow with each decision.
        self._guards: dict[str, int] = {}
        self._used: dict[str, int] = {}
        self._seen: set[str] = set()
        #: Tasks that were read.
        self.tasks: set[str] = set()

    @property
    def has_runs(self) -> bool:
        return bool(self._guards or self._seen)

    def add(self, run_id: str, guard: int) -> None:
        """It is held by a question about it."""
        self._guards[run_id] = guard

    def see(self, run_ids: Iterable[str]) -> None:
        """Steps of these were read: they are held before something is written."""
        self._seen.update(run_ids)

    def hold(self, run_ids: Iterable[str]) -> None:
        """Hold these runs, and all of which something was read."""
        for each in sorted((self._seen | set(run_ids)) - self._guards.keys()):
            found = runs.held(self._tx, each)
            self.add(each, self._held_without_run(each) if found is None else found.guard)

    def _held_without_run(self, run_id: str) -> int:
        """Steps of runs that somebody else keeps track of."""
        found = self._tx.change(GUARDS, {"_id": run_guard(run_id)}, _GROW, upsert=True)
        assert found is not None
        return int(found["n"])

    def guard_of(self, run_id: str) -> int:
        return self._guards.get(run_id, 0)

    def next_number(self, run_id: str) -> int:
        """For a new document of a run: greater than all that were committed before."""
        used = self._used[run_id] = self._used.get(run_id, 0) + 1
        return (self.guard_of(run_id) << _ROOM) + used
