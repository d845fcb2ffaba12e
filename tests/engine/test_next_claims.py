"""A worker may go on with what its result makes possible, in the same commit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.engine.programs import PROGRAMS, compiled
from tests.engine.worker import NAMES, run_handler

from afl.runtime.claims import NextClaim
from afl.runtime.entities import TaskState
from afl.runtime.errors import StaleFence
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI

MINE = NextClaim(frozenset(NAMES), "me", limit=3)


def test_a_chain_is_done_without_another_claim(any_store: PersistenceAPI) -> None:
    case = next(each for each in PROGRAMS if each.name == "chain")
    evaluator = Evaluator(any_store)
    run_id = evaluator.submit(case.program, case.workflow, case.inputs)
    tasks = any_store.claim_tasks(NAMES, 1, owner="me")
    done = 0
    while tasks:
        (task,) = tasks
        assert (task.owner, task.fence, task.deliveries) == ("me", 1, 1)
        stored = any_store.get_task(task.uuid)
        assert stored is not None
        assert stored.state == TaskState.RUNNING
        assert any_store.claim_tasks(NAMES, 1) == []
        tasks = evaluator.complete_task(task, run_handler(task), claim=MINE)
        done += 1
    assert done == 3
    assert evaluator.result(run_id).outputs == case.outputs


def test_no_more_is_claimed_than_wanted_and_the_rest_is_queued(any_store: PersistenceAPI) -> None:
    text = """workflow W() andThen {
        a = Add(a = 1)
        b = Add(a = a.sum) c = Add(a = a.sum) d = Upper(text = "x" ++ a.sum)
    }"""
    evaluator = Evaluator(any_store)
    evaluator.submit(compiled(text), "W")
    (task,) = any_store.claim_tasks(NAMES, 1)
    wanted = NextClaim(frozenset({"Add"}), "me", limit=1)
    claimed = evaluator.complete_task(task, {"sum": 2}, claim=wanted)
    assert [each.name for each in claimed] == ["t.Add"]
    assert sorted(each.name for each in any_store.get_pending_tasks()) == ["t.Add", "t.Upper"]


def test_nothing_is_claimed_for_a_paused_run_or_a_lost_claim(any_store: PersistenceAPI) -> None:
    case = next(each for each in PROGRAMS if each.name == "chain")
    evaluator = Evaluator(any_store)
    run_id = evaluator.submit(case.program, case.workflow, case.inputs)
    (task,) = any_store.claim_tasks(NAMES, 1)
    with pytest.raises(StaleFence):
        evaluator.complete_task(replace(task, fence=7), {"sum": 2}, claim=MINE)
    evaluator.pause(run_id)
    assert evaluator.complete_task(task, {"sum": 2}, claim=MINE) == []
    assert any_store.claim_tasks(NAMES, 1) == []
    evaluator.unpause(run_id)
    assert len(any_store.claim_tasks(NAMES, 5)) == 1


ALL = replace(MINE, limit=2, task_list="default")


def test_a_result_that_makes_too_little_possible_brings_others_that_wait(
    any_store: PersistenceAPI,
) -> None:
    case = next(each for each in PROGRAMS if each.name == "chain")
    evaluator = Evaluator(any_store)
    runs = [evaluator.submit(case.program, case.workflow, case.inputs) for _ in range(3)]
    (task,) = any_store.claim_tasks(NAMES, 1, owner="me")
    own, other = evaluator.complete_task(task, run_handler(task), claim=ALL)
    assert [own.workflow_id, other.workflow_id] == runs[:2]
    assert [any_store.get_task(each.uuid) for each in (own, other)] == [own, other]
    assert (other.owner, other.fence) == ("me", 1)
    with pytest.raises(StaleFence):
        evaluator.complete_task(replace(task, fence=7), {"sum": 2}, claim=ALL)
    (last,) = any_store.claim_tasks(NAMES, 5)
    assert last.workflow_id == runs[2]


def test_results_that_are_decided_together_share_what_waits(any_store: PersistenceAPI) -> None:
    program = compiled("workflow W() andThen { a = Add(a = 1) }")
    evaluator = Evaluator(any_store)
    for _ in range(7):
        evaluator.submit(program, "W")
    first = any_store.claim_tasks(NAMES, 3, owner="me")
    pending = [evaluator.complete_task_later(each, {"sum": 1}, claim=ALL) for each in first]
    shares = [[each.uuid for each in waited.result()] for waited in pending]
    assert all(len(each) <= 2 for each in shares)
    brought = [uuid for share in shares for uuid in share]
    assert len(set(brought)) == len(brought) == 4
    assert any_store.claim_tasks(NAMES, 5) == []
