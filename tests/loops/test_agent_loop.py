"""Agents as loops: prompts, sessions, models and tools, budgets, and turns beside each other."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import Any

import pytest
from structlog.contextvars import get_contextvars
from tests.loops.agents import Agent, shout
from tests.loops.office import Gate, Office, Running, eventually

from afl.agents.adapters.scripted import ScriptedAdapter, calls, says
from afl.agents.budget import Price
from afl.agents.errors import BudgetExceeded, InvalidAnswer, ModelUnavailable
from afl.agents.model import ModelAnswer, ModelRequest, ToolCall, ToolResult, Usage
from afl.errors import UsageError
from afl.loops import (
    AgentLoop,
    AgentLoopConfig,
    AgentLoopRequest,
    Deadline,
    DeadlineExceeded,
    Experiment,
    LoopFinalResponse,
    LoopRawResponse,
    LoopRequestState,
    Prompt,
    RunContext,
    Session,
    TurnBudget,
    current_turn,
)
from afl.runtime import Heartbeat, MainLoop


@dataclass
class Verdict:
    word: str
    number: int


# A turn


def test_a_model_answers_with_the_help_of_tools(office: Office) -> None:
    adapter = ScriptedAdapter([calls("shout", {"text": "hi"}), says("it is HI")])
    agent = Agent(adapter, office)
    (asked,) = office.ask("hi")
    agent.run(max_iterations=1, wait_time_seconds=0)
    (answer,) = office.answers(1)
    assert (answer.request_id, answer.output) == (asked, "it is HI")
    first, second = adapter.requests
    assert "Answer this: hi" in str(first.messages[0])
    assert [each.name for each in first.tools] == ["shout"]
    assert ToolResult("call", "HI") in second.messages[-1].parts
    assert agent.cleanups == ["hi"]


def test_an_answer_may_have_a_type(office: Office) -> None:
    script = [
        calls("answer", {"answer": {"word": "x"}}),
        calls("answer", {"answer": {"word": "a", "number": 3}}),
    ]
    agent = Agent(ScriptedAdapter(script), office)
    agent.output_type = Verdict
    response, _session = agent.execute("hi")
    assert response.output == Verdict("a", 3)  # after it was told what was wrong


def test_a_session_knows_what_happened(memory_office: Office) -> None:
    usage = Usage(input_tokens=10, output_tokens=5)
    script = [calls("shout", {"text": "hi"}, usage=usage), says("HI", usage)]
    agent = Agent(ScriptedAdapter(script), memory_office)
    response, session = agent.execute("hi")
    kinds = [type(each).__name__ for each in session]
    assert kinds == [
        "LoopRequestState",
        "ModelAnswered",
        "ToolUsed",
        "ModelAnswered",
        "LoopRawResponse",
        "LoopFinalResponse",
    ]
    (tool,) = session.tool_uses
    assert (tool.name, tool.call.arguments, tool.is_error) == ("shout", {"text": "hi"}, False)
    assert (session.usage.total, response.usage.total) == (30, 30)
    state = session.latest(LoopRequestState)
    assert state is not None
    assert state.request.request == "hi"


def test_what_is_replied_is_what_finalize_makes_of_the_answer(memory_office: Office) -> None:
    class Finishing(Agent):
        def finalize(self, prompt: Prompt[Any], session: Session, output: Any) -> Any:
            assert self.cleanups == []
            return f"<{output}>"

    agent = Finishing(ScriptedAdapter([says("hi")]), memory_office)
    response, session = agent.execute("x")
    assert response.output == "<hi>"
    raw, final = session.latest(LoopRawResponse), session.latest(LoopFinalResponse)
    assert raw is not None
    assert final is not None
    assert (raw.response.output, final.response.output) == ("hi", "<hi>")


def test_a_tool_that_fails_is_told_to_the_model(memory_office: Office) -> None:
    adapter = ScriptedAdapter([calls("shout", {"text": 5}), calls("sing", {}), says("sorry")])
    response, session = Agent(adapter, memory_office).execute("x")
    assert response.output == "sorry"
    results = [each.messages[-1].parts[0] for each in adapter.requests[1:]]
    assert all(isinstance(each, ToolResult) and each.is_error for each in results)
    assert [each.is_error for each in session.tool_uses] == [True]


def test_a_tool_finds_its_turn(memory_office: Office) -> None:
    class Looking(Agent):
        def prepare(self, request: str, *, experiment: Any = None) -> Any:
            def look() -> str:
                """Look around."""
                return str(current_turn().resources["place"])

            from afl.loops import ToolsSection

            return Prompt(request, ToolsSection(look)), Session()

    adapter = ScriptedAdapter([calls("look", {}), says("done")])
    config = AgentLoopConfig(resources={"place": "here", "other": 1})
    agent = Looking(adapter, memory_office, config=config)
    _response, session = agent.execute("x", resources={"place": "there"})
    assert session.tool_uses[0].result.content == "there"
    with pytest.raises(UsageError, match="no turn here"):
        current_turn()


def test_a_model_that_never_answers_is_given_up(memory_office: Office) -> None:
    adapter = ScriptedAdapter(default=calls("shout", {"text": "x"}))
    agent = Agent(adapter, memory_office, config=AgentLoopConfig(max_tool_rounds=3))
    with pytest.raises(InvalidAnswer, match="3 are allowed"):
        agent.execute("x")
    assert agent.cleanups == ["x"]


def test_a_model_that_is_unavailable_is_answered(memory_office: Office) -> None:
    agent = Agent(ScriptedAdapter([ModelUnavailable("try later")]), memory_office)
    memory_office.ask("first")
    agent.run(max_iterations=1, wait_time_seconds=0)
    (answer,) = memory_office.answers(1)
    assert answer.error == "try later"
    assert answer.session_id == agent.sessions[0].session_id


def test_an_experiment_reaches_prepare_as_what_it_was(office: Office) -> None:
    """Also through a mailbox, where everything is JSON."""
    agent = Agent(ScriptedAdapter(default=says("x")), office)
    experiment = Experiment("shorter", flags={"words": 3})
    office.requests.send(AgentLoopRequest("a", experiment=experiment), reply_to=office.replies)
    agent.run(max_iterations=1, wait_time_seconds=0)
    office.answers(1)
    assert agent.experiments == [experiment]


def test_a_reply_says_who_did_it(office: Office) -> None:
    sender = RunContext(trace_id="trace-7")
    agent = Agent(ScriptedAdapter([says("x")]), office, worker_id="worker-3")
    request = AgentLoopRequest("a", run_context=sender)
    office.requests.send(request, reply_to=office.replies)
    agent.run(max_iterations=1, wait_time_seconds=0)
    (answer,) = office.answers(1)
    context = answer.run_context
    assert context is not None
    assert (context.worker_id, context.attempt, context.trace_id) == ("worker-3", 1, "trace-7")
    assert context.request_id == request.request_id
    assert context.session_id == agent.sessions[0].session_id


def test_what_is_logged_in_a_turn_says_which_one_it_is(memory_office: Office) -> None:
    seen: list[dict[str, Any]] = []

    class Logging(Agent):
        def finalize(self, prompt: Any, session: Any, output: Any) -> Any:
            seen.append(get_contextvars())
            return output

    agent = Logging(ScriptedAdapter([says("x")]), memory_office, worker_id="worker-3")
    (asked,) = memory_office.ask("first")
    agent.run(max_iterations=1, wait_time_seconds=0)
    assert (seen[0]["request_id"], seen[0]["attempt"]) == (asked, "1")
    assert seen[0]["worker_id"] == "worker-3"
    assert get_contextvars() == {}


# Cleaning up


class Broken(Agent):
    """Fails where it is told to."""

    breaks_at = ""

    def prepare(self, request: str, *, experiment: Any = None) -> Any:
        made = super().prepare(request, experiment=experiment)
        if self.breaks_at == "render":
            made[0].render = self._break  # type: ignore[method-assign]
        if self.breaks_at == "cleanup":
            cleanup = made[0].cleanup

            def failing() -> None:
                cleanup()
                raise OSError("the folder is busy")

            made[0].cleanup = failing  # type: ignore[method-assign]
        return made

    def finalize(self, prompt: Any, session: Any, output: Any) -> Any:
        return self._break() if self.breaks_at == "finalize" else output

    def _break(self) -> Any:
        raise ValueError("told to")


@pytest.mark.parametrize("bundled", [False, True], ids=["plain", "bundled"])
@pytest.mark.parametrize("place", ["", "render", "model", "finalize", "cleanup"])
def test_a_prompt_is_cleaned_up_once_whatever_happens(
    memory_office: Office, place: str, bundled: bool, tmp_path: Any
) -> None:
    script: list[Any] = [ValueError("told to") if place == "model" else says("fine")]
    agent = Broken(ScriptedAdapter(script), memory_office)
    agent.breaks_at = place
    fails = place in ("render", "model", "finalize")
    try:
        if bundled:
            with agent.execute_with_bundle("x", bundle_target=str(tmp_path)):
                assert agent.cleanups == []  # what the prompt holds is still there
        else:
            agent.execute("x")
    except ValueError:
        assert fails
    else:
        assert not fails
    assert agent.cleanups == ["x"]


def test_who_fails_to_look_at_a_bundled_turn_leaves_nothing_behind(
    memory_office: Office, tmp_path: Any
) -> None:
    agent = Agent(ScriptedAdapter([says("fine")]), memory_office)
    with (
        pytest.raises(ZeroDivisionError),
        agent.execute_with_bundle("x", bundle_target=str(tmp_path)),
    ):
        _ = 1 / 0
    assert agent.cleanups == ["x"]


# Budgets


def test_a_spent_budget_ends_the_turn(memory_office: Office) -> None:
    adapter = ScriptedAdapter(default=calls("shout", {"text": "x"}, usage=Usage(60, 40)))
    agent = Agent(adapter, memory_office)
    with pytest.raises(BudgetExceeded, match="250 tokens"):
        agent.execute("x", budget=TurnBudget(max_tokens=250))
    assert len(adapter.requests) == 3
    assert agent.cleanups == ["x"]


def test_each_turn_has_a_budget_of_its_own(memory_office: Office) -> None:
    config = AgentLoopConfig(budget=TurnBudget(max_calls=1))
    agent = Agent(ScriptedAdapter(default=says("x")), memory_office, config=config)
    for _ in range(3):
        agent.execute("x")


def test_a_request_may_have_a_budget_and_its_answer_says_that_it_is_spent(office: Office) -> None:
    prices = {"claude-test": Price(input=1_000_000, output=1_000_000)}
    config = AgentLoopConfig(model="claude-test", prices=prices)
    adapter = ScriptedAdapter(default=calls("shout", {"text": "x"}, usage=Usage(1, 1)))
    agent = Agent(adapter, office, config=config)
    request = AgentLoopRequest("x", budget=TurnBudget(max_cost=3.0))
    office.requests.send(request, reply_to=office.replies)
    agent.run(max_iterations=1, wait_time_seconds=0)
    (answer,) = office.answers(1)
    assert "budget of 3 in cost is spent" in str(answer.error)
    assert len(adapter.requests) == 2


def test_a_deadline_is_known_to_the_model_and_ends_the_turn(memory_office: Office) -> None:
    adapter = ScriptedAdapter([says("x")])
    agent = Agent(adapter, memory_office)
    agent.execute("x", deadline=Deadline.after(50))
    assert 40 < (adapter.requests[0].timeout_s or 0) <= 50
    with pytest.raises(DeadlineExceeded):
        agent.execute("x", deadline=Deadline.after(0))


# The seam


def test_models_and_tools_are_called_through_the_recorder_of_the_turn(
    memory_office: Office,
) -> None:
    class Recorder:
        """Answers from what it has, as after a restart."""

        def __init__(self) -> None:
            self.calls: list[str] = []

        async def model(self, request: ModelRequest, call: Any) -> ModelAnswer:
            self.calls.append("model")
            if len(self.calls) == 1:
                return calls("shout", {"text": "kept"})
            answer: ModelAnswer = await call()
            return answer

        async def tool(self, tool_call: ToolCall, call: Any) -> ToolResult:
            self.calls.append(tool_call.name)
            result: ToolResult = await call()
            return result

    recorder = Recorder()

    class Recorded(Agent):
        def recorder_for(self, context: RunContext) -> Any:
            return recorder

    adapter = ScriptedAdapter([says("done")])
    response, _session = Recorded(adapter, memory_office).execute("x")
    assert recorder.calls == ["model", "shout", "model"]
    assert (response.output, len(adapter.requests)) == ("done", 1)


# Turns beside each other


class OnlyAsync:
    """An adapter for coroutines alone."""

    def __init__(self, meeting: int = 1) -> None:
        self.waiting = 0
        self.together = 0
        self._meeting = meeting
        self._have_met = asyncio.Event()

    async def answer_async(self, request: ModelRequest) -> ModelAnswer:
        self.waiting += 1
        self.together = max(self.together, self.waiting)
        if self.together >= self._meeting:
            self._have_met.set()
        await self._have_met.wait()
        self.waiting -= 1
        return says("done")


def test_turns_go_on_beside_each_other_in_threads(office: Office) -> None:
    gate = Gate()
    office.ask(*"abcdef")
    loop = office.loop(gate, concurrency=4)
    with Running(loop):
        gate.wait_for(4)
        eventually(lambda: loop.in_flight == 4)
        assert sorted(gate.begun) == list("abcd")
        gate.may_end.set()
        assert sorted(office.outputs(6)) == list("abcdef")


def test_hundreds_of_turns_wait_on_the_event_loop(memory_office: Office) -> None:
    adapter = OnlyAsync(meeting=300)
    agent = Agent(adapter, memory_office, concurrency=300)
    threads = set(threading.enumerate())
    memory_office.ask(*(str(each) for each in range(300)))
    with Running(agent):
        memory_office.answers(300)
    assert adapter.together == 300
    assert len(set(threading.enumerate()) - threads) < 60
    assert sorted(agent.cleanups) == sorted(str(each) for each in range(300))


def test_an_asynchronous_turn_uses_tools_that_block(memory_office: Office) -> None:
    class Asking(OnlyAsync):
        async def answer_async(self, request: ModelRequest) -> ModelAnswer:
            if len(request.messages) == 1:
                return calls("shout", {"text": "hi"})
            return says(str(request.messages[-1].parts[0].content))  # type: ignore[union-attr]

    agent = Agent(Asking(), memory_office)
    memory_office.ask("a")
    with Running(agent):
        assert memory_office.outputs(1) == [shout("hi")]
    response, _session = agent.execute("b")
    assert response.output == "HI"


def test_all_that_is_in_flight_is_finished_at_a_stop(office: Office) -> None:
    gate = Gate()
    office.ask(*"abcde")
    loop = office.loop(gate, concurrency=3)
    with Running(loop) as running:
        gate.wait_for(3)
        running.stop()
        gate.may_end.set()
        running.join()
    assert sorted(office.outputs(3)) == list("abc")
    assert office.requests.approximate_count() == 2


def test_asynchronous_turns_are_cancelled_when_the_time_of_a_drain_is_over(
    office: Office,
) -> None:
    begun: list[str] = []
    ends: list[str] = []

    async def wait(request: str) -> str:
        begun.append(request)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ends.append(request)
            raise
        return request

    office.ask("a", "b")
    loop = office.loop(wait, concurrency=2)
    with Running(loop) as running:
        eventually(lambda: len(begun) == 2)
        running.stop()
        loop.checkpoint()
        running.join()
    assert sorted(ends) == ["a", "b"]
    assert office.replies.approximate_count() == 0
    assert [office.take().body.request, office.take().body.request] == ["a", "b"]


def test_a_turn_that_is_cancelled_while_it_prepares_is_cleaned_up_after_that(
    memory_office: Office,
) -> None:
    gate = Gate()

    class Slow(Agent):
        def prepare(self, request: str, *, experiment: Any = None) -> Any:
            gate(request)
            return super().prepare(request, experiment=experiment)

    agent = Slow(OnlyAsync(), memory_office, concurrency=2)
    memory_office.ask("first")
    with Running(agent) as running:
        gate.wait_for(1)
        running.stop()
        agent.checkpoint()
        running.join()
    assert agent.cleanups == []
    gate.may_end.set()
    eventually(lambda: agent.cleanups == ["first"])
    assert memory_office.take().delivery_count == 1


def test_turns_are_executed_beside_a_run(memory_office: Office) -> None:
    """As evaluations do it, with a heartbeat of their own."""
    gate = threading.Event()

    def slow(request: ModelRequest) -> ModelAnswer:
        assert gate.wait(20)
        return says("slow")

    adapter = ScriptedAdapter([slow], default=says("quick"))
    agent = Agent(adapter, memory_office)
    heartbeat, beats = Heartbeat(), list[int]()
    heartbeat.add_callback(lambda: beats.append(1))
    memory_office.ask("first")
    with Running(agent):
        eventually(lambda: adapter.requests)
        response, session = agent.execute("second", heartbeat=heartbeat)
        gate.set()
        assert memory_office.outputs(1) == ["slow"]
    assert response.output == "quick"
    assert session is not agent.sessions[0]
    assert beats
    assert sorted(agent.cleanups) == ["first", "second"]


# Runs


def test_one_iteration_is_one_poll_that_waits(office: Office) -> None:
    loop = office.loop(str.upper)
    with Running(loop, max_iterations=1, wait_time_seconds=60) as running:
        eventually(lambda: loop.running)
        office.ask("first")
        assert office.outputs(1) == ["FIRST"]
        running.join()


def test_polls_that_find_nothing_count(office: Office) -> None:
    office.loop(str.upper).run(max_iterations=3, wait_time_seconds=0)


def test_a_bare_body_is_a_request(memory_office: Office) -> None:
    requests = memory_office.open("bare")
    message = requests.send("first", reply_to=memory_office.replies)
    loop = memory_office.loop(str.upper, requests=requests)
    loop.run(max_iterations=1, wait_time_seconds=0)
    (answer,) = memory_office.answers(1)
    assert (answer.output, answer.request_id) == ("FIRST", message)


def test_a_request_of_another_language_is_one(memory_office: Office) -> None:
    requests = memory_office.open("bare")
    requests.send({"request": "first", "request_id": "r-1"}, reply_to=memory_office.replies)
    loop = memory_office.loop(str.upper, requests=requests)
    loop.run(max_iterations=1, wait_time_seconds=0)
    (answer,) = memory_office.answers(1)
    assert (answer.output, answer.request_id) == ("FIRST", "r-1")


def test_the_old_name_is_the_same_class() -> None:
    assert MainLoop is AgentLoop


@pytest.mark.parametrize(
    "options",
    [{"visibility_timeout": 0}, {"visibility_timeout": 50_000}, {"wait_time_seconds": -1}],
    ids=str,
)
def test_times_that_make_no_sense_are_refused(
    memory_office: Office, options: dict[str, int]
) -> None:
    with pytest.raises(UsageError):
        memory_office.loop(str.upper).run(**options)


def test_what_is_no_adapter_is_refused(memory_office: Office) -> None:
    nonsense: Any = object()
    with pytest.raises(UsageError, match="neither answer nor answer_async"):
        Agent(nonsense, memory_office)
