"""Mistakes that loops over queues make: ours makes none, and one that does is found.

Each hazard is a scenario that fails for a loop that has it, and a mutant that has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from tests.loops import office as offices
from tests.loops.office import Gate, Office, Running, eventually

from afl.backoff import Backoff
from afl.loops import AgentLoop, AgentLoopRequest, Deadline, mailbox_source
from afl.loops.execution import Execution
from afl.loops.mailbox_source import MessageSource, MessageWork
from afl.mailbox import DLQPolicy, FakeMailbox, MailboxConnectionError, Message
from afl.work.source import Job, Room

Works = Sequence[MessageWork[Any, Any]]
Patch = Callable[[pytest.MonkeyPatch], None]


class Hazard(NamedTuple):
    meaning: str
    scenario: Callable[[Office], None]
    mutant: Patch


def stopped_after_receiving(office: Office, count: int = 3) -> AgentLoop[Any, Any]:
    """Let a loop receive so many messages, and be stopped before it begins with any."""
    requests: Any = office.open("requests", AgentLoopRequest[Any])
    loop = office.loop(str.upper, requests=requests, concurrency=count)
    receive = requests.receive

    def receive_then_stop(**options: Any) -> Any:
        messages = receive(**options)
        loop.request_stop()
        return messages

    requests.receive = receive_then_stop
    with Running(loop) as running:
        running.join()
    return loop


def ready(office: Office) -> list[str]:
    """What can be received now, in order."""
    messages = office.requests.receive(max_messages=10, visibility_timeout=0)
    return [each.body.request for each in messages]


# The rest of a batch is not given back


def the_rest_of_a_batch(office: Office) -> None:
    office.ask("first", "second", "third")
    stopped_after_receiving(office)
    assert sorted(ready(office)) == ["first", "second", "third"]


def releases_one(monkeypatch: pytest.MonkeyPatch) -> None:
    release = MessageSource.release

    def only_first(self: MessageSource[Any, Any], works: Works) -> None:
        release(self, works[:1])

    monkeypatch.setattr(MessageSource, "release", only_first)


# Only one message is received, however many could be done


def as_many_as_can_be_done(office: Office) -> None:
    gate = Gate()
    office.ask("first", "second", "third")
    with Running(office.loop(gate, concurrency=3), max_iterations=1, wait_time_seconds=0):
        gate.wait_for(3)
        gate.may_end.set()
        office.answers(3)


def claims_one(monkeypatch: pytest.MonkeyPatch) -> None:
    claim = MessageSource.claim
    monkeypatch.setattr(MessageSource, "claim", lambda self, limit: claim(self, 1))


# A hiccup of the broker ends the loop


def a_hiccup_of_the_broker(office: Office) -> None:
    requests: Any = office.open("requests", AgentLoopRequest[Any])
    loop = office.loop(str.upper, requests=requests)
    receive, errors = requests.receive, [ConnectionResetError("by peer")]

    def flaky(**options: Any) -> Any:
        if errors:
            raise errors.pop()
        return receive(**options)

    requests.receive = flaky
    with Running(loop) as running:
        office.ask("first")
        eventually(lambda: running.is_over or office.replies.approximate_count())
        assert not running.is_over, f"it ended: {running.error!r}"
    office.answers(1)


def lets_errors_through(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def nothing() -> Iterator[None]:
        yield

    monkeypatch.setattr(mailbox_source, "reaching", nothing)


# A hiccup while it drains strands messages


def a_hiccup_while_it_drains(office: Office) -> None:
    office.ask("first", "second")
    requests: Any = office.open("requests", AgentLoopRequest[Any])
    release_all, errors = requests.release_all, [MailboxConnectionError("the cable is out")]

    def flaky(messages: Any) -> None:
        if errors:
            raise errors.pop()
        release_all(messages)

    requests.release_all = flaky
    loop = office.loop(str.upper, requests=requests, concurrency=2)
    receive = requests.receive

    def receive_then_stop(**options: Any) -> Any:
        messages = receive(**options)
        loop.request_stop()
        return messages

    requests.receive = receive_then_stop
    with Running(loop) as running:
        running.join()
    assert ready(office) == ["first", "second"]


def swallows_errors_of_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    release = MessageSource.release

    def careless(self: MessageSource[Any, Any], works: Works) -> None:
        try:
            release(self, works)
        except MailboxConnectionError:
            return

    monkeypatch.setattr(MessageSource, "release", careless)


# Who has lost the lease replies all the same


def a_lost_lease(office: Office) -> None:
    gate = Gate()
    office.ask("first")
    loop = office.loop(gate)
    with Running(loop):
        gate.wait_for(1)
        office.requests.purge()
        gate.may_end.set()
        eventually(lambda: loop.in_flight == 0)
    assert office.replies.approximate_count() == 0


def replies_without_a_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MessageSource, "_require_lease", lambda *_anything: None)


# Nothing limits how long a turn takes


def a_turn_that_never_ends(office: Office) -> None:
    gate = Gate()
    request = AgentLoopRequest("first", deadline=Deadline.after(0.2))
    office.requests.send(request, reply_to=office.replies)
    with Running(office.loop(gate)):
        try:
            (answer,) = office.answers(1)
        finally:
            gate.may_end.set()
    # On a busy machine it may be over before it begins.
    assert any(each in str(answer.error) for each in ("took longer", "is over"))


def looks_at_no_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AgentLoop, "deadline_of", lambda *_anything: None)


# What is given back goes to the end of the queue


def its_place_in_the_queue(office: Office) -> None:
    office.ask("first", "second", "third")
    stopped_after_receiving(office, 2)
    assert ready(office) == ["first", "second", "third"]


def sends_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(self: MessageSource[Any, Any], works: Works) -> None:
        for each in works:
            self._mailbox.send(each.message.body, reply_to=each.message.reply_to)
            each.message.acknowledge()

    monkeypatch.setattr(MessageSource, "release", careless)


# Deploys wear messages out


def many_deploys(office: Office) -> None:
    office.ask("first")
    for _ in range(7):
        stopped_after_receiving(office)
    with Running(office.loop(str.upper)):
        assert office.outputs(1) == ["FIRST"]


def counts_what_was_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(_self: MessageSource[Any, Any], works: Works) -> None:
        for each in works:
            each.message.nack()

    monkeypatch.setattr(MessageSource, "release", careless)


# It acknowledges before it replies


def a_crash_before_the_reply(office: Office) -> None:
    """As far as the mailbox can see: the process ends while it tries to reply."""
    requests: FakeMailbox[Any, Any] = FakeMailbox()
    replies: FakeMailbox[Any, Any] = FakeMailbox()
    replies.set_connection_error(MailboxConnectionError("the cable is out"))
    requests.send(AgentLoopRequest("first"), reply_to=replies)
    done: list[Any] = []
    loop = AgentLoop.from_function(done.append, requests=requests)
    with Running(loop) as running:
        eventually(lambda: done)
        loop.checkpoint()
        running.join()
    assert requests.approximate_count() == 1


def acknowledges_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(
        self: MessageSource[Any, Any], work: MessageWork[Any, Any], result: Any, _room: Room
    ) -> object:
        work.message.acknowledge()
        self._reply(work, result)
        return mailbox_source.RECORDED

    monkeypatch.setattr(MessageSource, "complete", careless)


# An acknowledgement that fails repeats the reply


@contextmanager
def a_cut_at_the_first_acknowledgement() -> Iterator[list[Exception]]:
    """What is still to be raised: nothing, once the line was cut."""
    cuts: list[Exception] = [ConnectionResetError("the cable is out")]
    acknowledge = Message.acknowledge

    def cut_off(self: Message[Any, Any]) -> None:
        if cuts:
            raise cuts.pop()
        acknowledge(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Message, "acknowledge", cut_off)
        yield cuts


def a_failed_acknowledgement(office: Office) -> None:
    office.ask("first")
    with a_cut_at_the_first_acknowledgement() as cuts, Running(office.loop(str.upper)):
        eventually(lambda: not cuts and office.requests.approximate_count() == 0)
    assert office.outputs(1) == ["FIRST"]


def forgets_what_it_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    reply = MessageSource._reply

    def careless(self: MessageSource[Any, Any], work: MessageWork[Any, Any], body: Any) -> None:
        work.is_answered = False
        reply(self, work, body)

    monkeypatch.setattr(MessageSource, "_reply", careless)


# A dead-letter mailbox that takes nothing ends the loop, or loses the message


def a_dead_letter_mailbox_that_is_full(office: Office) -> None:
    letters = office.open("letters", max_size=1)
    letters.send("no more room")
    office.ask("first")
    policy: DLQPolicy[Any] = DLQPolicy(letters, max_delivery_count=1)
    with Running(office.loop(lambda _request: 1 / 0, dlq=policy)):
        office.answers(1)
        eventually(office.requests.dead_letters)


def relies_on_its_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(
        _mailbox: object, message: Any, error: BaseException, policy: Any, **_options: Any
    ) -> None:
        message.acknowledge()
        policy.mailbox.send(str(error))

    monkeypatch.setattr(mailbox_source, "give_up", careless)


# What ends its receivers is delivered for ever


def a_message_that_kills(office: Office) -> None:
    begun: list[Any] = []
    office.ask("deadly")
    for _ in range(5):
        office.take(lease_s=0)
    with Running(office.loop(begun.append)):
        eventually(lambda: office.replies.approximate_count() == 1)
    assert begun == []


def counts_no_deliveries(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(self: MessageSource[Any, Any], work: MessageWork[Any, Any]) -> Job:
        return self._handling.job(work.message)

    monkeypatch.setattr(MessageSource, "job", careless)


# A retry is answered as if it were the end


def only_ends_are_answered(office: Office) -> None:
    office.ask("first")
    calls: list[Any] = []

    def second_time(request: Any) -> Any:
        calls.append(request)
        return 1 / (len(calls) - 1)

    policy: DLQPolicy[Any] = DLQPolicy(backoff=Backoff(initial=0.0, maximum=0.0))
    with Running(office.loop(second_time, dlq=policy)):
        eventually(lambda: office.requests.approximate_count() == 0)
    assert [each.success for each in office.answers(1)] == [True]
    assert office.replies.approximate_count() == 0


def answers_every_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    fail = MessageSource._end_failed

    def careless(
        self: MessageSource[Any, Any], work: MessageWork[Any, Any], error: BaseException
    ) -> None:
        self._reply_failure(work, error, str(error))
        fail(self, work, error)

    monkeypatch.setattr(MessageSource, "_end_failed", careless)


# A closed mailbox is polled for ever


def a_closed_mailbox(office: Office) -> None:
    requests = office.open("requests", AgentLoopRequest[Any])
    loop = office.loop(str.upper, requests=requests)
    with Running(loop) as running:
        eventually(lambda: loop.running)
        requests.close()
        running.join()


def notices_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MessageSource, "_stop_if_closed", lambda *_anything: None)


# A prompt is not cleaned up when something fails


def cleanup_after_a_failure(office: Office) -> None:
    from tests.loops.agents import Agent

    from afl.agents.adapters.scripted import ScriptedAdapter

    agent = Agent(ScriptedAdapter([ValueError("the model is broken")]), office)
    office.ask("first")
    agent.run(max_iterations=1, wait_time_seconds=0)
    office.answers(1)
    assert agent.cleanups == ["first"]


def cleans_up_after_success_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async def careless(self: Execution[Any, Any]) -> Any:
        response = await self.run()
        await self.close()
        return response

    monkeypatch.setattr(Execution, "perform", careless)


def cleans_up_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    close = Execution.close

    async def careless(self: Execution[Any, Any], error: BaseException | None = None) -> None:
        prompt = self._prompt
        await close(self, error)
        if prompt is not None:
            prompt.cleanup()

    monkeypatch.setattr(Execution, "close", careless)


HAZARDS = [
    Hazard("the rest of a batch stays hidden", the_rest_of_a_batch, releases_one),
    Hazard("messages are received one by one", as_many_as_can_be_done, claims_one),
    Hazard("a hiccup ends the loop", a_hiccup_of_the_broker, lets_errors_through),
    Hazard("a hiccup strands messages", a_hiccup_while_it_drains, swallows_errors_of_releases),
    Hazard("a lost lease is answered", a_lost_lease, replies_without_a_lease),
    Hazard("nothing limits a turn", a_turn_that_never_ends, looks_at_no_deadline),
    Hazard("a drain changes the order", its_place_in_the_queue, sends_again),
    Hazard("a drain wears messages out", many_deploys, counts_what_was_not_begun),
    Hazard("acknowledged before the reply", a_crash_before_the_reply, acknowledges_first),
    Hazard("a reply is repeated", a_failed_acknowledgement, forgets_what_it_sent),
    Hazard("a full dead-letter mailbox", a_dead_letter_mailbox_that_is_full, relies_on_its_letters),
    Hazard("a deadly message lives for ever", a_message_that_kills, counts_no_deliveries),
    Hazard("retries are answered", only_ends_are_answered, answers_every_failure),
    Hazard("a closed mailbox is polled", a_closed_mailbox, notices_no_end),
    Hazard("no cleanup after a failure", cleanup_after_a_failure, cleans_up_after_success_only),
    Hazard("two cleanups after a failure", cleanup_after_a_failure, cleans_up_twice),
]


@pytest.mark.parametrize("hazard", HAZARDS, ids=lambda each: each.meaning)
def test_ours_does_not_have_it(hazard: Hazard, office: Office) -> None:
    hazard.scenario(office)


@pytest.mark.parametrize("hazard", HAZARDS, ids=lambda each: each.meaning)
def test_a_loop_that_has_it_is_found(
    hazard: Hazard, memory_office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offices, "PATIENCE_S", 1.0)
    hazard.mutant(monkeypatch)
    with pytest.raises(AssertionError):
        hazard.scenario(memory_office)
