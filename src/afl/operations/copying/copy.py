"""The copy as a whole: who may be copied where, in which order, and when it is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from afl.clock import SYSTEM_CLOCK
from afl.errors import StoreError, UsageError
from afl.operations.copying.catalog import copy_catalog
from afl.operations.copying.ends import End, opened
from afl.operations.copying.listing import standing
from afl.operations.copying.own import refuse_own
from afl.operations.copying.place import CopyLock, refuse_busy, refuse_memory, refuse_same_place
from afl.operations.copying.progress import CopyReport, Nobody, Pace, Part, PartReport, Watcher
from afl.operations.copying.rows import copy_rows
from afl.operations.copying.runs import RunCopy
from afl.operations.copying.tasks import TaskCopy
from afl.operations.copying.turns import copy_turns
from afl.runtime.persistence import PersistenceAPI
from afl.turns.stored import StoredTurns

#: How long the lock of a copy that was killed keeps others away.
LEASE_MS = 15_000


def copy_all(
    source: PersistenceAPI,
    source_url: str,
    target: PersistenceAPI,
    target_url: str,
    *,
    watcher: Watcher | None = None,
    lease_ms: int = LEASE_MS,
) -> CopyReport:
    """Copy what is kept at one URL to another one. Both stores are open, and stay so.

    Raises UsageError if it cannot be, Differs for what is not the same in the end; then nothing is
    lost, and what was copied stays.
    """
    refuse_memory(source_url, target_url)
    refuse_same_place(source, target)
    with opened(source, source_url) as here, opened(target, target_url) as there:
        refuse_busy(source, "source", here.turns_in_hand)
        refuse_busy(target, "destination", there.turns_in_hand)
        with _locked(target, lease_ms) as lock:
            pace = Pace(watcher or Nobody(), lock.keep)
            report = CopyReport(tuple(_copied(here, there, pace)))
            lock.complete()
    return report


@contextmanager
def _locked(target: PersistenceAPI, lease_ms: int) -> Iterator[CopyLock]:
    lock = CopyLock(target, lease_ms, SYSTEM_CLOCK)
    lock.take()
    try:
        yield lock
    except BaseException:
        with suppress(StoreError):
            lock.release()
        raise


def _copied(here: End, there: End, pace: Pace) -> Iterator[PartReport]:
    before = standing(here.store)
    refuse_own(there, here, before.runs)
    yield from copy_catalog(here.store, there.store, pace)
    tasks = TaskCopy(here.store, there.store, pace)
    runs = RunCopy(here.store, there.store, tasks, pace)
    runs.copy(before.runs)
    yield from runs.reports
    tasks.copy_strays(before.runs)
    # First the keys that keep effects from being doubled, then what may have such effects.
    yield from copy_rows(here.keys, there.keys, pace)
    yield _copied_turns(here.turns, there.turns, pace)
    yield from copy_rows(here.messages, there.messages, pace)
    tasks.copy_waiting([task_id for task_id, _version in before.tasks])
    yield tasks.report
    if standing(here.store) != before:
        raise UsageError(
            "runs at the source have gone on while they were copied; stop all workers there, let "
            "nobody submit anything, and copy into an empty database"
        )


def _copied_turns(source: StoredTurns | None, target: StoredTurns | None, pace: Pace) -> PartReport:
    if source is None:
        return Part("turn").report()
    if target is None:
        return Part("turn").report(left=source.size().turns)
    return copy_turns(source, target, pace)
