"""What a decision has read, and how it makes sure that nothing of it has changed.

A transaction reads one state of the database. That alone does not keep two of them from deciding
on the same state about different documents. So whoever decides changes a document that stands for
all it has read: the run, for its steps; and each task by itself, because tasks are claimed without
their run. Of two who change the same document one is refused, and decides anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from afl.db.mongo import Transaction
from afl.runtime.mongo_store import runs
from afl.runtime.mongo_store.schema import GUARDS, RUNS

_GROW = {"$inc": {"n": 1}}
#: Bits for the new documents of one decision about one run.
_ROOM = 20


def run_guard(run_id: str) -> str:
    """Of steps and logs for which there is no run."""
    return f"run:{run_id}"


class Holding:
    """What one decision has read and holds."""

    __slots__ = ("_guards", "_known", "_seen", "_tx", "_used", "tasks")

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        #: Of the runs that are held: numbers that grow with each decision.
        self._guards: dict[str, int] = {}
        self._used: dict[str, int] = {}
        self._seen: set[str] = set()
        #: Runs whose record was read and is not held yet.
        self._known: dict[str, runs.Held] = {}
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

    def know(self, found: runs.Held) -> None:
        """The record of a run was read: it is held along with what is written."""
        self._known[found.run.workflow_id] = found
        self.see([found.run.workflow_id])

    def hold(self, run_ids: Iterable[str], changed: Collection[str] = ()) -> None:
        """Hold these runs, and all of which something was read. The records of `changed` are
        written anyway."""
        for each in sorted((self._seen | set(run_ids)) - self._guards.keys()):
            known = self._known.get(each)
            if known is not None:
                self._hold_known(each, known, changed)
                continue
            found = runs.held(self._tx, each)
            self.add(each, self._held_without_run(each) if found is None else found.guard)

    def _hold_known(self, run_id: str, known: runs.Held, changed: Collection[str]) -> None:
        """With `flush`, in the same command as other changes of the record: whoever has changed it
        since it was read is in the way there."""
        self.add(run_id, known.guard + 1)
        if known.run.uuid not in changed:
            self._tx.update(RUNS, [({"_id": known.run.uuid}, {**runs.HOLD})])

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
