"""The overview tells what there is, what waits, what failed, and how fast it goes."""

from __future__ import annotations

from tests.unit.operations.stage import Stage

from afl.operations.overview import overview
from afl.runtime.entities import MinuteCount
from afl.runtime.listing import Count


def test_an_empty_store_has_an_overview(stage: Stage) -> None:
    seen = overview(stage.store)
    assert (seen.runs, seen.tasks, seen.queues, seen.failures) == ({}, {}, (), ())
    assert (seen.waiting, seen.oldest_age_s) == (Count(0), 0.0)
    assert seen.fleet.alive == 0


def test_the_overview_counts_what_there_is(stage: Stage) -> None:
    stage.greet()
    failed = stage.talk()
    stage.fail("the line is dead")
    stage.talk("a", "b")
    stage.clock.advance(8)
    now = stage.store.now_ms()
    stage.server(finished=[MinuteCount(now - now % 60_000, 7)])
    seen = overview(stage.store)
    assert seen.runs == {"completed": Count(1), "failed": Count(1), "running": Count(1)}
    assert seen.tasks == {"pending": Count(3), "failed": Count(1)}
    (queue,) = seen.queues
    assert (queue.facet, queue.waiting, queue.is_unserved) == ("t.Ask", Count(3), True)
    assert (seen.waiting, seen.oldest_age_s) == (Count(3), 9.0)
    assert [each.run for each in seen.failures] == [failed.workflow_id]
    assert seen.fleet.throughput[-1].handled == 7
