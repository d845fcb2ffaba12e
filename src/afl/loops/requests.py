"""What agent loops receive and reply: requests, results, and who did them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, TypeVar

import msgspec

from afl.agents.budget import Price
from afl.agents.deadline import Deadline
from afl.agents.experiment import Experiment
from afl.agents.model import DEFAULT_MODEL
from afl.agents.turn_budget import TurnBudget
from afl.clock import SYSTEM_CLOCK
from afl.errors import UsageError
from afl.ids import new_id, stable_id
from afl.loops.bundle_config import BundleConfig
from afl.mailbox.api import Message

T = TypeVar("T")
Out = TypeVar("Out")


@dataclass(frozen=True)
class RunContext:
    """Who does a request, for the how manieth time: what logs and replies are told apart by."""

    #: Of this attempt alone.
    run_id: str = field(default_factory=new_id)
    #: The same for all attempts.
    request_id: str = ""
    session_id: str | None = None
    #: Which delivery of the request it is, counted from 1.
    attempt: int = 1
    worker_id: str = ""
    trace_id: str | None = None
    span_id: str | None = None

    def to_log_context(self) -> dict[str, str]:
        """As fields of log lines, without those that are unknown."""
        facts = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: str(value) for name, value in facts.items() if value is not None}


@dataclass(frozen=True)
class AgentLoopRequest(Generic[T]):
    """One request to an agent. What it limits goes before what the loop is configured with."""

    request: T
    budget: TurnBudget | None = None
    deadline: Deadline | None = None
    resources: Mapping[str, Any] | None = None
    request_id: str = field(default_factory=new_id)
    created_at: datetime = field(default_factory=SYSTEM_CLOCK.now)
    #: Of whoever sent it: traces go on with it.
    run_context: RunContext | None = None
    experiment: Experiment | None = None
    debug_bundle: BundleConfig | None = None


class TurnStatus(StrEnum):
    DONE = "done"
    FAILED = "failed"
    #: Waits for something; `resume_token` is the right to go on.
    SUSPENDED = "suspended"


@dataclass(frozen=True)
class AgentLoopResult(Generic[Out]):
    """What came of a request. The same request may have two after a crash: `run_context` tells
    them apart, and `request_id` that they are the same."""

    request_id: str
    output: Out | None = None
    error: str | None = None
    session_id: str | None = None
    run_context: RunContext | None = None
    completed_at: datetime = field(default_factory=SYSTEM_CLOCK.now)
    #: Where what is known about the turn is kept, on the machine that did it.
    bundle_path: str | None = None
    status: TurnStatus = TurnStatus.DONE
    resume_token: str | None = None

    def __post_init__(self) -> None:
        if self.error is not None and self.status is TurnStatus.DONE:
            object.__setattr__(self, "status", TurnStatus.FAILED)

    @property
    def success(self) -> bool:
        return self.status is TurnStatus.DONE


@dataclass(frozen=True)
class AgentLoopConfig:
    """What holds for all requests of a loop, unless they say otherwise."""

    budget: TurnBudget | None = None
    resources: Mapping[str, Any] | None = None
    debug_bundle: BundleConfig | None = None
    #: Who is asked, unless a prompt names somebody else.
    model: str = DEFAULT_MODEL
    #: Of models, by name: needed for budgets with a cost.
    prices: Mapping[str, Price] = field(default_factory=dict)
    #: How often a model may use tools before it answers.
    max_tool_rounds: int = 50


def request_of(message: Message[Any, Any]) -> AgentLoopRequest[Any]:
    """The request in a message. Who sends a bare body asks with that.

    Raises UsageError for what looks like a request and is none.
    """
    if message.body_error is not None:
        raise message.body_error
    body = message.body
    if isinstance(body, AgentLoopRequest):
        return body
    if isinstance(body, Mapping) and {"request", "request_id"} <= body.keys():
        try:
            return msgspec.convert(body, AgentLoopRequest[Any])
        except msgspec.ValidationError as problem:
            raise UsageError(f"message {message.id} is no request: {problem}") from None
    return AgentLoopRequest(body, request_id=message.id, created_at=message.enqueued_at)


def context_of(message: Message[Any, Any], worker_id: str) -> RunContext:
    """Who does this delivery of a message: always the same for the same delivery, also if there
    is no request in it."""
    try:
        request = request_of(message)
    except UsageError:
        request = AgentLoopRequest(None, request_id=_given_id(message.body) or message.id)
    sender = request.run_context or RunContext()
    return RunContext(
        run_id=stable_id("run", message.id, message.receipt_handle),
        request_id=request.request_id,
        attempt=message.delivery_count,
        worker_id=worker_id,
        trace_id=sender.trace_id,
        span_id=sender.span_id,
    )


def _given_id(body: Any) -> str | None:
    """Its sender knows the request by this one, whatever else is wrong with it."""
    given = body.get("request_id") if isinstance(body, Mapping) else None
    return given if isinstance(given, str) else None


#: As they were called before.
MainLoopRequest = AgentLoopRequest
MainLoopResult = AgentLoopResult
MainLoopConfig = AgentLoopConfig
