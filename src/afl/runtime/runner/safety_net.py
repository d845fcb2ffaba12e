"""What a runner looks for from time to time: tasks that nobody serves, and steps that wait although
their task is over."""

from __future__ import annotations

from collections.abc import Iterable

from afl.log import get_logger
from afl.runtime.entities import EVENT_DATA, OPEN_TASK_STATES, TaskDefinition, TaskState
from afl.runtime.errors import InvalidStepStateError, StepNotFoundError
from afl.runtime.evaluator import Evaluator
from afl.runtime.fleet import ON_DUTY, is_alive
from afl.runtime.names import handler_for
from afl.runtime.persistence import PersistenceAPI, task_id_of
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition

_log = get_logger(__name__)

#: Tasks of the runtime itself are called like this; no default handler is for them.
RUNTIME_PREFIX = "afl:"


def unserved_names(
    store: PersistenceAPI,
    task_list: str,
    seen: Iterable[str] = (),
    *,
    except_for: str,
    heartbeat_s: float,
) -> list[str]:
    """Names of pending tasks of a list, and those `seen` before, that have neither an enabled
    registration nor another server that serves them."""
    waiting = {*seen, *(each.name for each in store.get_pending_tasks(task_list))}
    waiting = {each for each in waiting if not each.startswith(RUNTIME_PREFIX)}
    if not waiting:
        return []
    served = {each.facet_name for each in store.list_handler_registrations() if each.is_enabled}
    served |= _served_elsewhere(store, task_list, except_for, heartbeat_s)
    return sorted(each for each in waiting if handler_for(each, served) is None)


def _served_elsewhere(
    store: PersistenceAPI, task_list: str, except_for: str, heartbeat_s: float
) -> set[str]:
    now = store.now_ms()
    servers = [each for state in ON_DUTY for each in store.get_servers_by_state(state)]
    return {
        name
        for each in servers
        if each.uuid != except_for and each.task_list == task_list
        if is_alive(each, now, heartbeat_s)
        for name in each.handlers
    }


def settle_forgotten_steps(store: PersistenceAPI, evaluator: Evaluator) -> int:
    """Let steps go on whose task was ended behind the engine's back; how many there were.

    The engine itself never leaves one. Code that moves tasks in the store directly can: whoever
    writes the returns of a step, ends its task, and dies before it says so.
    """
    found = 0
    for step in store.get_steps_by_state(StepState.EVENT_TRANSMIT):
        task = store.get_task(task_id_of(step.id))
        if task is None or task.data_type != EVENT_DATA or task.state in OPEN_TASK_STATES:
            continue
        # Read again: the engine ends both in one commit, which may have come in between.
        current = store.get_step(step.id)
        if current is not None and current.state == StepState.EVENT_TRANSMIT:
            found += _settle(evaluator, step, task)
    return found


def _settle(evaluator: Evaluator, step: StepDefinition, task: TaskDefinition) -> bool:
    try:
        if task.state == TaskState.COMPLETED:
            evaluator.continue_step(step.id)
        else:
            error = task.error or {}
            message = error.get("message") or f"its task {task.name} ended as {task.state}"
            evaluator.fail_step(step.id, str(message))
    except (InvalidStepStateError, StepNotFoundError):
        return False  # it has gone on since it was read
    _log.warning("forgotten_step_settled", step=step.id, task=task.name, state=task.state)
    return True
