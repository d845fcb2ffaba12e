"""What eval loops receive and reply: samples to try, and how they went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from afl.agents.experiment import Experiment
from afl.clock import SYSTEM_CLOCK
from afl.errors import UsageError
from afl.evals.dataset import Sample
from afl.evals.score import Score
from afl.ids import new_id, stable_id
from afl.mailbox.api import Message

In = TypeVar("In")
Exp = TypeVar("Exp")


@dataclass(frozen=True)
class EvalRequest(Generic[In, Exp]):
    """One sample to try under one experiment."""

    sample: Sample[In, Exp]
    experiment: Experiment
    request_id: str = field(default_factory=new_id)
    created_at: datetime = field(default_factory=SYSTEM_CLOCK.now)
    #: The evaluation that it is a part of, if its result is to be kept.
    evaluation_id: str | None = None


@dataclass(frozen=True)
class EvalResult:
    """How a sample went. The same request may have two results after a crash; `request_id` says
    that they are the same."""

    sample_id: str
    experiment_name: str
    score: Score
    #: How long the agent took.
    latency_ms: int = 0
    #: Why there is no score: the agent failed, or the evaluator did.
    error: str | None = None
    #: Where what is known about the turn is kept, on the machine that did it.
    bundle_path: str | None = None
    request_id: str = ""
    evaluation_id: str | None = None
    #: Which delivery of the request this is, counted from 1.
    attempt: int = 1
    #: That the models of the turn used.
    tokens: int = 0
    completed_at: datetime = field(default_factory=SYSTEM_CLOCK.now)
    #: What was evaluated, and by what, as the loop was told to call them.
    agent: str = ""
    evaluator: str = ""

    @property
    def success(self) -> bool:
        """Whether there is a score, good or bad."""
        return self.error is None

    @property
    def passed(self) -> bool:
        return self.success and self.score.passed


def request_for(
    sample: Sample[In, Exp], experiment: Experiment, evaluation_id: str | None = None
) -> EvalRequest[In, Exp]:
    """Ask for a sample. In an evaluation, the same question has the same id whenever it is asked;
    a sample or an experiment that was changed is another question.

    Raises UsageError for a sample of an evaluation that JSON cannot hold.
    """
    if evaluation_id is None:
        return EvalRequest(sample, experiment)
    facts = [
        *(sample.id, sample.input, sample.expected),
        *(experiment.name, experiment.overrides_tag, experiment.flags),
    ]
    try:
        text = msgspec.json.encode(facts, order="deterministic").decode()
    except (TypeError, ValueError, msgspec.MsgspecError) as problem:
        raise UsageError(
            f"sample {sample.id!r} cannot be part of an evaluation that is kept: {problem}"
        ) from None
    request_id = stable_id("eval", evaluation_id, text)
    return EvalRequest(sample, experiment, request_id, evaluation_id=evaluation_id)


def eval_request_of(message: Message[Any, Any]) -> EvalRequest[Any, Any]:
    """The request in a message, also of a mailbox without a type. Raises UsageError."""
    body = message.body
    if isinstance(body, EvalRequest):
        return body
    try:
        return msgspec.convert(body, EvalRequest[Any, Any])
    except msgspec.ValidationError as problem:
        raise UsageError(f"message {message.id} is no request to an eval loop: {problem}") from None


def eval_result_of(message: Message[Any, Any]) -> EvalResult:
    """The result in a message. Raises UsageError."""
    body = message.body
    if isinstance(body, EvalResult):
        return body
    try:
        return msgspec.convert(body, EvalResult)
    except msgspec.ValidationError as problem:
        raise UsageError(f"message {message.id} is no result of an eval loop: {problem}") from None


def failed_result(
    request: EvalRequest[Any, Any], error: str, *, attempt: int = 1, **facts: Any
) -> EvalResult:
    """The result of a sample that has no score."""
    return EvalResult(
        request.sample.id,
        request.experiment.name,
        Score(0.0, False, error),
        error=error,
        request_id=request.request_id,
        evaluation_id=request.evaluation_id,
        attempt=attempt,
        **facts,
    )


def written(result: EvalResult) -> bytes:
    return msgspec.json.encode(result)


def read(text: bytes | Mapping[str, Any]) -> EvalResult:
    """What was written. Raises msgspec.ValidationError."""
    if isinstance(text, bytes):
        return msgspec.json.decode(text, type=EvalResult)
    return msgspec.convert(text, EvalResult)
