"""Datasets are sent, and their results collected."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.evals.scene import Counted, Scene, dataset_of

from afl.clock import FakeClock
from afl.errors import UsageError
from afl.evals import (
    BASELINE,
    CONTROL,
    Dataset,
    EvalReport,
    EvalRequest,
    EvalResult,
    MemoryResults,
    Sample,
    Score,
    collect_results,
    requests_for,
    submit_dataset,
    submit_experiments,
    unfinished,
)
from afl.mailbox import FakeMailbox, InMemoryMailbox, MailboxConnectionError

Requests = InMemoryMailbox[EvalRequest[Any, Any], EvalResult]
Results = InMemoryMailbox[EvalResult, Any]


def result(request: str, sample: str = "a", error: str | None = None) -> EvalResult:
    return EvalResult(sample, "baseline", Score(1, True), error=error, request_id=request)


def test_every_request_says_where_its_result_goes() -> None:
    requests, results = Requests(), Results("results")
    sent = submit_dataset(dataset_of("a", "b"), BASELINE, requests, reply_to=results)
    messages = requests.receive(max_messages=10)
    assert [each.body for each in messages] == sent
    assert [each.body.sample.id for each in messages] == ["a", "b"]
    assert all(each.reply_to is results for each in messages)


def test_one_experiment_is_sent_after_the_other() -> None:
    requests = Requests()
    sent = submit_experiments(dataset_of("a", "b"), [BASELINE, CONTROL], requests)
    found = [(each.experiment.name, each.sample.id) for each in sent]
    assert found == [("baseline", "a"), ("baseline", "b"), ("control", "a"), ("control", "b")]
    assert len({each.request_id for each in sent}) == 4


def test_experiments_of_the_same_name_are_refused() -> None:
    with pytest.raises(UsageError, match="name them apart"):
        requests_for(dataset_of("a"), [BASELINE, BASELINE.with_flag("hot", True)])


def test_the_same_question_of_an_evaluation_has_the_same_id() -> None:
    def request_id(sample: Sample[Any, Any], evaluation: str = "one") -> str:
        return requests_for(Dataset([sample]), [BASELINE], evaluation)[0].request_id

    sample = Sample("a", {"x": 1, "y": 2}, "A")
    assert request_id(sample) == request_id(Sample("a", {"y": 2, "x": 1}, "A"))
    others: list[Sample[Any, Any]] = [
        Sample("b", sample.input, "A"),
        Sample("a", 7, "A"),
        Sample("a", sample.input, "B"),
    ]
    assert request_id(sample) not in [request_id(each) for each in others]
    assert request_id(sample) != request_id(sample, "two")


def test_without_an_evaluation_each_question_is_new() -> None:
    first, second = (requests_for(dataset_of("a"), [BASELINE])[0] for _ in range(2))
    assert first.request_id != second.request_id


def test_samples_that_json_cannot_hold_are_part_of_no_evaluation() -> None:
    dataset: Dataset[Any, Any] = Dataset([Sample("a", object())])
    assert requests_for(dataset, [BASELINE])
    with pytest.raises(UsageError, match="sample 'a' cannot be part of an evaluation"):
        requests_for(dataset, [BASELINE], "one")


def test_only_what_has_no_result_is_sent_again() -> None:
    kept, requests = MemoryResults(), Requests()
    wanted = requests_for(dataset_of("a", "b", "c"), [BASELINE], "one")
    for each, error in zip(wanted[:2], (None, "crashed"), strict=True):
        kept.keep(
            EvalResult(
                each.sample.id,
                "baseline",
                Score(0, False),
                error=error,
                request_id=each.request_id,
                evaluation_id="one",
            )
        )
    options: dict[str, Any] = {"evaluation_id": "one", "results": kept}
    sent = submit_dataset(dataset_of("a", "b", "c"), BASELINE, requests, **options)
    assert [each.sample.id for each in sent] == ["c"]
    assert requests.approximate_count() == 1
    again = unfinished(wanted, kept, retry_errors=True)
    assert [each.sample.id for each in again] == ["b", "c"]


# Collecting


def test_results_of_the_same_request_are_counted_once() -> None:
    results = Results()
    for each in ("1", "1", "1", "2"):
        results.send(result(each, sample=each))
    report = collect_results(results, 2, timeout_seconds=0)
    assert [each.sample_id for each in report] == ["1", "2"]
    assert report.missing == 0
    assert results.approximate_count() == 0


def test_a_score_counts_more_than_an_error_of_the_same_request() -> None:
    results = Results()
    results.send(result("1", error="lost"))
    results.send(result("1"))
    results.send(result("1", error="lost"))
    (found,) = collect_results(results, 2, timeout_seconds=0)
    assert found.success


def test_results_of_other_requests_are_dropped() -> None:
    results = Results()
    (wanted,) = requests_for(dataset_of("a"), [BASELINE])
    results.send(result("of another evaluation"))
    results.send(result(wanted.request_id))
    (found,) = collect_results(results, 1, timeout_seconds=0, requests=[wanted])
    assert found.request_id == wanted.request_id


def test_collecting_ends_when_the_time_is_over_and_says_what_is_missing() -> None:
    clock = FakeClock()
    results: Results = InMemoryMailbox("results", clock=clock)
    results.send(result("1"))
    report = collect_results(results, 3, timeout_seconds=0, clock=clock)
    assert (report.total, report.missing) == (1, 2)


def test_collecting_ends_when_the_mailbox_is_closed() -> None:
    results = Results()
    results.close()
    assert collect_results(results, 3, timeout_seconds=3600).missing == 3


def test_what_is_no_result_stops_nobody() -> None:
    results = Results()
    results.send("hello")  # type: ignore[arg-type]
    results.send(result("1"))
    assert collect_results(results, 2, timeout_seconds=0).total == 1
    assert [each.body for each in results.dead_letters()] == ["hello"]


def test_collecting_outlives_an_outage() -> None:
    results: FakeMailbox[EvalResult, Any] = FakeMailbox()
    results.send(result("1"))
    results.set_connection_error(MailboxConnectionError("nobody answers"))
    clock = FakeClock()
    reports: list[EvalReport] = []

    def collect() -> None:
        reports.append(collect_results(results, 1, timeout_seconds=60, clock=clock))

    thread = threading.Thread(target=collect)
    thread.start()
    clock.wait_for_waiters(1)
    results.clear_connection_error()
    clock.advance(1)
    thread.join()
    assert reports[0].total == 1


def test_a_dataset_makes_its_way() -> None:
    agent = Counted()
    report = Scene(agent, concurrency=4).ask(dataset_of(*"abcdefghij"))
    assert (report.total, report.pass_rate) == (10, 1.0)
    assert sorted(agent.asked) == list("abcdefghij")
