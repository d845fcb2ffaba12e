"""A URL says where mailboxes are."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from afl import mailbox as package
from afl.errors import ConfigurationError, NotFound
from afl.mailbox import (
    CompositeResolver,
    MailboxClosedError,
    SerializationError,
    UrlMailboxFactory,
    mailbox_names,
    open_mailbox,
)
from afl.operations.mailboxes import (
    MailboxDepth,
    list_mailboxes,
    mailbox_dead_letters,
    mailbox_depth,
    peek_mailbox,
    redrive_mailbox,
)


@dataclass
class Order:
    item: str


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/afl.db"
    # A place of its own for each test: what is in memory lives as long as the process.
    return f"memory:{tmp_path.name}"


def test_whoever_opens_a_name_again_shares_its_messages(url: str) -> None:
    with open_mailbox(url, "requests") as sender:
        sender.send({"a": 1})
    with open_mailbox(url, "requests") as receiver, open_mailbox(url) as other:
        assert receiver.receive()[0].body == {"a": 1}
        assert (other.name, other.receive()) == ("default", [])
        with pytest.raises(MailboxClosedError):
            sender.send("b")


def test_bodies_and_replies_work_alike_everywhere(url: str) -> None:
    with (
        open_mailbox(url, "requests", body_type=Order) as requests,
        open_mailbox(url, "replies") as replies,
    ):
        with pytest.raises(SerializationError):
            requests.send("text")
        requests.send(Order("apple"), reply_to=replies)
        (message,) = requests.receive()
        assert message.body == Order("apple")
        message.reply([1, 2])
        message.acknowledge()
        assert replies.receive()[0].body == [1, 2]


def test_a_resolver_can_open_mailboxes_at_another_url(url: str, tmp_path: Path) -> None:
    elsewhere = f"sqlite:///{tmp_path}/elsewhere.db"
    resolver = CompositeResolver({}, UrlMailboxFactory(elsewhere))
    with (
        open_mailbox(url, "requests", reply_resolver=resolver) as requests,
        open_mailbox(elsewhere, "replies") as replies,
    ):
        requests.send("a", reply_to=replies)
        (message,) = requests.receive()
        message.reply("b")
        assert replies.receive()[0].body == "b"
        message.acknowledge()


def test_a_resolver_opens_no_mailbox_for_each_message_and_closes_all(
    url: str, tmp_path: Path
) -> None:
    elsewhere = f"sqlite:///{tmp_path}/elsewhere.db"
    resolver = CompositeResolver({}, UrlMailboxFactory(elsewhere))
    found = set()
    with open_mailbox(url, "requests", reply_resolver=resolver) as requests:
        with open_mailbox(elsewhere, "replies") as replies:
            for each in range(5):
                requests.send(each, reply_to=replies)
        for message in requests.receive(max_messages=5):
            found.add(id(message.reply_to))
            message.reply(message.body)
            message.acknowledge()
        assert len(found) == 1
        assert (tmp_path / "elsewhere.db-wal").exists()
    # It goes with the last who has the file open.
    assert not (tmp_path / "elsewhere.db-wal").exists()
    with open_mailbox(elsewhere, "replies") as replies:
        assert replies.approximate_count() == 5


def test_factories_of_one_url_are_equal() -> None:
    assert UrlMailboxFactory("memory:") == UrlMailboxFactory("memory:")
    assert repr(UrlMailboxFactory("memory:")) == "UrlMailboxFactory(url='memory:')"


@pytest.mark.parametrize("wrong", ["", "afl.db", "mongodb://host/db", "kafka:", "C:\\afl.db"])
def test_a_url_that_names_no_place_is_refused(wrong: str) -> None:
    for use in (open_mailbox, mailbox_names):
        with pytest.raises(ConfigurationError, match="no place for mailboxes"):
            use(wrong)


def test_the_refusal_shows_no_password() -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_mailbox("amqp://user:hunter2@host")
    assert "hunter2" not in str(caught.value)


@pytest.fixture
def without_redis(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if the driver were not installed."""
    kept = {name: each for name, each in sys.modules.items() if _needs_redis(name)}
    for name in kept:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "redis", _missing())
    yield
    for name in [each for each in sys.modules if _needs_redis(each)]:
        del sys.modules[name]


def _needs_redis(name: str) -> bool:
    return name == "afl.mailbox.redis" or name.startswith(("afl.db.redis", "redis"))


def _missing() -> Any:
    return None  # what Python takes for "there is no such module"


@pytest.mark.usefixtures("without_redis")
def test_a_missing_driver_is_named_with_its_extra() -> None:
    with pytest.raises(ConfigurationError, match=r"afl\[redis\]"):
        open_mailbox("redis://localhost")


# Operations


def test_operators_see_and_move_what_is_there(url: str) -> None:
    assert list_mailboxes(url) == []
    with open_mailbox(url, "requests") as requests, open_mailbox(url, "other") as other:
        for each in ("a", "b", "c"):
            requests.send(each, reply_to=other)
        other.send(1)
        first, second = requests.receive(max_messages=2)
        requests.dead_letter(first, "it is broken", ValueError())
        assert list_mailboxes(url) == [
            MailboxDepth("other", 1, 0, 0),
            MailboxDepth("requests", 1, 1, 1),
        ]
        assert mailbox_depth(url, "nobody") == MailboxDepth("nobody", 0, 0, 0)
        assert [each.body for each in peek_mailbox(url, "requests")] == ["b", "c"]
        assert [each.body for each in peek_mailbox(url, "requests", limit=1)] == ["b"]
        (letter,) = mailbox_dead_letters(url, "requests")
        assert (letter.body, letter.last_error, letter.reply_to) == ("a", "it is broken", "other")
        with pytest.raises(NotFound, match="no dead letter x"):
            redrive_mailbox(url, "requests", ["x"])
        assert redrive_mailbox(url, "requests", [letter.message_id]) == 1
        assert redrive_mailbox(url, "requests") == 0
        second.acknowledge()
        assert [each.body for each in requests.receive(max_messages=3)] == ["c", "a"]


# Names


@pytest.mark.parametrize("name", package.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(package, name) is not None
    assert name in dir(package)


def test_type_checkers_see_the_same_names() -> None:
    import re

    text = Path(str(package.__file__)).read_text("utf-8")
    seen = re.findall(r"^    from (\S+) import (\w+) as \2$", text, re.MULTILINE)
    assert {name: module for module, name in seen} == package._EXPORTS
    assert isinstance(package, ModuleType)


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="Postbox"):
        package.Postbox  # noqa: B018
