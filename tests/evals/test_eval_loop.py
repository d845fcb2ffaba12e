"""Eval loops: what becomes of samples."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import msgspec
import pytest
from tests.evals.scene import Counted, Preparing, Scene, agent_of, dataset_of
from tests.loops.office import PATIENCE_S, Gate, Running, eventually

from afl import telemetry
from afl.agents.adapters.scripted import ScriptedAdapter, says
from afl.agents.experiment import BASELINE, Experiment
from afl.agents.model import Usage
from afl.backoff import Backoff
from afl.errors import StoreUnavailable
from afl.evals import (
    Dataset,
    EvalLoop,
    EvalLoopConfig,
    EvalRequest,
    EvalResult,
    MemoryResults,
    Sample,
    Score,
    exact_match,
    token_usage_under,
)
from afl.loops import AgentLoopRequest, BundleConfig, current_turn
from afl.mailbox import DLQPolicy, InMemoryMailbox, Mailbox, SqliteMailbox
from afl.mailbox.box import Entry
from afl.mailbox.packing import Letter
from afl.runtime.lifecycle import LoopGroup, Runnable
from afl.testing.runnable import RunnableExam

THREE_TIMES = DLQPolicy[Any](max_delivery_count=3, backoff=Backoff(initial=0, maximum=0))


@pytest.fixture(params=["objects", "json", "sqlite"])
def boxes(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[Mailbox[Any, Any], Mailbox[Any, Any]]]:
    """For requests and replies: with a type, and without one."""
    if request.param == "objects":
        yield InMemoryMailbox("requests"), InMemoryMailbox("replies")
    elif request.param == "json":
        yield (
            InMemoryMailbox("requests", body_type=EvalRequest[str, str]),
            InMemoryMailbox("replies", body_type=EvalResult),
        )
    else:
        path = tmp_path / "afl.db"
        requests: Mailbox[Any, Any] = SqliteMailbox("requests", path)
        replies: Mailbox[Any, Any] = SqliteMailbox("replies", path)
        yield requests, replies
        requests.close()
        replies.close()


def test_every_sample_has_a_result(boxes: tuple[Mailbox[Any, Any], Mailbox[Any, Any]]) -> None:
    requests, replies = boxes
    scene = Scene(lambda text: text.upper(), requests=requests, replies=replies, concurrency=3)
    dataset = Dataset([Sample("a", "x", "X"), Sample("b", "y", "Z"), Sample("c", "z", "Z")])
    report = scene.ask(dataset)
    assert {each.sample_id: each.passed for each in report} == {"a": True, "b": False, "c": True}
    assert {each.experiment_name for each in report} == {"baseline"}
    assert report.failed_samples()[0].score.reason == 'expected "Z", got "Y"'


def test_an_agent_may_be_a_coroutine_function() -> None:
    async def agent(text: str) -> str:
        await asyncio.sleep(0)
        return text.upper()

    assert Scene(agent, concurrency=3).ask(dataset_of(*"abcdef")).pass_rate == 1.0


def test_experiments_reach_the_agent() -> None:
    agent = Preparing(adapter=ScriptedAdapter(default=says("A")))
    variant = Experiment("terse").with_flag("words", 5).with_tag("v2")
    report = Scene(agent).ask(dataset_of("a"), variant)
    assert agent.experiments == [variant]
    assert report.pass_rate_by_experiment() == {"terse": 1.0}


def test_evaluators_may_look_at_the_session() -> None:
    agent = Preparing(adapter=ScriptedAdapter(default=says("A", Usage(60, 50))))
    report = Scene(agent, token_usage_under(100)).ask(dataset_of("a"))
    assert report.failed_samples()[0].score.reason == "110 tokens were used, more than 100"
    assert report.tokens == 110


def test_an_agent_that_fails_is_an_error_of_its_sample_alone() -> None:
    def agent(text: str) -> str:
        if text == "b":
            raise ValueError("cannot do b with password=hunter2")
        return text.upper()

    report = Scene(agent).ask(dataset_of("a", "b", "c"))
    assert (report.passed, report.errors) == (2, 1)
    (failed,) = report.error_samples()
    assert failed.sample_id == "b"
    assert failed.error == "cannot do b with password=***"
    assert not failed.passed


def test_with_a_policy_an_agent_that_fails_is_asked_again() -> None:
    agent = Counted([ValueError("not yet")])
    (result,) = Scene(agent, dlq=THREE_TIMES).ask(dataset_of("a"))
    assert result.passed
    assert (result.attempt, agent.asked) == (2, ["a", "a"])


def test_with_a_policy_an_agent_that_always_fails_is_given_up() -> None:
    agent = Counted([ValueError("never")] * 5)
    scene = Scene(agent, dlq=THREE_TIMES)
    (result,) = scene.ask(dataset_of("a"), BASELINE, "one")
    assert result.error == "given up after 3 deliveries: never"
    assert len(agent.asked) == 3
    assert scene.results.results("one") == [result]
    assert [each.body.sample.id for each in scene.requests.dead_letters()] == ["a"]


def test_an_evaluator_that_fails_lets_nobody_ask_the_agent_again() -> None:
    def broken(_output: Any, _expected: Any) -> Score:
        raise KeyError("tone")

    agent = Counted()
    (result,) = Scene(agent, broken, dlq=THREE_TIMES).ask(dataset_of("a"))
    assert result.error == "the evaluator failed: KeyError: 'tone'"
    assert agent.asked == ["a"]


def test_no_output_is_an_error_if_one_is_expected() -> None:
    dataset = Dataset([Sample("a", "x", "X"), Sample("b", "x")])
    report = Scene(lambda _text: None).ask(dataset)
    assert {each.sample_id: each.error for each in report} == {
        "a": "the agent gave no output",
        "b": None,
    }


def test_what_is_no_request_is_answered_with_an_error() -> None:
    scene = Scene(Counted())
    scene.requests.send({"sample": 7}, reply_to=scene.replies)  # type: ignore[arg-type]
    with Running(scene.loop):
        (result,) = scene.collect(1)
    assert "is no request to an eval loop" in str(result.error)


def test_a_sample_that_does_not_fit_the_mailbox_is_a_result_with_an_error() -> None:
    requests: InMemoryMailbox[Any, EvalResult] = InMemoryMailbox(body_type=EvalRequest[int, int])
    scene = Scene(Counted(), requests=requests)
    asked = msgspec.json.encode(EvalRequest(Sample("a", "x", "X"), Experiment("e")))
    requests.box.put(Entry("m-1", Letter(asked, scene.replies), "replies"))
    with Running(scene.loop):
        (result,) = scene.collect(1)
        eventually(requests.dead_letters)
    assert (result.sample_id, "`$.sample.input`" in str(result.error)) == ("a", True)


# Where results go


def test_results_go_to_the_loops_own_mailbox_if_the_request_names_none() -> None:
    responses: InMemoryMailbox[EvalResult, Any] = InMemoryMailbox()
    scene = Scene(Counted(), replies=responses, responses=responses)
    scene.requests.send(EvalRequest(Sample("a", "a", "A"), BASELINE))
    with Running(scene.loop):
        assert scene.collect(1).passed == 1


def test_a_sample_whose_result_nobody_would_see_is_not_done() -> None:
    agent = Counted()
    scene = Scene(agent)
    scene.requests.send(EvalRequest(Sample("a", "a", "A"), BASELINE))
    with Running(scene.loop):
        eventually(scene.requests.dead_letters)
    (letter,) = scene.requests.dead_letters()
    assert "nobody would see the result of sample 'a'" in letter.last_error
    assert agent.asked == []


def test_a_result_that_is_kept_needs_no_reply() -> None:
    scene = Scene(Counted())
    scene.requests.send(EvalRequest(Sample("a", "a", "A"), BASELINE, evaluation_id="one"))
    with Running(scene.loop):
        eventually(lambda: scene.results.results("one"))
        eventually(lambda: scene.requests.approximate_count() == 0)
    assert not scene.requests.dead_letters()


# What is kept


def test_a_sample_that_has_a_score_is_not_done_again() -> None:
    agent = Counted()
    scene = Scene(agent)
    (first,) = scene.ask(dataset_of("a"), BASELINE, "one")
    (second,) = scene.ask(dataset_of("a"), BASELINE, "one")
    assert first == second
    assert agent.asked == ["a"]


def test_a_sample_that_ended_in_an_error_is_done_again_for_who_asks() -> None:
    agent = Counted([ValueError("no")])
    scene = Scene(agent)
    assert scene.ask(dataset_of("a"), BASELINE, "one").errors == 1
    assert scene.ask(dataset_of("a"), BASELINE, "one").passed == 1
    assert [each.passed for each in scene.results.results("one")] == [True]


def test_a_sample_that_was_changed_is_done_again() -> None:
    agent = Counted()
    scene = Scene(agent)
    scene.ask(Dataset([Sample("a", "x", "X")]), BASELINE, "one")
    scene.ask(Dataset([Sample("a", "x", "x")]), BASELINE, "one")
    scene.ask(Dataset([Sample("a", "x", "x")]), BASELINE.with_flag("hot", True), "one")
    assert len(agent.asked) == 3


def test_a_result_is_kept_also_if_that_takes_several_tries() -> None:
    class Shaky(MemoryResults):
        outages = 2

        def keep(self, result: EvalResult) -> EvalResult:
            self.outages -= 1
            if self.outages >= 0:
                raise StoreUnavailable("the disk is full")
            return super().keep(result)

    agent, results = Counted(), Shaky()
    (result,) = Scene(agent, results=results).ask(dataset_of("a"), BASELINE, "one")
    assert result.passed
    assert results.results("one") == [result]
    assert agent.asked == ["a"]


def test_a_sample_that_was_given_up_meanwhile_is_not_kept() -> None:
    gate = Gate()
    ended = threading.Event()

    def evaluator(output: Any, expected: Any) -> Score:
        ended.set()
        return exact_match(output, expected)

    scene = Scene(gate, evaluator)
    scene.submit(dataset_of("a"), BASELINE, "one")
    with Running(scene.loop) as running:
        gate.wait_for(1)
        scene.loop.request_stop()
        scene.loop.checkpoint()
        running.join()
    gate.may_end.set()
    assert ended.wait(20)
    (message,) = scene.requests.receive()
    assert message.delivery_count == 1
    assert scene.results.results("one") == []


# Beside other loops


def test_an_eval_loop_has_a_heartbeat_of_its_own() -> None:
    def agent(text: str) -> str:
        current_turn().beat()
        return text.upper()

    scene = Scene(agent)
    beats: list[str] = []
    scene.loop.heartbeat.add_callback(lambda: beats.append("eval"))
    scene.agent.heartbeat.add_callback(lambda: beats.append("agent"))
    scene.ask(dataset_of("a", "b"))
    assert set(beats) == {"eval"}


def its_group_sees_how_long_a_sample_hangs() -> None:
    gate = Gate()
    scene = Scene(gate)
    scene.submit(dataset_of("a"))
    group = LoopGroup([scene.loop], health_port=0)
    thread = threading.Thread(target=group.run, kwargs={"install_signals": False}, daemon=True)
    thread.start()
    try:
        gate.wait_for(1)
        assert group.health_address is not None
        url = f"http://127.0.0.1:{group.health_address[1]}/status"
        with urllib.request.urlopen(url) as answer:
            [seen] = json.load(answer)["loops"]
        assert seen["in_flight"] == 1
        assert isinstance(seen["beat_age_s"], float)
    finally:
        gate.may_end.set()
        group.shutdown()
        thread.join(PATIENCE_S)


def test_its_group_sees_how_long_a_sample_hangs() -> None:
    its_group_sees_how_long_a_sample_hangs()


def test_an_eval_loop_that_no_watchdog_would_see_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EvalLoop, "heartbeat", None)
    with pytest.raises(AssertionError):
        its_group_sees_how_long_a_sample_hangs()


def test_a_sign_of_progress_of_the_agent_is_one_of_the_sample() -> None:
    gate = threading.Event()

    def agent(text: str) -> str:
        current_turn().beat()
        assert gate.wait(20)
        return text.upper()

    scene = Scene(agent)
    before = scene.loop.progress
    scene.submit(dataset_of("a"))
    with Running(scene.loop):
        eventually(lambda: scene.loop.in_flight == 1)
        eventually(lambda: scene.loop.progress >= before + 2)
        gate.set()
        scene.collect(1)


def test_an_agent_answers_its_own_requests_beside_samples() -> None:
    requests: InMemoryMailbox[Any, Any] = InMemoryMailbox()
    answers: InMemoryMailbox[Any, Any] = InMemoryMailbox()
    agent = Preparing(adapter=ScriptedAdapter(default=says("A")), requests=requests)
    scene = Scene(agent, concurrency=2)
    group = LoopGroup([agent, scene.loop], watchdog_threshold=None)
    thread = threading.Thread(target=group.run)
    thread.start()
    for _ in range(5):
        requests.send(AgentLoopRequest("b"), reply_to=answers)
    wanted = scene.submit(Dataset([Sample(str(each), "a", "A") for each in range(5)]))
    assert scene.collect(len(wanted)).passed == 5
    eventually(lambda: answers.approximate_count() == 5)
    group.shutdown()
    thread.join()


def test_every_result_is_an_event() -> None:
    heard: list[telemetry.SampleEvaluated] = []

    def hear(event: telemetry.Event) -> None:
        if isinstance(event, telemetry.SampleEvaluated):
            heard.append(event)

    end = telemetry.subscribe(hear)
    Scene(Counted([ValueError("no")])).ask(dataset_of("a", "b"), BASELINE, "one")
    end()
    found = [(each.evaluation, each.sample, each.passed, each.error) for each in heard]
    assert found == [("one", "a", False, "no"), ("one", "b", True, None)]


# Bundles


def test_each_sample_has_a_bundle(tmp_path: Path) -> None:
    config = EvalLoopConfig(debug_bundle=BundleConfig(target=str(tmp_path)))
    scene = Scene(Counted(), config=config)
    wanted = scene.submit(dataset_of("a"))
    with Running(scene.loop):
        (result,) = scene.collect(1)
    path = Path(str(result.bundle_path))
    assert path.parent == tmp_path / wanted[0].request_id
    with ZipFile(path) as bundle:
        (name,) = [each for each in bundle.namelist() if each.endswith("eval.json")]
        assert b'"sample_id"' in bundle.read(name)


def test_a_request_chooses_no_folder_for_its_bundle(tmp_path: Path) -> None:
    target = tmp_path / "bundles"
    config = EvalLoopConfig(debug_bundle=BundleConfig(target=str(target)))
    scene = Scene(Counted(), config=config)
    request = EvalRequest(Sample("a", "a", "A"), BASELINE, "../../elsewhere")
    scene.requests.send(request, reply_to=scene.replies)
    with Running(scene.loop):
        (result,) = scene.collect(1)
    assert target in Path(str(result.bundle_path)).resolve().parents


def test_an_agent_that_fails_in_a_bundle_is_asked_once(tmp_path: Path) -> None:
    agent = Counted([ValueError("no")])
    config = EvalLoopConfig(debug_bundle=BundleConfig(target=str(tmp_path)))
    (result,) = Scene(agent, config=config).ask(dataset_of("a"))
    assert (result.error, agent.asked) == ("no", ["a"])


class TestEvalLoop(RunnableExam):
    @pytest.fixture
    def loop(self) -> Runnable:
        return EvalLoop(loop=agent_of(str.upper), evaluator=exact_match, requests=InMemoryMailbox())
