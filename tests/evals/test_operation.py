"""What `afl eval` is made of: names become agents, and evaluations go on."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.evals.scene import Counted, Preparing, agent_of, dataset_of
from tests.loops.office import Gate

from afl.agents.adapters.scripted import ScriptedAdapter
from afl.errors import NotFound, UsageError
from afl.evals import BASELINE, EvalReport, EvalResult, Experiment, MemoryResults, Score, contains
from afl.ids import new_id
from afl.operations import eval_names, evals

MODULE = """\
from dataclasses import dataclass

from afl.loops import AgentLoop
from afl.mailbox import InMemoryMailbox


@dataclass
class Question:
    text: str


def ask(question: Question) -> str:
    return question.text


class Unreadable:
    pass


def strange(question: Unreadable) -> str:
    return "?"


loop = AgentLoop.from_function(ask, requests=InMemoryMailbox())
number = 7


def make():
    return loop


def make_nothing():
    return None


class Broken:
    def __init__(self):
        raise ValueError("no key")


class Box:
    loop = loop
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module in the working directory, which no other test has."""
    name = f"agent_{new_id().replace('-', '')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    (tmp_path / "broken.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return name


# Names


@pytest.mark.parametrize("name", ["loop", "make", "Box.loop"])
def test_an_agent_is_a_loop_or_what_makes_one(module: str, name: str) -> None:
    agent = eval_names.load_agent(f"{module}:{name}")
    assert agent is eval_names.load_agent(f"{module}:loop")


def test_a_function_that_answers_is_an_agent(module: str) -> None:
    agent = eval_names.load_agent(f"{module}:ask")
    question = eval_names.named_object(f"{module}:Question", "type")("Hi")
    assert agent.execute(question)[0].output == "Hi"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("{}", "names no agent; expected module:name"),
        (":loop", "names no agent"),
        ("{}:", "names no agent"),
        ("nowhere_at_all:loop", "No module named 'nowhere_at_all'"),
        ("broken:loop", "broken:loop cannot be loaded: SystemExit"),
        ("{}:other", "has no attribute 'other'"),
        ("{}:number", "is no agent but an int"),
        ("{}:make_nothing", "makes no agent but a NoneType"),
        ("{}:Broken", "cannot make an agent: no key"),
    ],
)
def test_what_is_no_agent_is_refused(module: str, name: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        eval_names.load_agent(name.format(module))


def test_evaluators_are_found_by_their_names(module: str) -> None:
    assert eval_names.load_evaluator("contains") is contains
    assert callable(eval_names.load_evaluator(f"{module}:ask"))
    with pytest.raises(UsageError, match="no evaluator 'containz'; give exact_match, contains"):
        eval_names.load_evaluator("containz")
    with pytest.raises(UsageError, match="is no evaluator but an int"):
        eval_names.load_evaluator(f"{module}:number")


@pytest.mark.parametrize("name", ["loop", "ask"])
def test_inputs_have_the_type_of_the_agents_parameter(
    module: str, name: str, tmp_path: Path
) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text('{"id": "a", "input": {"text": "Hi"}}')
    (sample,) = eval_names.load_dataset(str(path), eval_names.load_agent(f"{module}:{name}"))
    assert sample.input.text == "Hi"


def test_an_agent_that_takes_what_json_cannot_hold_is_not_asked(
    module: str, tmp_path: Path
) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text('{"id": "a", "input": {"text": "Hi"}}')
    with pytest.raises(UsageError, match=r"cases\.jsonl:1: Expected `Unreadable`"):
        eval_names.load_dataset(str(path), eval_names.load_agent(f"{module}:strange"))


def test_a_file_without_samples_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text("\n")
    with pytest.raises(UsageError, match="has no samples"):
        eval_names.load_dataset(str(path), agent_of(Counted()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("new", Experiment("new")),
        ("new@v2", Experiment("new", "v2")),
        ("new,words=5", Experiment("new", flags={"words": 5})),
        ("new@v2,hot=true,tone=warm", Experiment("new", "v2", {"hot": True, "tone": "warm"})),
        ("new,text=a=b", Experiment("new", flags={"text": "a=b"})),
    ],
)
def test_an_experiment_is_a_name_with_flags(text: str, expected: Experiment) -> None:
    assert eval_names.experiment_of(text) == expected


@pytest.mark.parametrize("text", ["", "@v2", ",words=5", "new,words", "new,=5"])
def test_what_is_no_experiment_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected"):
        eval_names.experiment_of(text)


def test_without_experiments_there_is_a_baseline() -> None:
    assert eval_names.load_experiments([], agent_of(Counted())) == [BASELINE]
    assert eval_names.load_experiments(["new"], agent_of(Counted())) == [Experiment("new")]


@pytest.mark.parametrize("texts", [["a", "b"], ["a@v2"], ["a,hot=true"]])
def test_a_function_that_sees_no_experiments_is_not_asked_under_several(texts: list[str]) -> None:
    with pytest.raises(UsageError, match="sees no experiments"):
        eval_names.load_experiments(texts, agent_of(Counted()))
    agent = Preparing(adapter=ScriptedAdapter())
    assert len(eval_names.load_experiments(texts, agent)) == len(texts)


# Baselines


def result(experiment: str, *, passed: bool = True, evaluation: str | None = None) -> EvalResult:
    score = Score(float(passed), passed)
    return EvalResult("a", experiment, score, evaluation_id=evaluation)


def test_experiments_are_compared_with_the_one_that_is_named() -> None:
    report = EvalReport([result("a"), result("b"), result("c")])
    baseline = evals.find_baseline("b", report, MemoryResults())
    found = evals.comparisons(report, baseline)
    assert [(each.baseline_name, each.treatment_name) for each in found] == [("b", "a"), ("b", "c")]


def test_a_baseline_of_several_experiments_is_compared_by_their_names() -> None:
    kept = MemoryResults()
    kept.keep(result("a", passed=False, evaluation="before"))
    kept.keep(result("b", evaluation="before"))
    report = EvalReport([result("a"), result("b")])
    found = evals.comparisons(report, evals.find_baseline("before", report, kept))
    assert [each.pass_rate_delta for each in found] == [1.0, 0.0]
    other = EvalReport([result("c")])
    with pytest.raises(UsageError, match="no results of the experiment 'c'"):
        evals.comparisons(other, evals.find_baseline("before", other, kept))


def test_the_only_experiment_is_not_its_own_baseline() -> None:
    kept = MemoryResults()
    report = EvalReport([result("baseline")])
    with pytest.raises(NotFound, match="there is no baseline 'baseline'"):
        evals.find_baseline("baseline", report, kept)
    kept.keep(result("baseline", passed=False, evaluation="baseline"))
    (found,) = evals.comparisons(report, evals.find_baseline("baseline", report, kept))
    assert found.pass_rate_delta == 1.0


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"results": [{"sample_id": 1}]}'])
def test_a_file_that_is_no_baseline_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(content)
    with pytest.raises(UsageError, match="is no baseline"):
        evals.find_baseline(str(path), EvalReport([]), MemoryResults())


def test_what_cannot_be_compared_is_found_before_the_work() -> None:
    kept = MemoryResults()
    kept.keep(result("x", evaluation="before"))
    kept.keep(result("y", evaluation="before"))
    with pytest.raises(UsageError, match="no results of the experiment 'baseline'"):
        evals.require_baseline("before", evaluation_of(Counted(), "a"), kept)
    other = evaluation_of(Counted(), "b", experiments=[Experiment("x")])
    with pytest.raises(UsageError, match="no samples in common"):
        evals.require_baseline("before", other, kept)
    fitting = evaluation_of(Counted(), "a", "b", experiments=[Experiment("x"), Experiment("y")])
    for name in ("before", "x"):
        found = evals.require_baseline(name, fitting, kept)
        report = finished(evals.LocalEvaluation(fitting, MemoryResults()))
        assert evals.comparisons(report, found)


# Evaluating


def evaluation_of(agent: Any, *inputs: Any, **options: Any) -> evals.Evaluation:
    options = {"name": "one", "experiments": [BASELINE], **options}
    return evals.Evaluation(
        agent=agent_of(agent),
        evaluator=eval_names.load_evaluator("exact_match"),
        dataset=dataset_of(*inputs),
        **options,
    )


def finished(local: evals.LocalEvaluation) -> EvalReport:
    with local:
        while not local.is_over:
            local.next_results(0.1)
    return local.report()


def test_an_evaluation_ends_when_all_samples_have_results() -> None:
    local = evals.LocalEvaluation(evaluation_of(Counted(), *"abcdefghijklm"), MemoryResults())
    report = finished(local)
    assert [each.sample_id for each in report] == list("abcdefghijklm")
    assert (local.is_complete, local.done, local.total) == (True, 13, 13)


def test_an_evaluation_goes_on_where_it_was() -> None:
    gate, results = Gate(), MemoryResults()
    first = evals.LocalEvaluation(evaluation_of(gate, "a", "b", "c", concurrency=1), results)
    with first:
        gate.wait_for(1)
        # Asked on the main thread, as by a signal, it would come a moment later.
        asking = threading.Thread(target=first.request_stop)
        asking.start()
        asking.join()
        gate.may_end.set()
        while not first.is_over:
            first.next_results(0.1)
    assert (first.is_complete, first.done) == (False, 1)
    assert first.report().missing == 2
    agent = Counted()
    second = evals.LocalEvaluation(evaluation_of(agent, "a", "b", "c"), results)
    assert second.done == 1
    assert finished(second).total == 3
    assert sorted(agent.asked) == ["b", "c"]


def test_what_is_in_hand_when_the_block_is_left_is_given_up() -> None:
    gate, results = Gate(), MemoryResults()
    with evals.LocalEvaluation(evaluation_of(gate, "a"), results):
        gate.wait_for(1)
    gate.may_end.set()
    assert results.results("one") == []


def test_errors_stay_unless_they_are_to_be_tried_again() -> None:
    results = MemoryResults()
    report = finished(
        evals.LocalEvaluation(evaluation_of(Counted([ValueError("no")]), "a"), results)
    )
    assert report.errors == 1
    agent = Counted()
    same = evals.LocalEvaluation(evaluation_of(agent, "a"), results)
    assert same.is_over
    assert finished(same).errors == 1
    again = evals.LocalEvaluation(evaluation_of(agent, "a", retry_errors=True), results)
    assert finished(again).passed == 1
    assert agent.asked == ["a"]


def test_an_evaluation_goes_on_with_the_agent_and_the_evaluator_that_it_began_with() -> None:
    results = MemoryResults()
    names = {"agent_name": "shop:new", "evaluator_name": "contains"}
    first = evaluation_of(Counted([ValueError("no")]), "a", "b", **names)
    report = finished(evals.LocalEvaluation(first, results))
    assert {(each.agent, each.evaluator) for each in report} == {("shop:new", "contains")}
    for other in ({"agent_name": "shop:old"}, {"evaluator_name": "exact_match"}):
        with pytest.raises(UsageError, match="give another --name"):
            evals.LocalEvaluation(evaluation_of(Counted(), "c", **{**names, **other}), results)
    same = evaluation_of(Counted(), "a", "b", "c", **names)
    assert evals.LocalEvaluation(same, results).done == 2


def test_results_that_do_not_say_whose_they_are_are_gone_on_with() -> None:
    results = MemoryResults()
    finished(evals.LocalEvaluation(evaluation_of(Counted(), "a"), results))
    later = evaluation_of(Counted(), "a", "b", agent_name="shop:new")
    assert evals.LocalEvaluation(later, results).done == 1
