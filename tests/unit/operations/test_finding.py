"""Ids may be given by their beginning."""

from __future__ import annotations

from contextlib import closing

import pytest
from tests.unit.operations.stage import Stage

from afl.errors import NotFound, UsageError
from afl.operations.finding import (
    TooShort,
    find_run,
    find_server,
    find_step_task,
    find_task,
    find_turn,
    only_beginning,
)
from afl.runtime.errors import RunNotFoundError, TaskNotFoundError
from afl.turns import MemoryTurns


def test_a_run_is_found_by_its_id_and_by_its_beginning(stage: Stage) -> None:
    run = stage.greet()
    stage.greet()
    assert find_run(stage.store, run.workflow_id) == run
    assert find_run(stage.store, run.workflow_id[:13]) == run


def test_a_task_and_a_server_are_found_by_their_beginnings(stage: Stage) -> None:
    stage.talk()
    [task] = stage.store.get_all_tasks()
    server = stage.server("abcdef")
    assert find_task(stage.store, task.uuid) == task
    assert find_task(stage.store, task.uuid[:9]) == task
    assert find_step_task(stage.store, task.step_id[:9]) == task
    assert find_server(stage.store, "abcd") == server
    assert find_server(stage.store, "abcdef") == server


def test_what_is_not_there_is_said_with_what_to_do(stage: Stage) -> None:
    stage.talk()
    with pytest.raises(RunNotFoundError, match="check the id"):
        find_run(stage.store, "nowhere")
    with pytest.raises(TaskNotFoundError, match="check the id"):
        find_task(stage.store, "nowhere")
    with pytest.raises(NotFound, match="neither a run nor a step"):
        find_step_task(stage.store, "nowhere")
    with pytest.raises(NotFound, match="`afl servers`"):
        find_server(stage.store, "nowhere")


@pytest.mark.parametrize("text", ["", "d2", "abc"])
def test_a_beginning_that_is_too_short_is_said_to_be(stage: Stage, text: str) -> None:
    stage.server("abcdef")
    with closing(MemoryTurns()) as turns:
        for find, kind in ((find_run, "run"), (find_task, "task"), (find_server, "server")):
            with pytest.raises(TooShort, match=f"no {kind} .* give at least four characters"):
                find(stage.store, text)
        with pytest.raises(TooShort, match=r"no run or step .* give at least four characters"):
            find_step_task(stage.store, text)
        with pytest.raises(TooShort, match=r"no turn .* give at least four characters"):
            find_turn(turns, text)


def test_a_short_id_that_is_whole_is_found(stage: Stage) -> None:
    server = stage.server("s1")
    assert find_server(stage.store, "s1") == server


def test_a_beginning_of_several_ids_names_some_of_them() -> None:
    ids = [f"abcd-{each}" for each in range(5)]
    with pytest.raises(UsageError, match="abcd is the beginning of 5 runs: abcd-0, abcd-1, abcd-2"):
        only_beginning("abcd", ids, "run")
    assert only_beginning("abcd-3", ids, "run") == "abcd-3"
    assert only_beginning("abcd", ["abcd-1", "abcd-1"], "run") == "abcd-1"
