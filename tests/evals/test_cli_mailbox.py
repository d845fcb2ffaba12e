"""`afl mailbox` as operators use it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.in_process import afl, afl_json
from tests.acceptance.test_cli_json import keys, section_of

from afl.mailbox import DeadLetter, Mailbox, Peeked, SqliteMailbox
from afl.operations.mailboxes import MailboxDepth


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/afl.db"


@pytest.fixture
def box(url: str) -> Iterator[Mailbox[object, object]]:
    """One message is a dead letter, one is received, one waits."""
    box: Mailbox[object, object] = SqliteMailbox("orders", url)
    for number in range(3):
        box.send({"number": number})
    (first,) = box.receive()
    box.dead_letter(first, "too\nhard", ValueError("too hard"))
    box.receive(visibility_timeout=3600)
    yield box
    box.close()


def table(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


@pytest.mark.usefixtures("box")
def test_mailboxes_are_listed_with_what_they_hold(url: str) -> None:
    assert table(afl("mailbox", "list", url).out)[1] == ["orders", "1", "1", "1"]
    expected = {"name": "orders", "ready": 1, "hidden": 1, "dead_letters": 1}
    assert afl_json("mailbox", "list", url) == [expected]
    assert afl_json("mailbox", "depth", url, "orders") == expected
    assert table(afl("mailbox", "depth", url, "orders").out)[1] == ["orders", "1", "1", "1"]


def test_a_file_that_is_not_there_is_named_and_not_made(tmp_path: Path) -> None:
    missing = tmp_path / "afl.bd"
    result = afl("mailbox", "list", f"sqlite:///{missing}")
    assert result.code == 2
    assert f"there is no database {missing}" in result.err
    assert not missing.exists()


def test_a_place_without_mailboxes_says_so(url: str) -> None:
    box: Mailbox[object, object] = SqliteMailbox("orders", url)
    box.send(1)
    box.purge()
    box.close()
    assert afl("mailbox", "list", url).out == "There are no mailboxes that hold anything.\n"
    assert afl("mailbox", "peek", url).out == "Mailbox default has no messages.\n"
    assert afl("mailbox", "dead-letters", url).out == "Mailbox default has no dead letters.\n"


def test_messages_can_be_looked_at_and_stay(url: str, box: Mailbox[object, object]) -> None:
    shown = afl("mailbox", "peek", url, "orders").out
    assert '{"number": 1}' in shown
    assert '{"number": 2}' in shown
    peeked = afl_json("mailbox", "peek", url, "orders", "--limit", "1")
    assert [(each["body"], each["delivery_count"]) for each in peeked] == [({"number": 1}, 1)]
    assert box.approximate_count() == 2


@pytest.mark.usefixtures("box")
def test_dead_letters_say_why(url: str) -> None:
    row = table(afl("mailbox", "dead-letters", url, "orders").out)[1]
    assert row[3:6] == ["1", "too", "hard"]
    (letter,) = afl_json("mailbox", "dead-letters", url, "orders")
    assert letter["body"] == {"number": 0}
    assert letter["last_error_type"] == "builtins.ValueError"


def test_dead_letters_are_sent_again(url: str, box: Mailbox[object, object]) -> None:
    done = afl("mailbox", "redrive", url, "orders")
    assert done.out == "1 message of mailbox orders will be tried again.\n"
    assert not box.dead_letters()
    assert box.approximate_count() == 3
    assert afl_json("mailbox", "redrive", url, "orders") == {"mailbox": "orders", "redriven": 0}


def test_chosen_dead_letters_are_sent_again(url: str, box: Mailbox[object, object]) -> None:
    (message,) = box.receive()
    box.dead_letter(message, "no")
    chosen = ("mailbox", "redrive", url, "orders", "--message", message.id)
    assert afl_json(*chosen) == {"mailbox": "orders", "redriven": 1}
    assert len(box.dead_letters()) == 1
    again = afl(*chosen)
    assert again.code == 2
    assert f"mailbox orders has no dead letter {message.id}" in again.err


def test_a_url_that_is_no_place_is_refused() -> None:
    done = afl("mailbox", "list", "orders.db")
    assert done.code == 2
    assert "is no place for mailboxes" in done.err
    assert "did you mean sqlite:///orders.db?" in done.err


@pytest.mark.parametrize(
    ("title", "record"),
    [
        ("`afl mailbox list` and `afl mailbox depth`", MailboxDepth),
        ("`afl mailbox peek`", Peeked),
        ("`afl mailbox dead-letters`", DeadLetter),
    ],
)
def test_every_key_is_documented_in_its_order(title: str, record: type[Any]) -> None:
    assert keys(section_of(title)) == [each.name for each in fields(record)]


@pytest.mark.usefixtures("box")
@pytest.mark.parametrize("command", ["peek", "dead-letters"])
def test_who_names_an_empty_mailbox_is_told_which_ones_are_not(url: str, command: str) -> None:
    assert afl("mailbox", command, url, "order").out.endswith(". Not empty: orders.\n")


@pytest.mark.usefixtures("box")
def test_an_empty_part_of_a_mailbox_is_no_mistake(url: str) -> None:
    afl("mailbox", "redrive", url, "orders")
    assert afl("mailbox", "dead-letters", url, "orders").out == (
        "Mailbox orders has no dead letters.\n"
    )


def test_mailboxes_in_memory_are_not_looked_for() -> None:
    refused = afl("mailbox", "list", "memory:")
    assert refused.code == 2
    assert "seen by its own process alone" in refused.err
