"""The record of one step: what it is, where it stands, what it knows.

The hierarchy of a run: the workflow root has no container; a block's `container_id` is the step
whose body it is; a statement's `block_id` is its block and its `container_id` that block's
container; a round of a foreach is a block whose `block_id` is the foreach block.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from afl.runtime.states import (
    TERMINAL_STATES,
    StepState,
    get_next_state,
    select_transitions,
)
from afl.runtime.types import (
    BLOCK_TYPES,
    BlockId,
    FacetAttributes,
    ObjectType,
    StatementId,
    StepId,
    VersionInfo,
    WorkflowId,
    copied,
    step_id,
)

#: One for all steps: it cannot be changed, and one for each was a fifth of what a new step costs.
_THIS_VERSION = VersionInfo()


@dataclass
class StepTransition:
    """Where a step is going."""

    original_state: str
    current_state: str
    changed: bool = False
    request_transition: bool = False
    push_me: bool = False
    error: Exception | None = None

    @classmethod
    def initial(cls) -> StepTransition:
        return cls(StepState.CREATED, StepState.CREATED, request_transition=True)

    @property
    def is_requesting_state_change(self) -> bool:
        return self.request_transition

    @property
    def is_requesting_push(self) -> bool:
        return self.push_me

    @property
    def has_error(self) -> bool:
        return self.error is not None

    def request_state_change(self, wanted: bool = True) -> None:
        self.request_transition = wanted

    def change_and_transition(self, state: str) -> None:
        self.current_state = state
        self.changed = True
        self.request_transition = True

    def set_push_me(self, wanted: bool = True) -> None:
        self.push_me = wanted

    def set_error(self, error: Exception) -> None:
        self.error = error

    def reset_for_iteration(self) -> None:
        self.original_state = self.current_state
        self.changed = False
        self.push_me = False

    def commit(self) -> None:
        self.reset_for_iteration()


@dataclass
class StepDefinition:
    id: StepId
    object_type: str
    workflow_id: WorkflowId
    statement_id: StatementId | None = None
    container_type: str | None = None
    container_id: StepId | None = None
    block_id: BlockId | None = None
    root_id: StepId | None = None
    state: str = StepState.CREATED
    transition: StepTransition = field(default_factory=StepTransition.initial)
    facet_name: str = ""
    attributes: FacetAttributes = field(default_factory=FacetAttributes)
    version: VersionInfo = _THIS_VERSION
    foreach_var: str | None = None
    #: The element of a round; of a foreach, how many rounds it has. Of an event with a script in
    #: front, what that has left, once a part of a result has come.
    foreach_value: Any = None
    timestamp: int | None = None
    #: The name in the text; of a block, what it is (`andThen:0`).
    name: str = ""
    #: Place among its kind: the number of a round, of a case, of the round a yield is in.
    position: int = 0
    #: How many others it waits for: a statement for steps it reads, a block for its statements,
    #: a container for its blocks.
    pending: int = 0
    #: How many of those ended in error.
    failed: int = 0
    #: How many calls it is below the root.
    depth: int = 0
    #: How many `catch` clauses were entered.
    caught: int = 0
    #: Order of the last partial result of an attempt; earlier ones come too late. Of a foreach,
    #: the number of the round whose error counts: the first that failed.
    update_order: int = 0
    #: Grows with every write; whoever writes an older one is refused.
    sequence: int = 0

    @classmethod
    def create(
        cls,
        workflow_id: WorkflowId,
        object_type: str,
        facet_name: str = "",
        statement_id: StatementId | None = None,
        container_id: StepId | None = None,
        container_type: str | None = None,
        block_id: BlockId | None = None,
        root_id: StepId | None = None,
    ) -> StepDefinition:
        return cls(
            id=step_id(),
            object_type=object_type,
            workflow_id=workflow_id,
            statement_id=statement_id,
            container_type=container_type,
            container_id=container_id,
            block_id=block_id,
            root_id=root_id,
            facet_name=facet_name,
        )

    # Where it stands

    @property
    def current_state(self) -> str:
        return self.state

    @property
    def is_complete(self) -> bool:
        return StepState.is_complete(self.state)

    @property
    def is_error(self) -> bool:
        return StepState.is_error(self.state)

    @property
    def is_terminal(self) -> bool:
        return self.state in TERMINAL_STATES

    @property
    def is_block(self) -> bool:
        return self.object_type in BLOCK_TYPES

    @property
    def is_statement(self) -> bool:
        return ObjectType.is_statement(self.object_type)

    @property
    def is_requesting_state_change(self) -> bool:
        return self.transition.is_requesting_state_change

    # Moving it

    def change_state(self, state: str) -> None:
        self.state = state
        self.transition.current_state = state
        self.transition.changed = True

    def request_state_change(self, wanted: bool = True) -> None:
        self.transition.request_state_change(wanted)

    def mark_error(self, error: Exception | None = None) -> None:
        self.change_state(StepState.STATEMENT_ERROR)
        self.transition.request_transition = False
        if error is not None:
            self.transition.set_error(error)

    def mark_completed(self) -> None:
        self.change_state(StepState.STATEMENT_COMPLETE)
        self.transition.request_transition = False

    def select_next_state(self) -> str | None:
        """The state that follows in the chain of this object type."""
        return get_next_state(self.state, select_transitions(self.object_type))

    def clone(self) -> StepDefinition:
        """A copy that shares nothing but what nobody can change."""
        # By hand: deepcopy takes twenty times as long, and every read makes a copy.
        twin = copy.copy(self)
        twin.transition = copy.copy(self.transition)
        twin.attributes = self.attributes.clone()
        twin.foreach_value = copied(self.foreach_value)
        return twin

    # What it knows

    def get_attribute(self, name: str) -> Any:
        """A return of this name, else a parameter; None if there is neither."""
        found = self.attributes.returns.get(name) or self.attributes.params.get(name)
        return found.value if found else None

    def set_attribute(self, name: str, value: Any, is_return: bool = False) -> None:
        if is_return:
            self.attributes.set_return(name, value)
        else:
            self.attributes.set_param(name, value)
