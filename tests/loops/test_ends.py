"""How a message ends: answered, tried again, given up, or not at all."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from tests.loops.agents import Agent
from tests.loops.office import Gate, Office, Running, eventually

from afl.agents.adapters.scripted import ScriptedAdapter, says
from afl.backoff import Backoff
from afl.clock import SYSTEM_CLOCK
from afl.loops import (
    AgentLoop,
    AgentLoopRequest,
    Deadline,
    Turn,
    TurnBudget,
    TurnStatus,
    TurnSuspended,
    mailbox_source,
)
from afl.mailbox import (
    CollectingMailbox,
    DLQPolicy,
    FakeMailbox,
    MailboxConnectionError,
    RegistryResolver,
    SerializationError,
)

AT_ONCE = Backoff(initial=0.0, maximum=0.0)

Events = Callable[[str], list[dict[str, object]]]


class Failing:
    """Fails so many times, then answers."""

    def __init__(self, times: float, error: BaseException | None = None) -> None:
        self.calls = 0
        self._times = times
        self._error = error or ValueError("no such thing")

    def __call__(self, request: Any) -> Any:
        self.calls += 1
        if self.calls <= self._times:
            raise self._error
        return request


# Failures


def test_without_a_policy_a_failure_is_answered_and_never_tried_again(office: Office) -> None:
    failing = Failing(1)
    (asked,) = office.ask("first")
    with Running(office.loop(failing)):
        (answer,) = office.answers(1)
        eventually(lambda: office.requests.approximate_count() == 0)
    assert (answer.request_id, answer.error) == (asked, "no such thing")
    assert (answer.status, answer.success, answer.output) == (TurnStatus.FAILED, False, None)
    assert failing.calls == 1
    assert office.requests.dead_letters() == []


def test_with_a_policy_it_is_tried_again_and_only_the_end_is_answered(office: Office) -> None:
    office.ask("first")
    with Running(office.loop(Failing(2), dlq=DLQPolicy(backoff=AT_ONCE))):
        (answer,) = office.answers(1)
    assert answer.output == "first"
    assert answer.run_context is not None
    assert answer.run_context.attempt == 3
    assert office.replies.approximate_count() == 0


def test_before_it_is_tried_again_it_waits_as_the_policy_says(office: Office) -> None:
    office.ask("first")
    with Running(
        office.loop(Failing(1), dlq=DLQPolicy(backoff=Backoff(initial=500.0, maximum=600.0)))
    ):
        eventually(lambda: office.requests.peek()[0].hidden_s > 400)
    assert office.replies.approximate_count() == 0


def test_every_failure_is_logged_with_its_trace(
    memory_office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    memory_office.ask("first")
    with Running(memory_office.loop(Failing(1), dlq=DLQPolicy(backoff=AT_ONCE))):
        memory_office.answers(1)
    [record] = [each for each in caplog.records if "message_failed" in each.getMessage()]
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ValueError)
    facts: Any = record.msg
    assert (facts["delivery"], facts["error"]) == (1, "no such thing")


def test_one_delivery_is_told_as_one(memory_office: Office) -> None:
    memory_office.ask("first")
    with Running(memory_office.loop(Failing(9), dlq=DLQPolicy(max_delivery_count=1))):
        (answer,) = memory_office.answers(1)
    assert answer.error == "given up after 1 delivery: no such thing"


def test_it_is_given_up_in_the_end_and_that_is_answered(office: Office) -> None:
    failing = Failing(9)
    (asked,) = office.ask("first")
    with Running(office.loop(failing, dlq=DLQPolicy(max_delivery_count=3, backoff=AT_ONCE))):
        (answer,) = office.answers(1)
        eventually(office.requests.dead_letters)
    assert answer.error == "given up after 3 deliveries: no such thing"
    assert failing.calls == 3
    (letter,) = office.requests.dead_letters()
    assert letter.last_error == "no such thing"
    assert letter.last_error_type == "builtins.ValueError"
    assert (letter.request_id, letter.delivery_count) == (asked, 3)
    assert office.requests.redrive() == 1
    with Running(office.loop(str.upper)):
        assert office.outputs(1) == ["FIRST"]


@pytest.mark.parametrize(
    ("policy", "calls"),
    [
        (DLQPolicy[Any](include_errors=(ArithmeticError,), backoff=AT_ONCE), 1),
        (DLQPolicy[Any](backoff=AT_ONCE), 5),
        (
            DLQPolicy[Any](
                exclude_errors=(ArithmeticError,), max_excluded_count=8, backoff=AT_ONCE
            ),
            8,
        ),
        (DLQPolicy[Any](exclude_errors=(ArithmeticError,), backoff=AT_ONCE), 10),
    ],
    ids=["included", "usual", "excluded", "excluded for long"],
)
def test_errors_are_told_apart_by_what_they_are(
    memory_office: Office, policy: DLQPolicy[Any], calls: int
) -> None:
    failing = Failing(9, ZeroDivisionError("by zero"))
    memory_office.ask("first")
    with Running(memory_office.loop(failing, dlq=policy)):
        memory_office.answers(1)
    assert failing.calls == calls


def test_a_dead_letter_mailbox_that_is_full_loses_nothing_and_ends_nobody(
    office: Office, events: Events
) -> None:
    letters = office.open("letters", max_size=1)
    letters.send("no more room")
    office.ask("first", "second")
    policy: DLQPolicy[Any] = DLQPolicy(letters, max_delivery_count=1)
    with Running(office.loop(Failing(1), dlq=policy)):
        office.answers(2)
        eventually(office.requests.dead_letters)
    assert [each.body.request for each in office.requests.dead_letters()] == ["first"]
    assert len(events("dead_letter_mailbox_failed")) == 1


def test_a_message_that_ends_its_receivers_is_found_without_a_policy(office: Office) -> None:
    begun: list[Any] = []
    office.ask("deadly", "harmless")
    for _ in range(5):
        office.take(lease_s=0)  # whoever took it died at once
    with Running(office.loop(begun.append)):
        answers = office.answers(2)
        eventually(office.requests.dead_letters)
    assert begun == ["harmless"]
    assert "without an end" in str(answers[0].error)
    assert [each.body.request for each in office.requests.dead_letters()] == ["deadly"]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), Exception()])
def test_nothing_that_a_turn_raises_ends_the_loop(
    memory_office: Office, error: BaseException
) -> None:
    memory_office.ask("first", "second")
    with Running(memory_office.loop(Failing(1, error))):
        answers = memory_office.answers(2)
    assert [each.success for each in answers] == [False, True]
    assert answers[0].error


class Mute(Exception):  # noqa: N818 - it says nothing
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("cannot read \udcff.txt"), "cannot read \\udcff.txt"),
        (Mute(), "Mute"),
    ],
    ids=["no Unicode", "no text"],
)
def test_an_error_with_an_odd_text_is_told_like_any_other(
    office: Office, error: Exception, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "afl")  # its trace could not be reported
    office.ask("first", "second")
    with Running(office.loop(Failing(1, error))):
        first, second = office.answers(2)
    assert (first.status, first.error) == (TurnStatus.FAILED, text)
    assert second.output == "second"
    assert office.requests.dead_letters() == []


def test_what_was_told_as_given_up_is_not_tried_again(office: Office) -> None:
    """Also if no letter can be made of the error, as what it raised is not what the policy says."""
    failing = Failing(9, Mute())
    policy: DLQPolicy[Any] = DLQPolicy(include_errors=(Mute,), backoff=AT_ONCE)
    office.ask("first")
    with Running(office.loop(failing, dlq=policy)):
        (answer,) = office.answers(1)
        eventually(office.requests.dead_letters)
    assert answer.error == "given up after 1 delivery: Mute"
    assert failing.calls == 1


def test_a_body_that_is_none_disturbs_nobody(office: Office) -> None:
    raw = office.open("requests")  # whoever sends here is not held to any type
    raw.send({"request_id": 5, "request": "first"}, reply_to=office.replies)
    office.ask("second")
    with Running(office.loop(str.upper)):
        assert sorted(map(str, office.outputs(2))) == ["None", "SECOND"]
        eventually(office.requests.dead_letters)
    (letter,) = office.requests.dead_letters()
    assert "request_id" in letter.last_error


def test_a_turn_may_say_that_it_waits_for_somebody(office: Office) -> None:
    office.ask("first")
    with Running(office.loop(Failing(1, TurnSuspended("a person must agree", "token-1")))):
        (answer,) = office.answers(1)
        eventually(lambda: office.requests.approximate_count() == 0)
    assert (answer.status, answer.resume_token) == (TurnStatus.SUSPENDED, "token-1")
    assert (answer.error, answer.success) == ("a person must agree", False)


def test_an_error_shows_no_secrets_to_whoever_asked(memory_office: Office) -> None:
    memory_office.ask("first")
    error = ValueError("cannot log in to db://bob:hunter2@host/x")
    with Running(memory_office.loop(Failing(1, error))):
        (answer,) = memory_office.answers(1)
    assert answer.error == "cannot log in to db://bob:***@host/x"


# Time


def test_a_turn_that_comes_too_late_is_answered_and_not_begun(office: Office) -> None:
    begun: list[Any] = []
    office.requests.send(
        AgentLoopRequest("first", deadline=Deadline.after(0)), reply_to=office.replies
    )
    with Running(office.loop(begun.append)):
        (answer,) = office.answers(1)
    assert "is over" in str(answer.error)
    assert begun == []


def test_a_turn_is_given_up_at_its_deadline(office: Office) -> None:
    gate = Gate()
    office.requests.send(
        AgentLoopRequest("first", deadline=Deadline.after(0.3)), reply_to=office.replies
    )
    with Running(office.loop(gate)):
        (answer,) = office.answers(1)
        assert "took longer than" in str(answer.error)
        office.ask("second")
        gate.wait_for(2)  # its thread hangs, and another one takes its place
        gate.may_end.set()
        assert office.outputs(1) == ["second"]


def test_a_budget_may_limit_the_time(memory_office: Office) -> None:
    gate = Gate()
    request = AgentLoopRequest("first", budget=TurnBudget(max_seconds=0.2))
    memory_office.requests.send(request, reply_to=memory_office.replies)
    with Running(memory_office.loop(gate)):
        (answer,) = memory_office.answers(1)
        gate.may_end.set()
    assert "took longer than" in str(answer.error)


def test_a_turn_without_progress_is_given_up_and_one_with_progress_is_not(
    memory_office: Office,
) -> None:
    gate = Gate()

    def work(request: str, turn: Turn) -> str:
        if request == "silent":
            return str(gate(request))
        for _ in range(15):
            turn.beat()
            SYSTEM_CLOCK.wait(turn.cancellation, 0.05)
        return "done"

    memory_office.ask("silent", "busy")
    with Running(memory_office.loop(work), visibility_timeout=0.5):
        first, second = memory_office.answers(2)
        gate.may_end.set()
    assert "gave no sign of progress" in str(first.error)
    assert second.output == "done"


# Leases


def test_who_has_lost_the_lease_says_nothing(office: Office) -> None:
    gate = Gate()
    office.ask("first")
    loop = office.loop(gate)
    with Running(loop):
        gate.wait_for(1)
        office.requests.purge()
        gate.may_end.set()
        eventually(lambda: loop.leases_lost == 1)
    assert office.replies.approximate_count() == 0


def test_a_lapsed_lease_cancels_the_turn(office: Office) -> None:
    cancelled: list[str] = []

    def work(request: str, turn: Turn) -> str:
        if SYSTEM_CLOCK.wait(turn.cancellation, 20):
            cancelled.append(request)
        return request

    office.ask("first")
    loop = office.loop(work, lease_s=0.3)
    with Running(loop):
        eventually(lambda: loop.in_flight == 1)
        office.requests.purge()
        eventually(lambda: cancelled == ["first"])
    assert office.replies.approximate_count() == 0


def test_a_reply_may_come_twice_and_both_say_which_attempt_it_was() -> None:
    """The lease is lost between the reply and the acknowledgement, as by a crash."""
    requests: FakeMailbox[Any, Any] = FakeMailbox()

    class Stealing(CollectingMailbox[Any, Any]):
        def send(self, body: Any, **options: Any) -> str:
            if not self.sent:
                requests.expire_handle(handles[0])
            return super().send(body, **options)

    replies, handles = Stealing(), list[str]()
    receive = requests.receive

    def receive_noting(**options: Any) -> Any:
        messages = receive(**options)
        handles.extend(each.receipt_handle for each in messages)
        return messages

    requests.receive = receive_noting  # type: ignore[method-assign]
    requests.send(AgentLoopRequest("first"), reply_to=replies)
    loop = AgentLoop.from_function(str.upper, requests=requests)
    with Running(loop):
        eventually(lambda: len(replies.sent) == 2)
    first, second = replies.sent
    assert first.request_id == second.request_id
    assert [each.run_context.attempt for each in replies.sent] == [1, 2]
    assert first.run_context.run_id != second.run_context.run_id


# Replies


def test_without_an_address_the_reply_goes_to_the_mailbox_of_the_loop(office: Office) -> None:
    responses = office.open("replies")
    office.requests.send(AgentLoopRequest("first"))
    with Running(office.loop(str.upper, responses=responses)):
        assert office.outputs(1) == ["FIRST"]


def test_who_asks_for_no_reply_gets_none(office: Office) -> None:
    done: list[Any] = []
    office.requests.send(AgentLoopRequest("first"))
    with Running(office.loop(done.append)):
        eventually(lambda: office.requests.approximate_count() == 0)
    assert done == ["first"]


def test_an_answer_that_nobody_could_be_told_is_not_worked_out(
    sqlite_office: Office, events: Events
) -> None:
    """The message waits for a person who adds the mailbox to the resolver."""
    begun: list[Any] = []
    sqlite_office.ask("first", "second")
    lost = sqlite_office.open(
        "requests", AgentLoopRequest[Any], reply_resolver=RegistryResolver({})
    )
    with Running(sqlite_office.loop(begun.append, requests=lost)):
        eventually(lambda: len(sqlite_office.requests.dead_letters()) == 2)
    assert begun == []
    assert "no mailbox is known" in sqlite_office.requests.dead_letters()[0].last_error
    assert len(events("reply_unresolved")) == 2
    sqlite_office.requests.redrive()
    with Running(sqlite_office.loop(str.upper)):
        assert sqlite_office.outputs(2) == ["FIRST", "SECOND"]


def test_a_reply_that_cannot_be_sent_now_is_sent_later_and_the_turn_is_not_repeated() -> None:
    requests: FakeMailbox[Any, Any] = FakeMailbox()
    replies: FakeMailbox[Any, Any] = FakeMailbox()
    done: list[Any] = []
    replies.set_connection_error(MailboxConnectionError("the cable is out"))
    requests.send(AgentLoopRequest("first"), reply_to=replies)
    loop = AgentLoop.from_function(done.append, requests=requests)
    with Running(loop):
        eventually(lambda: done and loop.in_flight == 1)
        replies.clear_connection_error()
        eventually(lambda: replies.approximate_count() == 1)
        eventually(lambda: requests.approximate_count() == 0)
    assert done == ["first"]


def test_a_reply_that_nobody_takes_for_long_gives_the_message_back(
    monkeypatch: pytest.MonkeyPatch, events: Events
) -> None:
    monkeypatch.setattr(mailbox_source, "REPLY_PATIENCE_S", 0.0)
    replies: FakeMailbox[Any, Any] = FakeMailbox(max_size=1)
    replies.send("no more room")
    requests: FakeMailbox[Any, Any] = FakeMailbox()
    requests.send(AgentLoopRequest("first"), reply_to=replies)
    with Running(AgentLoop.from_function(str.upper, requests=requests)):
        eventually(lambda: requests.peek()[0].hidden_s > 30)
    assert requests.dead_letters() == []
    assert [each["message"] for each in events("reply_not_sent")] == [requests.peek()[0].message_id]


def test_a_failure_that_nobody_takes_for_long_gives_the_message_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mailbox_source, "REPLY_PATIENCE_S", 0.0)
    replies: FakeMailbox[Any, Any] = FakeMailbox(max_size=1)
    replies.send("no more room")
    requests: FakeMailbox[Any, Any] = FakeMailbox()
    requests.send(AgentLoopRequest("first"), reply_to=replies)
    with Running(AgentLoop.from_function(Failing(1), requests=requests)):
        eventually(lambda: requests.peek()[0].hidden_s > 30)


class Speechless(Agent):
    def failure(self, *_anything: Any) -> Any:
        raise RuntimeError("no words")


def test_a_failure_that_cannot_be_put_into_words_waits_for_a_person(
    office: Office, events: Events
) -> None:
    office.ask("first", "second")
    agent = Speechless(ScriptedAdapter([ValueError("no luck"), says("yes")]), office)
    with Running(agent):
        assert office.outputs(1) == ["yes"]
        eventually(lambda: office.requests.approximate_count() == 0)
    assert [each["reason"] for each in events("reply_not_sent")] == ["no words"]
    (letter,) = office.requests.dead_letters()
    assert letter.body.request == "first"
    assert letter.last_error == "no luck; and nobody could be told: no words"


def test_a_failure_that_the_mailbox_of_the_sender_refuses_waits_for_a_person() -> None:
    class Refusing(CollectingMailbox[Any, Any]):
        def send(self, body: Any, **options: Any) -> str:
            raise SerializationError("it takes numbers only")

    requests: FakeMailbox[Any, Any] = FakeMailbox()
    requests.send(AgentLoopRequest("first"), reply_to=Refusing())
    with Running(AgentLoop.from_function(Failing(1), requests=requests)):
        eventually(requests.dead_letters)
    (letter,) = requests.dead_letters()
    assert letter.last_error == "no such thing; and nobody could be told: it takes numbers only"


def test_a_turn_that_waits_does_so_also_if_nobody_can_be_told(memory_office: Office) -> None:
    memory_office.ask("first")
    waiting = TurnSuspended("a person must agree", "token-1")
    with Running(Speechless(ScriptedAdapter([waiting]), memory_office)):
        eventually(lambda: memory_office.requests.approximate_count() == 0)
    assert memory_office.requests.dead_letters() == []


def test_a_mailbox_that_nobody_reads_any_more_keeps_no_loop_busy(events: Events) -> None:
    replies: FakeMailbox[Any, Any] = FakeMailbox()
    replies.close()
    requests: FakeMailbox[Any, Any] = FakeMailbox()
    requests.send(AgentLoopRequest("first"), reply_to=replies)
    with Running(AgentLoop.from_function(str.upper, requests=requests)):
        eventually(lambda: requests.approximate_count() == 0)
    assert "closed" in str(events("reply_not_sent")[0]["reason"])


def test_an_output_that_cannot_be_sent_is_a_failure_that_is_answered(office: Office) -> None:
    office.ask("first")
    with Running(office.loop(lambda _request: object())):
        (answer,) = office.answers(1)
    assert "cannot be written as JSON" in str(answer.error)
    assert office.requests.approximate_count() == 0


# Outages


@pytest.mark.parametrize(
    "error", [MailboxConnectionError("the cable is out"), ConnectionResetError("by peer")]
)
def test_an_outage_makes_a_loop_unready_and_never_ends_it(error: Exception) -> None:
    requests: FakeMailbox[Any, Any] = FakeMailbox()
    replies: CollectingMailbox[Any, Any] = CollectingMailbox()
    loop = AgentLoop.from_function(str.upper, requests=requests)
    with Running(loop):
        requests.set_connection_error(error)
        eventually(lambda: str(error) in str(loop.unready_reason))
        requests.clear_connection_error()
        requests.send(AgentLoopRequest("first"), reply_to=replies)
        eventually(lambda: replies.sent)
        assert loop.unready_reason is None
