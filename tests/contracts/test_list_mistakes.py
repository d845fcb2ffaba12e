"""Mistakes that lists and waits of stores can make: the suite must find each one of them.

Each is planted alone into a store that is otherwise right.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import pytest

from afl.clock import FakeClock
from afl.runtime.entities import (
    LogDefinition,
    RunnerDefinition,
    ServerDefinition,
    ServerState,
    TaskDefinition,
)
from afl.runtime.listing import COUNTED, Count, Page, Queue, RunQuery, TaskQuery
from afl.runtime.memory_store import MemoryStore
from afl.runtime.step import StepDefinition
from afl.runtime.types import WorkflowId
from afl.testing.contracts.store import FleetContract, FollowContract, ListContract
from afl.testing.contracts.store.following import CHANGES

_ALL = 1000


class PagesByOffset(MemoryStore):
    """A page begins behind a number of records."""

    def list_runs(
        self, query: RunQuery, limit: int = 50, cursor: str | None = None
    ) -> Page[RunnerDefinition]:
        start = int(cursor or 0)
        found = super().list_runs(query, _ALL).items
        end = start + limit
        return Page(found[start:end], str(end), len(found) > end)


class ForgetsTheLastPage(MemoryStore):
    """A page that is full is taken for the last one if nothing was left over."""

    def list_runs(
        self, query: RunQuery, limit: int = 50, cursor: str | None = None
    ) -> Page[RunnerDefinition]:
        page = super().list_runs(query, limit, cursor)
        return replace(page, has_more=len(page.items) == limit)


class StatesOfOtherWorkflows(MemoryStore):
    """Either the state fits or the workflow."""

    def list_runs(
        self, query: RunQuery, limit: int = 50, cursor: str | None = None
    ) -> Page[RunnerDefinition]:
        query = replace(query, state=None) if query.workflows else query
        return super().list_runs(query, limit, cursor)


class PendingWithoutHeld(MemoryStore):
    """The list of pending tasks is the queue."""

    def list_tasks(
        self, query: TaskQuery, limit: int = 50, cursor: str | None = None
    ) -> Page[TaskDefinition]:
        page = super().list_tasks(query, limit, cursor)
        return replace(page, items=[each for each in page.items if not each.held])


class CountsOnePast(MemoryStore):
    """Says as a fact how many it has counted."""

    def count_runs(self, limit: int = COUNTED) -> dict[str, Count]:
        found = super().count_runs(limit + 1)
        return {state: Count(each.number) for state, each in found.items()}


class PatternsAsPrefixes(MemoryStore):
    """Signs in a beginning mean more than themselves."""

    def find_run_ids(self, prefix: str, limit: int = 10) -> list[str]:
        found = super().find_run_ids("", _ALL)
        pattern = prefix.replace("_", "?").replace("%", "*") + "*"
        return [each for each in found if fnmatchcase(each, pattern)][:limit]


class OldestOfAll(MemoryStore):
    """What waits for its retry has waited longest, and nobody can take it."""

    def list_queues(self, limit: int = COUNTED) -> list[Queue]:
        found = super().list_queues(limit)
        return [each._replace(oldest=min(self._created(each), default=0)) for each in found]

    def _created(self, queue: Queue) -> list[int]:
        pending = self.get_pending_tasks(queue.task_list)
        return [each.created for each in pending if each.name == queue.name and not each.held]


class LinesByTheirNumbers(MemoryStore):
    """Goes on behind the highest number that a line has."""

    def list_logs(
        self, runner_id: str, limit: int = 1000, cursor: str | None = None
    ) -> Page[LogDefinition]:
        last = int(cursor or -1)
        found = [each for each in self.get_logs_by_runner(runner_id) if each.order > last]
        shown = found[:limit]
        return Page(shown, str(shown[-1].order if shown else last), len(found) > limit)


class GrownStepsOnly(MemoryStore):
    """Steps that are complete are not told any more."""

    def changed_steps(self, known: Any) -> list[StepDefinition]:
        return [each for each in super().changed_steps(known) if not each.is_complete]


class NewStepsAgain(MemoryStore):
    """An empty page forgets where it was."""

    def list_steps(
        self, workflow_id: WorkflowId, limit: int = 1000, cursor: str | None = None
    ) -> Page[StepDefinition]:
        page = super().list_steps(workflow_id, limit, cursor)
        return page if page.items else replace(page, cursor="")


class PrunesWhoSaidGoodbye(MemoryStore):
    """Who never said that it is over is kept for ever."""

    def prune_servers(self, keep_ms: int, limit: int = 100) -> int:
        ended = [each for each in self.get_all_servers() if each.state != ServerState.RUNNING]
        old = [each for each in ended if each.ping_time < self.now_ms() - keep_ms][:limit]
        return sum(self._delete(self._state.servers, each.uuid) for each in old)


class CountsFromTheBeginning(MemoryStore):
    """What a server has done in all is what it did since its last beat."""

    def beat_server(self, server: ServerDefinition) -> str:
        stored = self.get_server(server.uuid)
        if stored is not None:
            self.save_server(replace(stored, handled=[]))
        return super().beat_server(server)


MISTAKES: dict[type[MemoryStore], Callable[[MemoryStore, FakeClock], object]] = {
    PagesByOffset: lambda store, _: ListContract().test_new_runs_and_removed_ones_shift_no_page(
        store
    ),
    ForgetsTheLastPage: lambda store, _: ListContract().test_pages_of_runs_hold_each_run_once(
        store
    ),
    StatesOfOtherWorkflows: lambda store, _: (
        ListContract().test_runs_are_listed_by_workflows_and_state(store)
    ),
    PendingWithoutHeld: lambda store, _: (
        ListContract().test_pending_tasks_are_listed_whether_held_or_to_be_retried(store)
    ),
    CountsOnePast: lambda store, _: ListContract().test_runs_are_counted_by_state_as_far_as_asked(
        store
    ),
    PatternsAsPrefixes: lambda store, _: (
        ListContract().test_ids_of_runs_are_found_by_their_beginnings(store)
    ),
    OldestOfAll: lambda store, _: ListContract().test_a_retry_waits_behind_what_can_be_claimed(
        store
    ),
    LinesByTheirNumbers: lambda store, _: (
        FollowContract().test_lines_come_in_the_order_of_their_arrival_each_once(store)
    ),
    GrownStepsOnly: lambda store, _: (
        FollowContract().test_steps_that_changed_are_told_from_those_that_did_not(store)
    ),
    NewStepsAgain: lambda store, _: (
        FollowContract().test_the_last_cursor_gives_steps_that_are_created_later(store)
    ),
    PrunesWhoSaidGoodbye: lambda store, clock: (
        FleetContract().test_servers_that_were_not_heard_of_for_long_are_removed(store, clock)
    ),
    CountsFromTheBeginning: lambda store, clock: (
        FleetContract().test_what_a_server_finished_is_counted_by_minutes(store, clock)
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.__name__)
def test_the_suite_finds_a_mistake(mistake: type[MemoryStore]) -> None:
    clock = FakeClock()
    with closing(mistake(clock)) as store, pytest.raises(AssertionError):
        MISTAKES[mistake](store, clock)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.__name__)
def test_without_the_mistake_the_suite_passes(mistake: type[MemoryStore]) -> None:
    clock = FakeClock()
    with closing(MemoryStore(clock)) as store:
        MISTAKES[mistake](store, clock)


class Silent(MemoryStore):
    """Announces nothing: who waits finds it at the next look."""

    def _announce(self) -> None:
        return


class Hasty(FollowContract):
    """Gives up soon on what will never happen."""

    patience_s = 0.2


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_the_suite_finds_a_change_that_is_not_announced(
    change: Callable[[Any], object],
) -> None:
    store = Silent(FakeClock())
    with pytest.raises(AssertionError, match="did not end"):
        Hasty().test_what_changes_in_a_run_ends_the_wait_for_it(store, change)
    # Ends the threads that would sleep for ever.
    store._is_closed = True
    MemoryStore._announce(store)
