"""Ids may be given by their beginning."""

from __future__ import annotations

import pytest
from tests.unit.operations.stage import Stage

from afl.errors import NotFound, UsageError
from afl.operations.finding import (
    find_run,
    find_server,
    find_step_task,
    find_task,
    only_beginning,
)
from afl.runtime.errors import RunNotFoundError, TaskNotFoundError


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


@pytest.mark.parametrize("text", ["nowhere", "", "a"])
def test_what_is_not_there_is_said_with_what_to_do(stage: Stage, text: str) -> None:
    stage.talk()
    with pytest.raises(RunNotFoundError, match="check the id"):
        find_run(stage.store, text)
    with pytest.raises(TaskNotFoundError, match="check the id"):
        find_task(stage.store, text)
    with pytest.raises(NotFound, match="neither a run nor a step"):
        find_step_task(stage.store, text)
    with pytest.raises(NotFound, match="`afl servers`"):
        find_server(stage.store, text)


def test_a_beginning_of_several_ids_names_some_of_them() -> None:
    ids = [f"abcd-{each}" for each in range(5)]
    with pytest.raises(UsageError, match="abcd is the beginning of 5 runs: abcd-0, abcd-1, abcd-2"):
        only_beginning("abcd", ids, "run")
    assert only_beginning("abcd-3", ids, "run") == "abcd-3"
    assert only_beginning("abcd", ["abcd-1", "abcd-1"], "run") == "abcd-1"


def test_few_characters_mean_nothing() -> None:
    assert only_beginning("abc", ["abcdef"], "run") is None
