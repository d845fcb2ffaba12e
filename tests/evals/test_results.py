"""What is kept of evaluations: the same promises wherever it is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from afl.errors import ConfigurationError, StoreClosed, UsageError
from afl.evals import EvalResult, MemoryResults, ResultStore, Score, open_results
from afl.ids import new_id

Open = Callable[[], ResultStore]


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens the same place again and again."""
    shared = MemoryResults()
    if request.param == "memory":
        yield lambda: shared
        return
    is_file = request.param == "sqlite"
    url = (
        f"sqlite:///{tmp_path}/afl.db"
        if is_file
        else str(request.getfixturevalue(f"{request.param}_url"))
    )
    stores: list[ResultStore] = []

    def open_again() -> ResultStore:
        stores.append(open_results(url))
        return stores[-1]

    yield open_again
    for each in stores:
        each.close()


@pytest.fixture
def evaluation() -> str:
    """All tests share the servers."""
    return f"evaluation {new_id()}"


def result(
    evaluation: str,
    sample: str = "s",
    *,
    request: str = "r",
    error: str | None = None,
    experiment: str = "a",
    reason: str = "",
) -> EvalResult:
    return EvalResult(
        sample,
        experiment,
        Score(0.5, False, reason),
        12,
        error,
        request_id=request,
        evaluation_id=evaluation,
    )


def test_what_is_kept_is_found_again_from_elsewhere(opened: Open, evaluation: str) -> None:
    kept = result(evaluation, "ein Fall: ü '\" \\ \n")
    assert opened().keep(kept) == kept
    assert opened().find(evaluation, "a", kept.sample_id) == kept
    assert opened().results(evaluation) == [kept]
    assert evaluation in opened().evaluations()


def test_what_nobody_kept_is_not_found(opened: Open, evaluation: str) -> None:
    opened().keep(result(evaluation))
    assert opened().find(evaluation, "a", "other") is None
    assert opened().find(evaluation, "b", "s") is None
    assert opened().results(new_id()) == []


def test_the_first_score_stays(opened: Open, evaluation: str) -> None:
    store = opened()
    first = store.keep(result(evaluation, reason="first"))
    assert store.keep(result(evaluation, reason="second")) == first
    assert store.keep(result(evaluation, error="crashed")) == first
    assert opened().results(evaluation) == [first]


def test_an_error_gives_way_to_what_comes_later(opened: Open, evaluation: str) -> None:
    store = opened()
    store.keep(result(evaluation, error="crashed"))
    again = store.keep(result(evaluation, error="crashed again"))
    assert again.error == "crashed again"
    score = store.keep(result(evaluation))
    assert score.success
    assert opened().results(evaluation) == [score]


def test_another_request_is_another_question(opened: Open, evaluation: str) -> None:
    store = opened()
    store.keep(result(evaluation, request="r 1"))
    changed = store.keep(result(evaluation, request="r 2", reason="changed"))
    assert opened().results(evaluation) == [changed]
    assert changed.request_id == "r 2"


def test_results_are_sorted_by_experiment_and_sample(opened: Open, evaluation: str) -> None:
    store = opened()
    keys = [("b", "1"), ("a", "10"), ("a", "B"), ("a", "ä"), ("a", "a")]
    for experiment, sample in keys:
        store.keep(result(evaluation, sample, experiment=experiment))
    found = [(each.experiment_name, each.sample_id) for each in store.results(evaluation)]
    assert found == sorted(keys)


def test_names_do_not_run_into_each_other(opened: Open, evaluation: str) -> None:
    store = opened()
    store.keep(result(evaluation, "b c", experiment="a"))
    store.keep(result(evaluation, "c", experiment="a b"))
    assert len(store.results(evaluation)) == 2


def test_an_evaluation_can_be_discarded(opened: Open, evaluation: str) -> None:
    store = opened()
    other = f"{evaluation} 2"
    for each in (evaluation, other):
        store.keep(result(each, "1"))
        store.keep(result(each, "2"))
    assert store.discard(evaluation) == 2
    assert store.discard(evaluation) == 0
    assert store.results(evaluation) == []
    assert len(store.results(other)) == 2


def test_many_who_keep_the_same_sample_hear_of_the_same_score(
    opened: Open, evaluation: str
) -> None:
    store = opened()
    heard: list[EvalResult] = []

    def keep(number: int) -> None:
        heard.append(store.keep(result(evaluation, reason=str(number))))

    threads = [threading.Thread(target=keep, args=(each,)) for each in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(heard) == 8
    assert set(heard) == set(store.results(evaluation))


def test_a_result_of_no_evaluation_is_refused(opened: Open) -> None:
    with pytest.raises(UsageError, match="belongs to no evaluation"):
        opened().keep(EvalResult("s", "a", Score(1, True)))


def test_a_store_that_is_closed_says_so(tmp_path: Path) -> None:
    store = open_results(f"sqlite:///{tmp_path}/afl.db")
    store.close()
    store.close()
    with pytest.raises(StoreClosed):
        store.results("one")


@pytest.mark.parametrize("url", ["afl.db", "ftp://host/x"])
def test_a_url_that_names_no_place_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="is no place for results"):
        open_results(url)


def test_memory_ends_with_whoever_opened_it() -> None:
    open_results("memory:").keep(result("one"))
    assert open_results("memory:").results("one") == []
