"""Messages whose body does not fit the type of the loop's mailbox: their senders are told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from tests.loops.office import Office, Running, eventually

from afl.errors import StoreClosed
from afl.loops import AgentLoop, AgentLoopRequest
from afl.mailbox import (
    CollectingMailbox,
    DLQPolicy,
    InMemoryMailbox,
    MailboxConnectionError,
    Message,
)
from afl.mailbox.box import Entry
from afl.mailbox.memory import open_box
from afl.mailbox.named import NamedMailbox
from afl.mailbox.packing import Letter

Events = Callable[[str], list[dict[str, object]]]


@dataclass(frozen=True)
class Order:
    item: str
    count: int


GOOD = {"item": "pear", "count": 2}
BAD = {"item": "apple", "count": "three"}
WHY = "Expected `int`, got `str` - at `$.request.count`"


def item_of(order: Order) -> str:
    return order.item


def orders(office: Office, **options: Any) -> AgentLoop[Any, Any]:
    """A loop that takes orders only, on a mailbox that takes anything."""
    requests = office.open("requests", AgentLoopRequest[Order])
    return office.loop(item_of, **{"requests": requests, **options})


def test_the_sender_is_told_what_does_not_fit_and_the_message_is_a_dead_letter(
    anywhere: Office, events: Events
) -> None:
    bad, good = anywhere.ask(BAD, GOOD)
    with Running(orders(anywhere)):
        answers = {each.request_id: each for each in anywhere.answers(2)}
        eventually(lambda: anywhere.requests.approximate_count() == 0)
    assert answers[good].output == "pear"
    refused = answers[bad]
    assert not refused.success
    assert refused.error == (
        f"given up after 1 delivery: this is no body of type AgentLoopRequest: {WHY}"
    )
    (letter,) = anywhere.requests.dead_letters()
    assert letter.body.request == BAD
    assert WHY in letter.last_error
    assert letter.last_error_type == "afl.mailbox.errors.SerializationError"
    (event,) = events("message_dead_lettered")
    assert WHY in str(event["reason"])
    assert anywhere.replies.approximate_count() == 0


def test_without_reply_to_the_mailbox_for_responses_is_told(memory_office: Office) -> None:
    memory_office.requests.send(AgentLoopRequest(BAD, request_id="r-1"))
    responses: CollectingMailbox[Any, Any] = CollectingMailbox()
    with Running(orders(memory_office, responses=responses)):
        eventually(memory_office.requests.dead_letters)
    (answer,) = responses.sent
    assert (answer.request_id, WHY in answer.error) == ("r-1", True)


def test_nobody_is_told_who_did_not_ask(memory_office: Office) -> None:
    memory_office.requests.send(AgentLoopRequest(BAD))
    with Running(orders(memory_office)):
        eventually(memory_office.requests.dead_letters)


@pytest.mark.parametrize("text", [b"no", b"", b"\xff", b'{"request": 7}', b"[1]"])
def test_whatever_was_sent_is_answered(memory_office: Office, text: bytes) -> None:
    requests: Any = memory_office.open("requests", AgentLoopRequest[Order])
    requests.box.put(Entry("m-1", text, memory_office.replies.name))
    with Running(orders(memory_office)):
        (answer,) = memory_office.answers(1)
        eventually(requests.dead_letters)
    assert (answer.request_id, "AgentLoopRequest" in str(answer.error)) == ("m-1", True)


def test_no_policy_tries_it_again_and_its_mailbox_gets_the_letter(memory_office: Office) -> None:
    letters: CollectingMailbox[Any, Any] = CollectingMailbox()
    (asked,) = memory_office.ask(BAD)
    with Running(orders(memory_office, dlq=DLQPolicy(letters, exclude_errors=(Exception,)))):
        (answer,) = memory_office.answers(1)
        eventually(lambda: letters.sent)
    assert answer.request_id == asked
    (letter,) = letters.sent
    assert (letter.request_id, letter.body["request"]) == (asked, BAD)


def test_who_understands_it_later_gets_it_by_a_redrive(memory_office: Office) -> None:
    memory_office.ask(BAD)
    with Running(orders(memory_office)):
        memory_office.answers(1)
        eventually(memory_office.requests.dead_letters)
    assert memory_office.requests.redrive() == 1
    with Running(memory_office.loop(lambda order: order["count"])):
        assert memory_office.outputs(1) == ["three"]


# The reply goes out first. Whoever dies after it leaves a message that comes back: its sender may
# hear the same twice, and can tell. In the other order it would never hear anything.


def test_it_is_buried_after_its_sender_was_told() -> None:
    class Looking(CollectingMailbox[Any, Any]):
        def send(self, body: Any, **options: Any) -> str:
            seen.append(len(requests.dead_letters()))
            return super().send(body, **options)

    seen: list[int] = []
    requests: InMemoryMailbox[Any, Any] = InMemoryMailbox(body_type=int)
    requests.box.put(Entry("m-1", Letter(b'"one"', Looking()), "replies"))
    with Running(AgentLoop.from_function(str, requests=requests)):
        eventually(requests.dead_letters)
    assert seen == [0]


class Unsteady(NamedMailbox[Any, Any]):
    """Cannot bury anything at first."""

    problem: Exception
    failures = 0

    def dead_letter(
        self, message: Message[Any, Any], reason: str, error: BaseException | None = None
    ) -> None:
        if not self.failures:
            self.failures += 1
            raise self.problem
        super().dead_letter(message, reason, error)


def unsteady(office: Office, problem: Exception) -> Unsteady:
    mailbox = Unsteady(
        partial(open_box, office.url), office.requests.name, body_type=AgentLoopRequest[Order]
    )
    mailbox.problem = problem
    return mailbox


def test_an_outage_after_the_reply_causes_no_second_one(memory_office: Office) -> None:
    memory_office.ask(BAD)
    requests = unsteady(memory_office, MailboxConnectionError("not now"))
    with requests, Running(orders(memory_office, requests=requests)):
        eventually(requests.dead_letters)
    assert requests.failures == 1
    assert memory_office.replies.approximate_count() == 1


def test_who_dies_after_the_reply_leaves_the_message_to_others(memory_office: Office) -> None:
    (asked,) = memory_office.ask(BAD)
    requests = unsteady(memory_office, StoreClosed("the process is gone"))
    dying = Running(orders(memory_office, requests=requests, lease_s=0.2))
    with requests, pytest.raises(StoreClosed), dying:
        eventually(lambda: dying.is_over)
    assert memory_office.requests.dead_letters() == []
    with Running(orders(memory_office)):
        answers = memory_office.answers(2)
        eventually(memory_office.requests.dead_letters)
    assert [each.request_id for each in answers] == [asked, asked]
    runs = [each.run_context.run_id for each in answers if each.run_context is not None]
    assert len(set(runs)) == 2
