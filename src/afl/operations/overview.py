"""Everything at a glance: runs, tasks, queues, servers, what failed, and how fast it goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from afl.operations import fleet, tasks
from afl.operations.fleet import FleetView
from afl.operations.reading import RunSummary, moment, run_page
from afl.operations.tasks import QueueView
from afl.runtime.entities import RunnerState
from afl.runtime.listing import Count
from afl.runtime.persistence import PersistenceAPI

#: Failed runs that are named.
_FAILURES = 10


@dataclass(frozen=True)
class Overview:
    """Costs the same for a hundred runs and for a million: counts end where nobody reads on."""

    time: datetime | None
    #: By state; those without any are left out.
    runs: Mapping[str, Count]
    #: By state, without those that are completed.
    tasks: Mapping[str, Count]
    queues: tuple[QueueView, ...]
    #: Tasks that may be claimed, in all queues.
    waiting: Count
    #: How long the oldest of them has waited.
    oldest_age_s: float
    #: The last runs that failed, newest first.
    failures: tuple[RunSummary, ...]
    fleet: FleetView


def overview(store: PersistenceAPI) -> Overview:
    """All of it, as it is now."""
    found = tasks.queues(store)
    return Overview(
        moment(store.now_ms()),
        store.count_runs(),
        store.count_tasks(),
        tuple(found),
        Count(
            sum(each.waiting.number for each in found),
            all(each.waiting.is_exact for each in found),
        ),
        max((each.oldest_age_s for each in found), default=0.0),
        run_page(store, state=RunnerState.FAILED, limit=_FAILURES).runs,
        fleet.fleet(store),
    )
