"""Odd arguments: what cannot be is refused, and all the rest works alike everywhere."""

from __future__ import annotations

import sys
from math import inf, nan
from typing import Any

import pytest

from afl.errors import ConfigurationError
from afl.mailbox.bodies import MAX_DEPTH
from afl.mailbox.errors import InvalidParameterError, SerializationError
from afl.mailbox.texts import MAX_NAME
from afl.testing.contracts.mailbox.exam import MessageExam, Open


def nested(levels: int) -> Any:
    body: Any = "[["
    for level in range(levels):
        body = {"[": body} if level % 2 else [body]
    return body


class ArgumentContract(MessageExam):
    # Bodies

    @pytest.mark.parametrize("number", [nan, inf, -inf])
    def test_numbers_that_json_does_not_have_are_refused(
        self, mailboxes: Open, number: float
    ) -> None:
        mailbox, typed = mailboxes(), mailboxes("typed", body_type=float | None)
        for body in (number, {"a": [1.5, number]}):
            with pytest.raises(SerializationError, match="NaN and infinity"):
                mailbox.send(body)
        with pytest.raises(SerializationError, match="NaN and infinity"):
            typed.send(number)
        mailbox.send({"a": [1.5, None, "null"]})
        (message,) = mailbox.receive()
        assert message.body == {"a": [1.5, None, "null"]}

    def test_a_body_that_is_too_deep_to_be_read_is_refused(self, mailboxes: Open) -> None:
        mailbox = mailboxes()
        with pytest.raises(SerializationError, match=str(MAX_DEPTH)):
            mailbox.send(nested(MAX_DEPTH + 1))
        wide = [["]"] for _ in range(2 * MAX_DEPTH)]
        for body in (nested(MAX_DEPTH), wide):
            mailbox.send(body)
        assert [each.body for each in mailbox.receive(max_messages=2)] == [nested(MAX_DEPTH), wide]

    # Numbers

    @pytest.mark.parametrize("odd", [2.5, "3", None])
    def test_a_number_of_messages_is_whole(self, mailboxes: Open, odd: Any) -> None:
        mailbox = mailboxes()
        mailbox.send("a")
        with pytest.raises(InvalidParameterError, match="max_messages"):
            mailbox.receive(max_messages=odd)
        for look in (mailbox.peek, mailbox.dead_letters):
            with pytest.raises(InvalidParameterError, match="limit"):
                look(odd)
        assert len(mailbox.receive(max_messages=True)) == 1

    @pytest.mark.parametrize(
        ("limit", "shown"), [(-1, 0), (0, 0), (True, 1), (sys.maxsize, 2), (2**63, 2), (2**70, 2)]
    )
    def test_any_limit_can_be_asked_for(self, mailboxes: Open, limit: int, shown: int) -> None:
        mailbox = mailboxes()
        for each in "abcd":
            mailbox.send(each)
        for message in mailbox.receive(max_messages=2):
            mailbox.dead_letter(message, "why")
        assert len(mailbox.peek(limit)) == len(mailbox.dead_letters(limit)) == shown

    # Texts

    @pytest.mark.parametrize("name", ["a\0b", "\ud800", "n" * (MAX_NAME + 1), None, 5])
    def test_a_name_that_not_all_places_can_keep_is_refused(
        self, mailboxes: Open, name: Any
    ) -> None:
        with pytest.raises(ConfigurationError, match="no mailbox can have the name"):
            mailboxes(name)

    @pytest.mark.parametrize("name", ["\N{GRINNING FACE}" * MAX_NAME, "a}b:{c*?[", "x/y z", "a:b"])
    def test_other_names_are_names(self, mailboxes: Open, name: str) -> None:
        mailboxes().send("a", reply_to=mailboxes(name))
        (message,) = mailboxes().receive()
        message.reply("b")
        message.acknowledge()
        (reply,) = mailboxes(name).receive()
        mailboxes(name).dead_letter(reply, "why")
        assert mailboxes(name).discard_dead_letters() == 1

    @pytest.mark.parametrize("odd", ["", "nobody", "a\0b", "\ud800", 5])
    def test_what_is_the_id_of_nothing_chooses_nothing(self, mailboxes: Open, odd: Any) -> None:
        mailbox = mailboxes()
        sent = mailbox.send("a")
        mailbox.dead_letter(mailbox.receive()[0], "why")
        assert (mailbox.redrive([odd]), mailbox.discard_dead_letters([odd])) == (0, 0)
        assert mailbox.redrive([odd, sent]) == 1
