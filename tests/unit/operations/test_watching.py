"""A run is watched as it goes on: each look tells what is new, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping

import pytest
from tests.unit.operations.stage import PROGRAM, Stage

from afl.operations import graphs, reading, runs
from afl.operations.watching import RunNews, RunWatch
from afl.runtime.entities import RunnerDefinition
from afl.runtime.errors import RunNotFoundError


def states(news: RunNews) -> dict[str, str]:
    return {each.name: each.state for each in news.steps}


def settled(counts: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    return {key: {state: n for state, n in each.items() if n} for key, each in counts.items()}


def test_the_first_look_gives_all_and_the_next_what_is_new(stage: Stage) -> None:
    run = stage.talk("a")
    watch = RunWatch(stage.store, run)
    first = watch.look()
    assert reading.tree_of(first.steps) == reading.detail(stage.store, run).root
    assert watch.look().steps == ()
    stage.answer("one")
    news = states(watch.look())
    assert news["first"] == "completed"
    assert news["second"] == "waiting"
    assert "asked" not in news


def test_a_claim_is_seen_although_no_step_moves(stage: Stage) -> None:
    watch = RunWatch(stage.store, stage.talk())
    watch.look()
    stage.claim()
    (step,) = watch.look().steps
    assert (step.name, step.state, step.attempts) == ("first", "running", 1)
    assert watch.look().steps == ()


def test_steps_that_come_back_from_an_error_are_seen(stage: Stage) -> None:
    run = stage.talk()
    task = stage.fail()
    watch = RunWatch(stage.store, run)
    first = watch.look()
    assert (states(first)["first"], first.summary.state) == ("failed", "failed")
    runs.retry(stage.evaluator, task.step_id)
    again = watch.look()
    assert (states(again)["first"], again.summary.state) == ("waiting", "running")
    assert states(again)["second"] == "waiting"


def test_what_was_told_look_by_look_adds_up_to_the_run(stage: Stage) -> None:
    run = stage.talk("a", "b", "c")
    watch = RunWatch(stage.store, run)
    told = {each.step: each for each in watch.look().steps}
    moves: list[Callable[[], object]] = [
        stage.fail,
        lambda: stage.answer("1"),
        stage.claim,
        lambda: stage.answer("2"),
    ]
    for move in moves:
        move()
        told.update((each.step, each) for each in watch.look().steps)
        found = reading.detail(stage.store, run).root
        assert found is not None
        assert reading.tree_of(told.values()) == found
        assert settled(watch.counts) == settled(graphs.counts_of(found.walk()))


def test_a_run_is_followed_to_its_end_by_announcements_alone(stage: Stage) -> None:
    run = stage.talk()
    news = RunWatch(stage.store, run).follow()
    assert next(news).summary.state == "running"
    answering = threading.Thread(target=stage.answer_all, args=("1", "2"))
    answering.start()
    *_, last = news
    answering.join()
    assert last.summary.state == "completed"


def test_following_ends_when_it_is_told_to(stage: Stage) -> None:
    stop = threading.Event()
    news: Iterator[RunNews] = RunWatch(stage.store, stage.talk()).follow(stop)
    next(news)
    stop.set()
    assert list(news) == []


def test_a_run_that_was_removed_is_said(stage: Stage) -> None:
    watch = RunWatch(stage.store, stage.greet())
    stage.clock.advance(10)
    runs.prune(stage.store, "1s")
    with pytest.raises(RunNotFoundError):
        watch.look()


# Its picture


def node_states(stage: Stage, run: RunnerDefinition) -> dict[str, str | None]:
    root = reading.detail(stage.store, run).root
    assert root is not None
    found = graphs.run_graph(PROGRAM, "t.Talk", graphs.counts_of(root.walk()))
    assert "state-" in found.svg()
    return {each.key: each.state for each in found.nodes}


def test_each_node_of_the_graph_has_the_state_of_its_steps(stage: Stage) -> None:
    run = stage.talk("a", "b")
    before = node_states(stage, run)
    assert before["andThen:0/step:first"] == "waiting"
    assert before["andThen:1/step:asked"] == "waiting"
    assert before["andThen:0/yield:0"] in (None, "waiting")
    stage.answer("one")
    stage.answer("two")
    after = node_states(stage, run)
    assert after["andThen:0/step:first"] == "completed"
    assert after["andThen:1/step:asked"] == "running"


@pytest.mark.parametrize(
    ("counts", "state"),
    [
        ({}, None),
        ({"completed": 3}, "completed"),
        ({"completed": 3, "waiting": 1}, "running"),
        ({"waiting": 2, "running": 1}, "running"),
        ({"completed": 9, "failed": 1}, "failed"),
        ({"not run": 1, "completed": 1}, "completed"),
        ({"not run": 1}, "not run"),
    ],
)
def test_the_worst_state_of_many_steps_is_that_of_their_node(
    counts: dict[str, int], state: str | None
) -> None:
    assert graphs.state_of(counts) == state
