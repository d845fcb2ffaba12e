"""Whether runs are at rest: nothing in them waits for something that nobody will do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from afl.runtime.entities import RunnerState
from afl.runtime.listing import RunQuery, pages_of
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.rest import problems_of_run
from afl.runtime.types import WorkflowId

_OPEN = (RunnerState.CREATED, RunnerState.RUNNING, RunnerState.PAUSED)
#: Runs that are listed at a time.
_PAGE = 100


@dataclass(frozen=True)
class Checked:
    """A run that was looked at, and what is wrong with it."""

    run: str
    problems: Sequence[str]


def check_run(store: PersistenceAPI, run_id: str) -> Checked:
    """Raises RunNotFoundError."""
    return Checked(run_id, problems_of_run(store, WorkflowId(run_id)))


def check_open_runs(store: PersistenceAPI) -> Iterator[Checked]:
    """Each run that is not over, one after the other, each in a transaction of its own."""
    for query in map(RunQuery, _OPEN):
        listed = partial(store.list_runs, query, _PAGE)
        yield from (check_run(store, each.workflow_id) for each in pages_of(listed))
