"""Sending whole datasets to eval loops, and collecting what comes of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from afl.agents.experiment import Experiment
from afl.clock import SYSTEM_CLOCK, Clock
from afl.errors import StoreUnavailable, UsageError
from afl.evals.dataset import Dataset
from afl.evals.report import EvalReport
from afl.evals.requests import EvalRequest, EvalResult, eval_result_of, request_for
from afl.evals.results import ResultStore
from afl.log import get_logger
from afl.mailbox.api import MAX_MESSAGES, Mailbox, Message
from afl.mailbox.errors import ReceiptHandleExpiredError

_log = get_logger(__name__)

#: How long a received result is hidden from others; it is acknowledged at once.
_LEASE_S = 60
_LONGEST_WAIT_S = 20.0
#: After an outage.
_PAUSE_S = 1.0


def submit_dataset(
    dataset: Dataset[Any, Any],
    experiment: Experiment,
    requests: Mailbox[EvalRequest[Any, Any], EvalResult],
    *,
    reply_to: Mailbox[EvalResult, Any] | None = None,
    evaluation_id: str | None = None,
    results: ResultStore | None = None,
    retry_errors: bool = False,
) -> list[EvalRequest[Any, Any]]:
    """Send every sample to an eval loop; the requests, in the order of the dataset.

    `reply_to` is the mailbox that `collect_results` reads; without it, results go to the
    `responses` of the loop. With an `evaluation_id`, a loop that has `results` keeps them. Give
    the same `results` here, and samples that have a result already are not sent again; with
    `retry_errors`, those without a score are.
    """
    return submit_experiments(
        dataset,
        [experiment],
        requests,
        reply_to=reply_to,
        evaluation_id=evaluation_id,
        results=results,
        retry_errors=retry_errors,
    )


def submit_experiments(
    dataset: Dataset[Any, Any],
    experiments: Sequence[Experiment],
    requests: Mailbox[EvalRequest[Any, Any], EvalResult],
    *,
    reply_to: Mailbox[EvalResult, Any] | None = None,
    evaluation_id: str | None = None,
    results: ResultStore | None = None,
    retry_errors: bool = False,
) -> list[EvalRequest[Any, Any]]:
    """Like `submit_dataset`, for one experiment after the other."""
    wanted = requests_for(dataset, experiments, evaluation_id)
    if results is not None:
        wanted = unfinished(wanted, results, retry_errors=retry_errors)
    for each in wanted:
        requests.send(each, reply_to=reply_to)
    return wanted


def requests_for(
    dataset: Dataset[Any, Any],
    experiments: Sequence[Experiment],
    evaluation_id: str | None = None,
) -> list[EvalRequest[Any, Any]]:
    """One request for each experiment and sample. Raises UsageError if two experiments have the
    same name."""
    names = [each.name for each in experiments]
    if len(set(names)) < len(names):
        raise UsageError(f"results are told apart by experiments, so name them apart: {names}")
    return [request_for(sample, each, evaluation_id) for each in experiments for sample in dataset]


def unfinished(
    requests: Iterable[EvalRequest[Any, Any]], results: ResultStore, *, retry_errors: bool = False
) -> list[EvalRequest[Any, Any]]:
    """Those that have no result yet."""
    wanted = list(requests)
    finished: set[str] = set()
    for evaluation_id in {each.evaluation_id for each in wanted}:
        kept = [] if evaluation_id is None else results.results(evaluation_id)
        finished |= {each.request_id for each in kept if each.success or not retry_errors}
    return [each for each in wanted if each.request_id not in finished]


def collect_results(
    results: Mailbox[EvalResult, Any],
    expected_count: int,
    *,
    timeout_seconds: float = 300,
    requests: Iterable[EvalRequest[Any, Any]] | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> EvalReport:
    """Receive results until there are so many, or the time is over; the report says how many are
    missing.

    Results of the same request are counted once: the first that has a score, or else the first
    one. With `requests`, results of others are dropped. What is no result becomes a dead letter.
    """
    wanted = None if requests is None else {each.request_id for each in requests}
    found: dict[str, EvalResult] = {}
    deadline = clock.monotonic() + timeout_seconds
    while len(found) < expected_count:
        left_s = deadline - clock.monotonic()
        for message in _received(results, max(left_s, 0.0), clock):
            result = _result_in(message, results)
            if result is not None and (wanted is None or result.request_id in wanted):
                _note(found, result, message.id)
        if left_s <= 0 or results.closed:
            break
    return EvalReport(tuple(found.values()), expected_count)


def _received(
    results: Mailbox[EvalResult, Any], left_s: float, clock: Clock
) -> Sequence[Message[Any, Any]]:
    try:
        return results.receive(
            max_messages=MAX_MESSAGES,
            visibility_timeout=_LEASE_S,
            wait_time_seconds=min(left_s, _LONGEST_WAIT_S),
        )
    except StoreUnavailable as problem:
        _log.warning("results_not_received", mailbox=results.name, error=str(problem))
        clock.sleep(min(left_s, _PAUSE_S))
        return ()


def _result_in(message: Message[Any, Any], results: Mailbox[EvalResult, Any]) -> EvalResult | None:
    """What a message brings, which ends with this."""
    try:
        result = eval_result_of(message)
    except UsageError as problem:
        results.dead_letter(message, str(problem), problem)
        return None
    # Who gets it again knows it by its id.
    with suppress(ReceiptHandleExpiredError, StoreUnavailable):
        message.acknowledge()
    return result


def _note(found: dict[str, EvalResult], result: EvalResult, message_id: str) -> None:
    # Results that were made by hand may have no id; each of them is one of its own.
    key = result.request_id or message_id
    if key not in found or (result.success and not found[key].success):
        found[key] = result
