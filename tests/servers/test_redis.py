"""The client of Redis and Valkey: shared, safe to restart under, and clear about what is wrong."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
from tests.servers.conftest import PATIENCE_S, until

from afl.db.redis import RedisServer, Script, open_redis
from afl.errors import ConfigurationError, StoreClosed, StoreUnavailable
from afl.mailbox import ReceiptHandleExpiredError, RedisMailbox
from afl.mailbox.box import Entry
from afl.mailbox.named import NamedMailbox
from afl.mailbox.redis import RedisBox
from afl.testing.contracts.mailbox.exam import Background
from afl.testing.servers import ValkeyServer

Opened = Callable[[Any], Any]
Start = Callable[..., threading.Thread]


def test_whoever_opens_the_same_url_shares_the_object(redis_url: str) -> None:
    first, second = open_redis(redis_url), open_redis(redis_url)
    assert first is second
    first.close()
    assert second.call("ECHO", "hello") == b"hello"
    second.close()
    with pytest.raises(StoreClosed, match="was closed in this process"):
        first.call("PING")
    third = open_redis(redis_url)
    assert third is not first
    third.close()


def test_a_client_of_the_caller_shows_the_way_and_is_left_alone(
    redis_url: str, opened: Opened
) -> None:
    client = redis.Redis.from_url(redis_url, decode_responses=True)
    server = opened(open_redis(client))
    assert opened(open_redis(client)) is server
    assert server.call("ECHO", "hello") == b"hello"
    assert client.ping() is True
    client.close()


def test_a_script_is_known_again_after_the_server_has_forgotten_it(
    redis_url: str, opened: Opened
) -> None:
    server = opened(open_redis(redis_url))
    script = Script("return {KEYS[1], ARGV[1]}")
    assert server.run(script, [b"key"], "value") == [b"key", b"value"]
    server.call("SCRIPT", "FLUSH")
    assert server.run(script, [b"key"], "value") == [b"key", b"value"]


def test_a_connection_that_was_closed_meanwhile_is_replaced_without_notice(
    redis_url: str, opened: Opened
) -> None:
    server, other = opened(RedisServer(redis_url)), opened(RedisServer(redis_url))
    script = Script("return redis.call('INCR', KEYS[1])")
    first = server.run(script, [b"calls"])
    other.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    assert server.run(script, [b"calls"]) == first + 1


def test_more_threads_than_connections_take_turns(redis_url: str, opened: Opened) -> None:
    server = opened(RedisServer(redis_url))
    script = Script("return ARGV[1]")
    with ThreadPoolExecutor(150) as threads:
        answers = list(threads.map(lambda n: int(server.run(script, [], n)), range(600)))
    assert answers == list(range(600))


def test_an_announcement_wakes_who_waits_for_its_topic(
    redis_url: str, opened: Opened, start: Start
) -> None:
    here, there = opened(RedisServer(redis_url)), opened(RedisServer(redis_url))
    answers: list[bool] = []
    seen = here.bell.count("topic")
    start(lambda: answers.append(here.bell.wait("topic", seen, PATIENCE_S)))
    there.bell.ring(["another", "topic"])
    until(lambda: answers == [True])


def test_a_server_that_hangs_is_an_outage(opened: Opened) -> None:
    with ValkeyServer() as machine:
        server = opened(RedisServer(f"{machine.url}?socket_timeout=0.2"))
        server.call("SET", "count", 0)
        machine.pause()
        with pytest.raises(StoreUnavailable, match="may have happened"):
            server.call("INCR", "count")
        machine.go_on()
        assert server.call("GET", "count") == b"1"


def test_a_server_that_hangs_again_and_again_costs_no_connections(opened: Opened) -> None:
    with ValkeyServer() as machine:
        two = f"{machine.url}?socket_timeout=0.2&max_connections=2&timeout=0.2"
        server = opened(RedisServer(two))
        script = Script("return ARGV[1]")
        for _ in range(3):
            machine.pause()
            for _ in range(2):
                with pytest.raises(StoreUnavailable, match="may have happened"):
                    server.run(script, [], "a")
            machine.go_on()
            assert server.run(script, [], "a") == b"a"


@pytest.mark.parametrize(
    ("setting", "value", "reason"),
    [("maxmemory", "1", "no memory left"), ("min-replicas-to-write", "3", "replicas")],
)
def test_what_may_pass_is_an_outage_with_advice(
    opened: Opened, setting: str, value: str, reason: str
) -> None:
    with ValkeyServer() as machine:
        server = opened(RedisServer(machine.url))
        server.call("CONFIG", "SET", setting, value)
        with pytest.raises(StoreUnavailable, match=reason):
            server.call("SET", "key", "value")


def test_a_wrong_password_is_the_operators_to_fix_and_not_shown(opened: Opened) -> None:
    with ValkeyServer() as machine:
        opened(RedisServer(machine.url)).call("CONFIG", "SET", "requirepass", "right")
        wrong = opened(RedisServer(machine.url.replace("//", "//:hush@")))
        with pytest.raises(ConfigurationError, match="refuses us") as caught:
            wrong.call("PING")
        assert "hush" not in f"{caught.value}{wrong.place}"


@pytest.mark.parametrize(
    "url",
    [
        "localhost",
        "http://localhost",
        "redis://localhost:port/0",
        "redis://me:hu/sh@localhost",
        "redis://me:7/hush@localhost",
    ],
)
def test_a_url_that_cannot_be_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="Redis URL") as caught:
        open_redis(url)
    assert "hu" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("redis://", "redis://localhost:6379/0"),
        ("rediss://me:h%2Fsh@queue:7000/2", "redis://queue:7000/2"),
        ("valkey://queue", "redis://queue:6379/0"),
        ("unix:///run/redis.sock?db=1", "unix:///run/redis.sock?db=1"),
    ],
)
def test_a_place_is_named_without_secrets(opened: Opened, url: str, place: str) -> None:
    assert opened(RedisServer(url)).place == place


# Mailboxes there


def test_an_empty_mailbox_leaves_no_key(redis_url: str, opened: Opened) -> None:
    server = opened(open_redis(redis_url))
    mailbox = opened(RedisMailbox[int, None]("passing", redis_url))

    def keys() -> list[bytes]:
        return list(server.keys("{queue:passing}:*"))

    def send_and_bury() -> None:
        mailbox.send(1)
        mailbox.dead_letter(mailbox.receive()[0], "why")

    mailbox.send(1)
    mailbox.send(2)
    first, second = mailbox.receive(max_messages=2)
    first.acknowledge()
    assert keys()
    second.acknowledge()
    assert keys() == []
    mailbox.send(1)
    mailbox.purge()
    assert keys() == []
    send_and_bury()
    mailbox.send(2)
    mailbox.purge()
    assert keys()
    mailbox.discard_dead_letters()
    assert keys() == []


def test_a_mailbox_that_was_empty_keeps_order_and_refuses_old_handles(
    redis_url: str, opened: Opened
) -> None:
    mailbox = opened(RedisMailbox[int, None]("passing", redis_url))
    for _ in range(2):
        for each in range(3):
            mailbox.send(each)
        old, *others = mailbox.receive(max_messages=3)
        old.release()
        (again,) = mailbox.receive()
        mailbox.dead_letter(again, "why")
        for each in others:
            each.acknowledge()
        mailbox.send(3)
        mailbox.redrive()
        assert [each.body for each in mailbox.peek()] == [3, 0]
        with pytest.raises(ReceiptHandleExpiredError):
            old.acknowledge()
        for each in mailbox.receive(max_messages=2):
            each.acknowledge()
        assert mailbox.approximate_count() == 0


class Collecting(str):
    """Whoever looks for this topic is interrupted by the collector."""

    __slots__ = ()

    def __hash__(self) -> int:
        gc.collect()
        return super().__hash__()


def test_the_collector_may_come_while_news_is_heard(redis_url: str, opened: Opened) -> None:
    server = opened(RedisServer(redis_url))
    requests: NamedMailbox[int, str] = opened(
        NamedMailbox(lambda name: RedisBox(held(server), name), "collected")
    )
    gc.disable()
    try:
        for number in range(100):  # senders with a mailbox each
            requests.box.put(Entry(f"m{number}", b"1", f"collected-{number}"))
            (message,) = requests.receive()
            message.reply("b")
            message.acknowledge()
        del message
        hearing = Background(lambda: server.bell.nudge(Collecting("mailbox:a")), PATIENCE_S)
        hearing.answer()
    finally:
        gc.enable()


def held(server: RedisServer) -> RedisServer:
    assert server.hold()
    return server
