"""What operators do, in the words of the operations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from afl.dashboard.bodies import (
    AnswerBody,
    DiscardBody,
    HandlerBody,
    RedriveBody,
    SettleBody,
    SubmitBody,
)
from afl.dashboard.desk import Asked, Desk
from afl.dashboard.problems import NOT_NOW
from afl.dashboard.views import mailboxes_of, offer_of, turns_of
from afl.errors import UsageError
from afl.gateway.problems import Problem
from afl.operations import finding, fleet, handlers, mailboxes, runs, tasks, turns
from afl.operations.handler_places import require_place
from afl.operations.handlers import NewHandler


@dataclass(frozen=True)
class Done:
    """What was done, in a sentence."""

    message: str
    #: Id or name of what it was done to.
    subject: str


# Runs


def submit_run(desk: Desk, asked: Asked) -> Done:
    body: SubmitBody = asked.body
    offer = offer_of(desk, body.workflow)
    run_id = runs.submit(
        desk.evaluator,
        offer.program,
        offer.name,
        body.inputs,
        key=body.key,
        task_list=body.task_list or desk.task_list,
    )
    return Done("The run has started.", run_id)


def _on_run(
    act: Callable[[Any, str], bool], done: str, otherwise: str
) -> Callable[[Desk, Asked], Done]:
    def do(desk: Desk, asked: Asked) -> Done:
        run = finding.find_run(desk.store, asked.path["run"])
        if not act(desk.evaluator, run.workflow_id):
            raise Problem(NOT_NOW, otherwise)
        return Done(done, run.workflow_id)

    return do


cancel_run = _on_run(runs.cancel, "The run is cancelled.", "the run is over; nothing to cancel")
pause_run = _on_run(
    runs.pause,
    "The run is paused: what is being done is finished, nothing more begins.",
    "the run is paused already, or over",
)
unpause_run = _on_run(runs.unpause, "The run goes on.", "the run is not paused")


def retry_run(desk: Desk, asked: Asked) -> Done:
    run = finding.find_run(desk.store, asked.path["run"])
    try:
        report = runs.retry_failed(desk.store, desk.evaluator, run.workflow_id)
    except UsageError as error:
        raise Problem(NOT_NOW, str(error)) from None
    if not report.retried:
        raise Problem(NOT_NOW, "; ".join(report.refused.values()))
    return Done(f"Steps that are tried again: {len(report.retried)}.", run.workflow_id)


def retry_step(desk: Desk, asked: Asked) -> Done:
    step = asked.path["step"]
    runs.retry(desk.evaluator, step)
    return Done("The step is tried again.", step)


# Tasks


def retry_task(desk: Desk, asked: Asked) -> Done:
    task = finding.find_task(desk.store, asked.path["task"])
    tasks.retry(desk.evaluator, task)
    return Done(f"{task.name} is tried again.", task.uuid)


def discard_task(desk: Desk, asked: Asked) -> Done:
    body: DiscardBody = asked.body
    task = finding.find_task(desk.store, asked.path["task"])
    reason = body.reason or f"{asked.visitor.name} gave it up"
    if not tasks.discard(desk.evaluator, task, reason):
        raise Problem(NOT_NOW, "the task was given up before")
    return Done(f"{task.name} is given up.", task.uuid)


# Servers


def drain_server(desk: Desk, asked: Asked) -> Done:
    server = finding.find_server(desk.store, asked.path["server"])
    fleet.drain(desk.store, server)
    return Done("The server is asked to drain; it answers with its next beat.", server.uuid)


def undrain_server(desk: Desk, asked: Asked) -> Done:
    server = finding.find_server(desk.store, asked.path["server"])
    fleet.undrain(desk.store, server)
    return Done("The server may take work again.", server.uuid)


# Handlers


def add_handler(desk: Desk, asked: Asked) -> Done:
    body: HandlerBody = asked.body
    require_place(body.module, desk.handler_paths)
    before = desk.store.get_handler_registration(body.facet)
    kept = (before.requirements, before.metadata) if before is not None else ((), {})
    new = NewHandler(
        body.facet,
        body.module,
        body.entrypoint,
        version=body.version,
        checksum=body.checksum,
        timeout_ms=body.timeout_ms,
        isolation=body.isolation,
        on_lost=body.on_lost,
        requirements=kept[0] if body.requirements is None else body.requirements,
        metadata=kept[1] if body.metadata is None else body.metadata,
    )
    added = handlers.add(desk.store, new, desk.handler_paths)
    return Done(f"{added.facet_name} is registered.", added.facet_name)


def verify_handler(desk: Desk, asked: Asked) -> Done:
    registration = handlers.find(desk.store, asked.path["facet"])
    verdict = handlers.verify(registration, desk.handler_paths)
    if not verdict.ok:
        raise UsageError(f"it does not load: {verdict.problem}")
    return Done("The handler loads.", verdict.facet)


def _enable(is_enabled: bool, done: str) -> Callable[[Desk, Asked], Done]:
    def do(desk: Desk, asked: Asked) -> Done:
        changed = handlers.enable(desk.store, asked.path["facet"], is_enabled=is_enabled)
        return Done(done, changed.facet_name)

    return do


enable_handler = _enable(True, "Workers may claim its tasks.")
disable_handler = _enable(False, "Its tasks wait from now on.")


def remove_handler(desk: Desk, asked: Asked) -> Done:
    facet = asked.path["facet"]
    handlers.remove(desk.store, facet)
    return Done(f"{facet} is not registered any more.", facet)


# Turns


def resume_turn(desk: Desk, asked: Asked) -> Done:
    turn = turns.resume_turn(turns_of(desk), asked.path["turn"])
    return Done("The turn goes on as soon as a loop is free.", turn.id)


def cancel_turn(desk: Desk, asked: Asked) -> Done:
    reason = f"{asked.visitor.name} cancelled it"
    turn = turns.cancel_once(turns_of(desk), asked.path["turn"], reason)
    return Done("The turn is cancelled.", turn.id)


def answer_turn(desk: Desk, asked: Asked) -> Done:
    body: AnswerBody = asked.body
    turn = turns.answer_turn(turns_of(desk), asked.path["turn"], body.answer, question=body.call_id)
    return Done("The turn has its answer.", turn.id)


def settle_effect(desk: Desk, asked: Asked) -> Done:
    body: SettleBody = asked.body
    turn = turns.settle_effect(
        turns_of(desk), asked.path["turn"], body.outcome, body.value, call_id=body.call_id
    )
    return Done(f"The effect is settled: {body.outcome}.", turn.id)


# Mailboxes


def redrive_mailbox(desk: Desk, asked: Asked) -> Done:
    body: RedriveBody = asked.body
    name = asked.path["mailbox"]
    count = mailboxes.redrive_mailbox(mailboxes_of(desk), name, body.ids or None)
    return Done(f"Dead letters that are sent again: {count}.", name)
