"""A worker as small as possible: claims, runs, completes, one task at a time."""

from __future__ import annotations

from tests.engine.programs import HANDLERS, HandlerError

from afl.runtime.entities import TaskDefinition
from afl.runtime.evaluator import Evaluator

NAMES = ["t.Ask", *HANDLERS]


def run_handler(task: TaskDefinition) -> dict[str, object]:
    handler = HANDLERS["t.Add" if task.name == "t.Ask" else task.name]
    payload = dict(task.data or {})
    if task.name == "t.Ask":
        payload = {"a": payload["n"], "b": 1}
    if task.name == "t.Flaky":
        payload["_attempt"] = task.failures + 1
    return handler(payload)


def finish(evaluator: Evaluator, task: TaskDefinition) -> None:
    try:
        result = run_handler(task)
    except HandlerError as error:
        evaluator.fail_task(task, error)
    else:
        evaluator.complete_task(task, result)


def work_all(evaluator: Evaluator, task_list: str = "default") -> int:
    """Do everything there is to do; how many tasks that were."""
    done = 0
    while tasks := evaluator.persistence.claim_tasks(NAMES, 1, task_list=task_list):
        for task in tasks:
            finish(evaluator, task)
            done += 1
    return done
