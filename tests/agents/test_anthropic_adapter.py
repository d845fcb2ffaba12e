"""Claude through the real client, against a service on loopback."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from typing import Any

import anthropic
import pytest
from tests.agents.model_server import (
    Answers,
    Cuts,
    Fails,
    FailsWithin,
    Hangs,
    ModelServer,
    says,
    uses,
)

from afl.agents.adapters.anthropic import AnthropicAdapter
from afl.agents.budget import Budget, Price
from afl.agents.errors import BudgetExceeded, ModelRefused, ModelUnavailable
from afl.agents.model import (
    ANY_TOOL,
    Message,
    ModelAnswer,
    ModelRequest,
    Opaque,
    StopReason,
    Text,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
)
from afl.backoff import Backoff
from afl.clock import FakeClock
from afl.errors import UsageError
from afl.telemetry import Event, ModelCalled, ModelCallRetried, Telemetry

AT_ONCE = Backoff(initial=0, maximum=0)
HELLO = ModelRequest("claude-test", [Message.user("hello")])
OVERLOADED = Fails(529, "overloaded_error")


def adapter(server: ModelServer, **options: Any) -> AnthropicAdapter:
    return AnthropicAdapter(server.client(), **{"backoff": AT_ONCE, **options})


def test_an_answer_in_words_comes_with_what_it_cost() -> None:
    with ModelServer(says("hi", input_tokens=7, output_tokens=3)) as server:
        answer = adapter(server).answer(HELLO)
    assert answer.text == "hi"
    assert answer.stop is StopReason.END
    assert answer.usage == Usage(7, 3)
    assert answer.model == "claude-test"


def test_a_request_says_all_that_was_asked() -> None:
    tool = ToolSpec("find", "Finds things.", {"type": "object", "properties": {}})
    request = ModelRequest(
        "claude-test",
        [
            Message.user("find it"),
            Message.assistant("I will", ToolCall("t1", "find", {"what": "it"})),
            Message.user(ToolResult("t1", "nothing", is_error=True)),
        ],
        system="You find things.",
        tools=[tool],
        must_use="find",
        max_tokens=99,
    )
    with ModelServer(says("ok")) as server:
        adapter(server).answer(request)
        sent = server.requests[0]
    assert sent["system"] == "You find things."
    assert sent["max_tokens"] == 99
    assert sent["tool_choice"] == {"type": "tool", "name": "find"}
    assert sent["tools"][0]["input_schema"] == {"type": "object", "properties": {}}
    assert [each["role"] for each in sent["messages"]] == ["user", "assistant", "user"]
    assert sent["messages"][1]["content"][1]["input"] == {"what": "it"}
    assert sent["messages"][2]["content"][0]["is_error"] is True


def test_half_characters_are_sent_as_their_escapes() -> None:
    """No text with one can be sent. Names of files have some, and models write some."""
    request = ModelRequest(
        "claude-test",
        [
            Message.user("read \udcff.txt"),
            Message.assistant(ToolCall("t1", "find", {"names": ["\ud83d"]})),
            Message.user(ToolResult("t1", "no \udcff.txt")),
        ],
        system="\udcff",
    )
    with ModelServer(says("ok")) as server:
        adapter(server).answer(request)
        sent = server.requests[0]
    blocks = [each["content"][0] for each in sent["messages"]]
    assert blocks[0]["text"] == "read \\udcff.txt"
    assert blocks[1]["input"] == {"names": ["\\ud83d"]}
    assert blocks[2]["content"] == "no \\udcff.txt"
    assert sent["system"] == "\\udcff"


def test_half_characters_in_answers_are_read_as_their_escapes() -> None:
    with ModelServer(uses("find", {"name": "\ud83d"}), says("so \ud83d")) as server:
        one = adapter(server)
        assert one.answer(HELLO).tool_calls[0].arguments == {"name": "\\ud83d"}
        assert one.answer(HELLO).text == "so \\ud83d"


def test_any_tool_will_do_if_the_request_says_so() -> None:
    tool = ToolSpec("find", "", {"type": "object"})
    request = ModelRequest("m", [Message.user("x")], tools=[tool], must_use=ANY_TOOL)
    with ModelServer(uses("find", {"a": 1})) as server:
        answer = adapter(server).answer(request)
        assert server.requests[0]["tool_choice"] == {"type": "any"}
    assert answer.tool_calls == (ToolCall("toolu_1", "find", {"a": 1}),)
    assert answer.stop is StopReason.TOOL_USE


def test_what_only_the_service_understands_is_handed_back_as_it_came() -> None:
    block = {"type": "thinking", "thinking": "hm", "signature": "s"}
    with ModelServer(Answers((block, {"type": "text", "text": "so"}))) as server:
        one = adapter(server)
        answer = one.answer(HELLO)
        assert answer.parts == (Opaque(block), Text("so"))
        one.answer(ModelRequest("m", [*HELLO.messages, answer.message, Message.user("go on")]))
        assert server.requests[1]["messages"][1]["content"][0] == block


# Trying again


@pytest.mark.parametrize(
    "failure",
    [
        OVERLOADED,
        Fails(429, "rate_limit_error"),
        Fails(500, "api_error"),
        Fails(503, "api_error"),
        Fails(408, "timeout_error"),
        Cuts(says("never whole")),
    ],
    ids=str,
)
def test_what_fails_for_a_moment_is_tried_again(failure: Fails | Cuts) -> None:
    with ModelServer(failure, failure, says("at last")) as server:
        assert adapter(server).answer(HELLO).text == "at last"
        assert server.calls == 3


def test_a_service_that_hangs_is_asked_again() -> None:
    with ModelServer(Hangs(), says("at last")) as server:
        assert adapter(server, timeout_s=0.2).answer(HELLO).text == "at last"


def test_a_service_that_is_away_is_told_as_such() -> None:
    with ModelServer(says("")) as server:
        url = server.url
    client = anthropic.Anthropic(base_url=url, api_key="key")
    one = AnthropicAdapter(client, backoff=AT_ONCE, max_attempts=2)
    with client, pytest.raises(ModelUnavailable, match="claude-test gave no answer in 2 attempts"):
        one.answer(HELLO)


def test_retries_of_the_client_do_not_come_on_top() -> None:
    with ModelServer(OVERLOADED) as server:
        one = AnthropicAdapter(server.client(max_retries=7), backoff=AT_ONCE, max_attempts=3)
        with pytest.raises(ModelUnavailable, match="in 3 attempts; the last ended with 529 over"):
            one.answer(HELLO)
        assert server.calls == 3


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (Fails(400, "invalid_request_error", message="no such field"), "no such field"),
        (Fails(401, "authentication_error"), "check ANTHROPIC_API_KEY"),
        (Fails(404, "not_found_error", message="model: x"), "404 not_found_error: model: x"),
    ],
)
def test_what_will_never_succeed_is_asked_once(failure: Fails, expected: str) -> None:
    with ModelServer(failure) as server:
        with pytest.raises(ModelRefused, match=expected):
            adapter(server).answer(HELLO)
        assert server.calls == 1


def test_an_answer_without_an_end_is_no_answer() -> None:
    with ModelServer(says("half", stop_reason=None), says("whole")) as server:
        assert adapter(server).answer(HELLO).text == "whole"


def test_a_pause_that_one_call_is_asked_for_holds_for_all_adapters_of_the_account() -> None:
    clock = FakeClock()
    busy = Fails(429, "rate_limit_error", {"retry-after": "30"})
    with ModelServer(busy, says("one"), says("other")) as server:
        answers: list[str] = []
        options: dict[str, Any] = {"clock": clock, "timeout_s": 10}

        def ask() -> None:
            answers.append(adapter(server, **options).answer(HELLO).text)

        first, second = (threading.Thread(target=ask, daemon=True) for _ in range(2))
        first.start()
        clock.wait_for_waiters(1)
        second.start()
        clock.wait_for_waiters(2)
        clock.advance(29)
        assert server.calls == 1
        clock.advance(1)
        first.join()
        second.join()
        assert sorted(answers) == ["one", "other"]
        assert server.calls == 3


def test_a_pause_may_be_given_as_a_date() -> None:
    clock = FakeClock()
    busy = Fails(429, "rate_limit_error", {"retry-after": "Mon, 01 Jan 2024 00:10:00 GMT"})
    with ModelServer(busy) as server:
        with pytest.raises(ModelUnavailable, match="can be asked again in 10m"):
            adapter(server, clock=clock).answer(HELLO)
        assert server.calls == 1


def test_there_is_no_attempt_beyond_the_time_of_the_request() -> None:
    request = ModelRequest("m", HELLO.messages, timeout_s=5)
    with ModelServer(Fails(429, "rate_limit_error", {"retry-after": "6"})) as server:
        with pytest.raises(ModelUnavailable, match="longer than may be waited"):
            adapter(server, clock=FakeClock()).answer(request)
        assert server.calls == 1


# Budgets


def test_a_budget_is_looked_at_before_each_call() -> None:
    budget = Budget(max_calls=2)
    with ModelServer(OVERLOADED) as server:
        with pytest.raises(BudgetExceeded, match="the budget of 2 model calls is spent"):
            adapter(server, budget=budget).answer(HELLO)
        assert server.calls == 2


def test_tokens_and_cost_of_all_calls_are_counted() -> None:
    prices = {"claude-test": Price(input=3, output=15)}
    budget = Budget(max_cost=1.0, max_tokens=1_000_000, prices=prices)
    with ModelServer(says("x", input_tokens=100_000, output_tokens=50_000)) as server:
        one = adapter(server, budget=budget)
        one.answer(HELLO)
        with pytest.raises(BudgetExceeded, match="in cost"):
            one.answer(HELLO)
        assert budget.spent.cost == pytest.approx(1.05)
        assert budget.spent.usage == Usage(100_000, 50_000)
        assert server.calls == 1


def test_a_cost_that_nobody_can_know_is_refused() -> None:
    with ModelServer(says("x")) as server:
        with pytest.raises(UsageError, match="no price of claude-test"):
            adapter(server, budget=Budget(max_cost=1.0)).answer(HELLO)
        assert server.calls == 0


# Telling


def test_calls_and_retries_are_told() -> None:
    telemetry, seen = Telemetry(), list[Event]()
    telemetry.subscribe(seen.append)
    with ModelServer(OVERLOADED, says("x", input_tokens=7, output_tokens=3)) as server:
        adapter(server, telemetry=telemetry).answer(HELLO)
    retried, called = seen
    assert isinstance(retried, ModelCallRetried)
    assert (retried.attempt, retried.model) == (1, "claude-test")
    assert isinstance(called, ModelCalled)
    assert (called.input_tokens, called.output_tokens, called.attempts) == (7, 3, 2)


# Streams


def test_a_stream_hands_on_its_text_and_ends_in_the_whole_answer() -> None:
    content = (
        {"type": "text", "text": "I look"},
        {"type": "tool_use", "id": "t1", "name": "find", "input": {"what": "it"}},
    )
    heard: list[str] = []
    with ModelServer(Answers(content, "tool_use")) as server:
        answer = adapter(server).stream(HELLO, heard.append)
    assert heard == ["I look"]
    assert answer.tool_calls == (ToolCall("t1", "find", {"what": "it"}),)
    assert answer.usage == Usage(10, 5)


def test_a_stream_that_is_cut_before_its_text_is_tried_again() -> None:
    heard: list[str] = []
    with ModelServer(OVERLOADED, says("whole")) as server:
        assert adapter(server).stream(HELLO, heard.append).text == "whole"
    assert heard == ["whole"]


@pytest.mark.parametrize("failure", [Cuts(says("half")), FailsWithin("overloaded_error")], ids=str)
def test_a_stream_that_ends_within_its_text_is_no_answer(failure: Cuts | FailsWithin) -> None:
    heard: list[str] = []
    with ModelServer(failure) as server:
        with pytest.raises(ModelUnavailable):
            adapter(server).stream(HELLO, heard.append)
        assert server.calls == 1
    assert len(heard) == 1


def test_an_error_of_who_listens_comes_out_as_it_is() -> None:
    def listen(text: str) -> None:
        raise KeyError(text)

    with ModelServer(says("x")) as server, pytest.raises(KeyError):
        adapter(server).stream(HELLO, listen)


class Taking:
    """Hears words, and takes them back."""

    def __init__(self) -> None:
        self.heard: list[str | None] = []

    def __call__(self, text: str, /) -> None:
        self.heard.append(text)

    def begin_again(self) -> None:
        self.heard.append(None)


def streamed(one: AnthropicAdapter, listener: Taking, is_async: bool) -> ModelAnswer:
    if is_async:
        return asyncio.run(one.stream_async(HELLO, listener))
    return one.stream(HELLO, listener)


both_ways = pytest.mark.parametrize("is_async", [False, True], ids=["thread", "coroutine"])


@both_ways
@pytest.mark.parametrize(
    "failure", [Cuts(says("half")), FailsWithin("overloaded_error"), OVERLOADED], ids=str
)
def test_who_can_take_words_back_hears_an_answer_anew(
    failure: Cuts | FailsWithin | Fails, is_async: bool
) -> None:
    listener = Taking()
    with ModelServer(failure, says("whole", input_tokens=7, output_tokens=3)) as server:
        answer = streamed(adapter(server), listener, is_async)
        assert server.calls == 2
    assert (answer.text, answer.usage) == ("whole", Usage(7, 3))
    assert listener.heard[-1] == "whole"
    assert listener.heard[:-1] in ([], ["half", None], ["partly", None])


@both_ways
def test_a_stream_fails_as_an_answer_does(is_async: bool) -> None:
    listener = Taking()
    with ModelServer(Cuts(says("half"))) as server:
        with pytest.raises(ModelUnavailable, match="in 3 attempts"):
            streamed(adapter(server, max_attempts=3), listener, is_async)
        assert server.calls == 3
    with ModelServer(Fails(400, "no")) as server, pytest.raises(ModelRefused):
        streamed(adapter(server), listener, is_async)
    # Who has an error believes nothing that was said before.
    assert listener.heard == ["half", None, "half", None, "half"]


@both_ways
def test_a_stream_that_ends_before_it_began_is_tried_again(is_async: bool) -> None:
    listener = Taking()
    with ModelServer(Cuts(says("never"), events=0), says("whole")) as server:
        assert streamed(adapter(server), listener, is_async).text == "whole"
    assert listener.heard == ["whole"]


@both_ways
def test_a_stream_has_as_long_as_an_answer(is_async: bool) -> None:
    """Each word comes in time, and the last one does not."""
    clock = FakeClock()

    class Slow(Taking):
        def __call__(self, text: str, /) -> None:
            super().__call__(text)
            if len(self.heard) == 1:
                clock.advance(11)

    listener = Slow()
    with ModelServer(says("slow"), says("quick")) as server:
        one = adapter(server, clock=clock, timeout_s=10)
        assert streamed(one, listener, is_async).text == "quick"
    assert listener.heard == ["slow", None, "quick"]


# Coroutines


def test_many_coroutines_wait_for_answers_at_once() -> None:
    count = 50
    all_here = threading.Barrier(count)

    def reply(_request: dict[str, Any]) -> Answers:
        all_here.wait(30)
        return says("together")

    async def ask(one: AnthropicAdapter) -> list[str]:
        answers = await asyncio.gather(*(one.answer_async(HELLO) for _ in range(count)))
        return [each.text for each in answers]

    with ModelServer(reply) as server:
        assert asyncio.run(ask(adapter(server))) == ["together"] * count


def test_an_adapter_can_be_used_on_one_event_loop_after_the_other() -> None:
    with ModelServer(OVERLOADED, says("x")) as server:
        one = adapter(server)
        for _ in range(3):
            assert asyncio.run(one.answer_async(HELLO)).text == "x"


def test_an_asynchronous_client_serves_both_ways() -> None:
    with ModelServer(says("x")) as server:
        given = anthropic.AsyncAnthropic(base_url=server.url, api_key="key")
        one = AnthropicAdapter(given)

        async def ask() -> str:
            async with given:  # its connections belong to this loop
                return (await one.answer_async(HELLO)).text

        assert one.answer(HELLO).text == "x"
        assert asyncio.run(ask()) == "x"
        one.close()


# Making a client


def test_a_missing_key_is_told_before_anything_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match="set ANTHROPIC_API_KEY"):
        AnthropicAdapter().prepare()


def test_a_missing_package_is_told_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(UsageError, match=r"pip install 'afl\[anthropic\]'"):
        AnthropicAdapter().prepare()


def test_the_client_is_imported_when_it_is_first_needed() -> None:
    code = (
        "import sys, afl.runtime.agent, afl.agents.adapters.anthropic;"
        "sys.exit('anthropic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_a_client_one_is_made_for_the_given_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
    with ModelServer(says("x")) as server:
        one = AnthropicAdapter(base_url=server.url)
        assert one.answer(HELLO).text == "x"
        one.close()


def test_an_adapter_tries_at_least_once() -> None:
    with pytest.raises(UsageError, match="max_attempts is 0"):
        AnthropicAdapter(max_attempts=0)


# Whether it is there


@pytest.mark.parametrize(
    "entry",
    [says("hi"), OVERLOADED, Fails(404, "not_found_error"), Fails(429, "rate_limit_error")],
    ids=["well", "overloaded", "no list", "busy"],
)
def test_a_service_that_answers_somehow_is_there(entry: Any) -> None:
    with ModelServer(entry) as server:
        adapter(server).ping()
    assert server.calls == 1, "whoever checks will ask again"


@pytest.mark.parametrize(
    ("entry", "reason"),
    [(Fails(500, "api_error"), "500"), (Fails(401, "authentication_error"), "ANTHROPIC_API_KEY")],
)
def test_a_service_that_cannot_answer_or_takes_no_key_is_not_there(entry: Any, reason: str) -> None:
    with ModelServer(entry) as server, pytest.raises(ModelUnavailable, match=reason):
        adapter(server).ping()


def test_a_service_that_is_gone_is_not_there() -> None:
    with ModelServer(says("hi")) as server:
        url = server.url
    with (
        anthropic.Anthropic(base_url=url, api_key="key") as client,
        pytest.raises(ModelUnavailable, match="Connection"),
    ):
        AnthropicAdapter(client).ping()
