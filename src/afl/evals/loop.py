"""Evaluations as a loop: each request is a sample, and its result is the reply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from afl import telemetry
from afl.agents.evaluation import PromptResponse
from afl.agents.experiment import Experiment
from afl.agents.session import Session
from afl.backoff import Backoff
from afl.clock import SYSTEM_CLOCK, Clock
from afl.errors import StoreUnavailable, UsageError
from afl.evals.dataset import Sample
from afl.evals.evaluators import Evaluator, adapt
from afl.evals.requests import EvalRequest, EvalResult, eval_request_of, failed_result
from afl.evals.results import ResultStore
from afl.evals.score import Score
from afl.ids import is_id, stable_id
from afl.log import get_logger, redact
from afl.loops.agent_loop import AgentLoop
from afl.loops.bundle_config import BundleConfig
from afl.loops.loop import MailboxLoop
from afl.loops.mailbox_source import LEASE_S, GivenUp, text_of
from afl.loops.turn import Turn
from afl.mailbox.api import Mailbox, Message
from afl.mailbox.failure import DLQPolicy
from afl.work.source import Job

V = TypeVar("V")

_log = get_logger(__name__)

_BACKOFF = Backoff(initial=0.2, maximum=10.0)


@dataclass(frozen=True)
class EvalLoopConfig:
    #: Of each sample: one zip, in a folder of its own below the target.
    debug_bundle: BundleConfig | None = None


class EvalLoop(MailboxLoop[EvalRequest[Any, Any], EvalResult]):
    """Lets an agent do samples, and scores what it answers.

    `loop` need not run; if it does, its own requests go on beside the samples. `evaluator` gets
    the output, what is expected, and the session of the turn if it wants it.

    A result goes to the mailbox that the request names, or to `responses`. With `results`, those
    of requests that belong to an evaluation are kept there first: a sample that has a score is not
    done again, whoever asks for it. A request whose result nobody would see is not done: it
    becomes a dead letter.

    Results say `agent_name` and `evaluator_name`, by which people know what they are about.

    Without a policy in `dlq`, an agent that fails is an error of the sample. Evaluators that fail
    always are: the agent is never asked again because of them.
    """

    warns_of_failures = False  # they are results

    def __init__(
        self,
        *,
        loop: AgentLoop[Any, Any],
        evaluator: Evaluator,
        requests: Mailbox[EvalRequest[Any, Any], EvalResult],
        responses: Mailbox[EvalResult, Any] | None = None,
        results: ResultStore | None = None,
        config: EvalLoopConfig | None = None,
        dlq: DLQPolicy[EvalRequest[Any, Any]] | None = None,
        worker_id: str | None = None,
        concurrency: int = 1,
        name: str | None = None,
        lease_s: float = LEASE_S,
        clock: Clock = SYSTEM_CLOCK,
        agent_name: str = "",
        evaluator_name: str = "",
    ) -> None:
        super().__init__(
            requests=requests,
            responses=responses,
            dlq=dlq,
            worker_id=worker_id,
            concurrency=concurrency,
            name=name,
            lease_s=lease_s,
            clock=clock,
        )
        self.config = config or EvalLoopConfig()
        self._loop = loop
        self._evaluate = adapt(evaluator)
        self._results = results
        self._names = {"agent": agent_name, "evaluator": evaluator_name}

    def job(self, message: Message[EvalRequest[Any, Any], EvalResult]) -> Job:
        request = eval_request_of(message)
        if message.reply_to is None and self._responses is None and not self._is_kept(request):
            raise GivenUp(
                f"nobody would see the result of sample {request.sample.id!r}: send it with "
                "reply_to, give the loop responses, or results and the request an evaluation_id"
            )
        return super().job(message)

    def handle(self, message: Message[EvalRequest[Any, Any], EvalResult], turn: Turn) -> EvalResult:
        request = eval_request_of(message)
        found = self._found(request, turn)
        if found is not None:
            return found
        result = self._kept(self._evaluated(request, turn), turn)
        if not turn.is_cancelled:
            self._tell(result)
        return result

    def failure(
        self,
        message: Message[EvalRequest[Any, Any], EvalResult],
        error: BaseException,  # noqa: ARG002 - the reason says what it says
        reason: str,
    ) -> EvalResult:
        try:
            request = eval_request_of(message)
        except UsageError:
            nobody = Sample[Any, Any]("", None)
            request = EvalRequest(nobody, Experiment(""), request_id=message.id)
        result = failed_result(
            request,
            redact(reason),
            attempt=message.delivery_count,
            completed_at=self._clock.now(),
            **self._names,
        )
        if self._results is not None and request.evaluation_id is not None:
            # If it cannot be kept now, the end of the message is tried again.
            result = self._results.keep(result)
        self._tell(result)
        return result

    def _tell(self, result: EvalResult) -> None:
        telemetry.emit(
            telemetry.SampleEvaluated(
                at=self._clock.now(),
                loop=self.name,
                request=result.request_id,
                evaluation=result.evaluation_id,
                experiment=result.experiment_name,
                sample=result.sample_id,
                passed=result.passed,
                error=result.error,
                duration_s=result.latency_ms / 1000,
            )
        )

    # One sample

    def _evaluated(self, request: EvalRequest[Any, Any], turn: Turn) -> EvalResult:
        target = self._bundle_target(request)
        if target is not None:
            return self._bundled(request, turn, target)
        began = self._clock.monotonic()
        response, session = self._loop.execute(request.sample.input, experiment=request.experiment)
        latency_ms = round((self._clock.monotonic() - began) * 1000)
        return self._result(request, turn, response, session, latency_ms)

    def _bundled(self, request: EvalRequest[Any, Any], turn: Turn, target: str) -> EvalResult:
        executed = self._loop.execute_with_bundle(
            request.sample.input,
            bundle_target=target,
            bundle_config=self.config.debug_bundle,
            experiment=request.experiment,
        )
        with executed as turned:
            result = self._result(request, turn, turned.response, turned.session, turned.latency_ms)
            turned.write_metadata("eval", {"request": request, "result": result})
        return replace(result, bundle_path=turned.bundle_path)

    def _bundle_target(self, request: EvalRequest[Any, Any]) -> str | None:
        bundle = self.config.debug_bundle
        if bundle is None or bundle.target is None:
            return None
        given = request.request_id
        # Whoever sends requests chooses no folders.
        return str(Path(bundle.target) / (given if is_id(given) else stable_id("bundle", given)))

    def _result(
        self,
        request: EvalRequest[Any, Any],
        turn: Turn,
        response: PromptResponse[Any],
        session: Session,
        latency_ms: int,
    ) -> EvalResult:
        score, error = self._scored(request.sample, response.output, session)
        return EvalResult(
            request.sample.id,
            request.experiment.name,
            score,
            latency_ms,
            error,
            request_id=request.request_id,
            evaluation_id=request.evaluation_id,
            attempt=turn.attempt,
            tokens=session.usage.total,
            completed_at=self._clock.now(),
            **self._names,
        )

    def _scored(
        self, sample: Sample[Any, Any], output: Any, session: Session
    ) -> tuple[Score, str | None]:
        """The score, and why it is none."""
        if output is None and sample.expected is not None:
            return _no_score("the agent gave no output")
        try:
            return self._evaluate(output, sample.expected, session), None
        except Exception as problem:  # the agent has done its part, and does not do it again
            return _no_score(f"the evaluator failed: {redact(text_of(problem))}")

    # What is kept

    def _is_kept(self, request: EvalRequest[Any, Any]) -> bool:
        return self._results is not None and request.evaluation_id is not None

    def _found(self, request: EvalRequest[Any, Any], turn: Turn) -> EvalResult | None:
        """The score that this very request has already."""
        if self._results is None or request.evaluation_id is None:
            return None
        find = partial(
            self._results.find, request.evaluation_id, request.experiment.name, request.sample.id
        )
        found = self._patiently(find, turn)
        if found is None or not found.success or found.request_id != request.request_id:
            return None
        return found

    def _kept(self, result: EvalResult, turn: Turn) -> EvalResult:
        """Keep it, however long that takes: the agent has done its part. Unless it was given up
        meanwhile: then somebody else says what became of the sample."""
        results = self._results
        if results is None or result.evaluation_id is None or turn.is_cancelled:
            return result
        return self._patiently(partial(results.keep, result), turn)

    def _patiently(self, action: Callable[[], V], turn: Turn) -> V:
        tries = 0
        while True:
            try:
                return action()
            except StoreUnavailable as problem:
                tries += 1
                _log.warning("results_not_reached", tries=tries, error=str(problem))
                turn.beat()
                if self._clock.wait(turn.cancellation, _BACKOFF.delay(tries)):
                    raise


def _no_score(reason: str) -> tuple[Score, str]:
    return Score(0.0, False, reason), reason
