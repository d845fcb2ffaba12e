"""The beginning of a step: its parameters, and the task of an event facet."""

from __future__ import annotations

from typing import Any

from afl.ids import new_id
from afl.lang.expressions import Environment, as_text, evaluate
from afl.lang.names import Declared
from afl.runtime.arguments import (
    NO_POLICY,
    Policy,
    attributes_of,
    call_values,
    completed,
    policy_of,
)
from afl.runtime.context import ExecutionContext
from afl.runtime.entities import EVENT_DATA, LogDefinition, NoteType
from afl.runtime.errors import StepFailure
from afl.runtime.handlers.tasks import new_task
from afl.runtime.plan import Statement
from afl.runtime.step import StepDefinition
from afl.runtime.types import ObjectType
from afl.telemetry import TaskQueued


class FacetInitHandler:
    """FACET_INIT_BEGIN: the arguments become parameters; of a schema or a yield, values."""

    def process(self, step: StepDefinition, context: ExecutionContext) -> bool:
        if step.object_type == ObjectType.WORKFLOW:
            _initialize_root(step, context)
            return True
        if step.depth > context.max_depth:
            raise StepFailure(
                f"calls are nested deeper than {context.max_depth}; does '{step.facet_name}' "
                "call itself without an end?",
                "RecursionError",
            )
        is_yield = step.object_type == ObjectType.YIELD_ASSIGNMENT
        initialize = _initialize_yield if is_yield else _initialize_call
        initialize(step, context.statement_of(step), context)
        return True


def _initialize_root(step: StepDefinition, context: ExecutionContext) -> None:
    """The inputs came with it; defaults are still to be computed. Implicits are for calls."""
    given = {name: each.value for name, each in step.attributes.params.items()}
    values = completed(context.plan.names, None, context.workflow, given)
    step.attributes.params = attributes_of(values, context.workflow.params)


def _initialize_call(step: StepDefinition, statement: Statement, context: ExecutionContext) -> None:
    callee = statement.callee
    if callee is None:
        raise StepFailure(
            f"Facet '{step.facet_name}' is not declared in the program, so nothing can do its "
            "work; declare it as a facet or an event facet",
            "UndeclaredFacet",
        )
    environment = _environment(step, statement, context)
    values = call_values(
        context.plan.names, statement.namespace, statement.call, callee, environment
    )
    attributes = attributes_of(values, callee.params)
    if callee.is_schema:
        step.attributes.returns = attributes
    else:
        step.attributes.params = attributes


def _initialize_yield(
    step: StepDefinition, statement: Statement, context: ExecutionContext
) -> None:
    """A yield gives what it says: no defaults, no implicits."""
    environment = _environment(step, statement, context)
    values = {each.name: evaluate(each.value, environment) for each in statement.call.args}
    returns = statement.callee.returns if statement.callee is not None else {}
    step.attributes.params = attributes_of(values, returns)


def _environment(
    step: StepDefinition, statement: Statement, context: ExecutionContext
) -> Environment:
    block = context.require(step.block_id)
    if len(statement.needs) > 1:
        context.prefetch(
            context.step_id_of(each, block, statement.block) for each in statement.needs
        )
    return context.environment(block, statement.block)


class EventTransmitHandler:
    """EVENT_TRANSMIT: an event facet leaves a task, and waits for the answer.

    What the language itself can answer (`sys.log`, `sys.assert`) is answered here.
    """

    def process(self, step: StepDefinition, context: ExecutionContext) -> bool:
        builtin = _BUILTINS.get(step.facet_name)
        if builtin is not None:
            builtin(step, context)
            return True
        declared = context.statement_of(step).callee
        assert declared is not None, "only events have work in this state"
        self._transmit(step, declared, context)
        return False

    def _transmit(
        self, step: StepDefinition, declared: Declared, context: ExecutionContext
    ) -> None:
        payload = {name: each.value for name, each in step.attributes.params.items()}
        policy = _policy(step, declared, context, payload)
        context.queue_task(new_task(step, context, declared.qualified, EVENT_DATA, payload, policy))
        context.tell(TaskQueued, step=step.id, facet=declared.qualified)


def is_event(step: StepDefinition, context: ExecutionContext) -> bool:
    """Whether a step asks for an answer; it follows from the text alone."""
    if step.object_type == ObjectType.WORKFLOW:
        return False
    callee = context.statement_of(step).callee
    return step.facet_name in _BUILTINS or (callee is not None and callee.is_event)


def _policy(
    step: StepDefinition, declared: Declared, context: ExecutionContext, payload: dict[str, Any]
) -> Policy:
    statement = context.statement_of(step)
    if not statement.call.mixins and not declared.mixins:
        return NO_POLICY
    environment = _environment(step, statement, context)
    names, namespace = context.plan.names, statement.namespace
    return policy_of(names, namespace, statement.call, declared, environment, payload)


# What the language answers itself


def _log(step: StepDefinition, context: ExecutionContext) -> None:
    level = str(step.attributes.get_param("level"))
    statement = context.statement_of(step)
    place = statement.place
    context.add_log(
        LogDefinition(
            uuid=new_id(),
            order=0,
            runner_id=context.run.uuid,
            step_id=step.id,
            object_id=step.id,
            object_type=step.object_type,
            note_type=_NOTE_TYPES.get(level, NoteType.INFO),
            message=as_text(step.attributes.get_param("message")),
            state=step.state,
            line=place.get("line", 0),
            file=place.get("source", ""),
            details={"level": level},
            time=context.now,
        )
    )


_NOTE_TYPES = {"error": NoteType.ERROR, "warning": NoteType.WARNING}


def _assert(step: StepDefinition, _context: ExecutionContext) -> None:
    if step.attributes.get_param("condition") is not True:
        raise StepFailure(as_text(step.attributes.get_param("message")), "AssertionError")


_BUILTINS = {"sys.log": _log, "sys.assert": _assert}
