"""What a transaction has locked, so that nothing it has read can change.

Steps belong to a run, and change only while the row of their run is locked: who holds that row
may read all steps of the run as they are. Tasks are claimed without it, so each task that a
decision reads is locked by itself. Runs are locked before tasks, each in the order of their ids.
"""

from __future__ import annotations

from collections.abc import Iterable

from afl.db.postgres import Transaction

LOCK_RUNS = """\
SELECT workflow_id FROM afl_run WHERE workflow_id = ANY (%s::text[])
ORDER BY workflow_id, seq FOR NO KEY UPDATE"""


class Holding:
    """The runs that a transaction has locked."""

    __slots__ = ("_held", "_tx")

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._held: set[str] = set()

    def __contains__(self, workflow_id: object) -> bool:
        return workflow_id in self._held

    def __bool__(self) -> bool:
        return bool(self._held)

    def add(self, workflow_ids: Iterable[str]) -> None:
        """These were locked by a question about them."""
        self._held.update(workflow_ids)

    def hold(self, workflow_ids: Iterable[str]) -> bool:
        """Lock these runs; whether some were not locked before."""
        wanted = sorted(set(workflow_ids) - self._held)
        if not wanted:
            return False
        found = {row[0] for row in self._tx.query_all(LOCK_RUNS, (wanted,))}
        for each in wanted:
            if each not in found:
                # Steps of runs that somebody else keeps track of.
                self._tx.lock(f"run:{each}")
        self._held.update(wanted)
        return True
