"""Boxes whose server is restarted, killed or cut off: nothing is lost, and waits go on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.servers.conftest import PATIENCE_S, Place, until
from tests.servers.proxy import Proxy

from afl.clock import SYSTEM_CLOCK
from afl.errors import StoreUnavailable
from afl.mailbox.box import Box, Depth, Entry, Handle

Opened = Callable[[Any], Any]
Start = Callable[..., threading.Thread]

LEASE_MS = 600_000


def put(box: Box[bytes], *ids: str) -> None:
    for each in ids:
        assert box.put(Entry(each, each.encode()))


def finish_all(box: Box[bytes], limit: int = 100) -> list[str]:
    taken = box.take(limit, LEASE_MS)
    assert all(box.finish(Handle(each.id, each.fence)) for each in taken)
    return [each.id for each in taken]


def waiting(place: Place, box: Box[bytes], start: Start, url: str | None = None) -> list[bool]:
    """Somebody who waits; the answer comes into the list."""
    answers: list[bool] = []
    start(lambda: answers.append(box.wait(PATIENCE_S)))
    until(lambda: place.waiters(url) > 0)
    return answers


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
def test_what_was_put_outlives_a_restart(place: Place, opened: Opened, is_killed: bool) -> None:
    box = opened(place.open_box())
    put(box, "a", "b", "c")
    (taken,) = box.take(1, LEASE_MS)
    place.server.restart(is_killed=is_killed)
    assert box.depth() == Depth(2, 1, 0)
    assert box.finish(Handle(taken.id, taken.fence))
    assert finish_all(box) == ["b", "c"]


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
def test_a_wait_goes_on_over_a_restart(
    place: Place, opened: Opened, start: Start, is_killed: bool
) -> None:
    box, other = opened(place.open_box()), opened(place.open_box())
    answers = waiting(place, box, start)
    place.server.restart(is_killed=is_killed)
    assert not answers
    put(other, "a")
    until(lambda: answers == [True])


def test_a_wait_ends_for_what_came_while_it_was_cut_off(
    place: Place, opened: Opened, start: Start
) -> None:
    other = opened(place.open_box())
    with Proxy(place.server.port) as proxy:
        url = place.url_through(proxy)
        box = opened(place.module.open_box(url, "requests"))
        answers = waiting(place, box, start, url)
        proxy.cut()
        put(other, "a")
        proxy.mend()
        until(lambda: answers == [True])


def test_a_wait_can_be_stopped_while_it_is_cut_off(
    place: Place, opened: Opened, start: Start
) -> None:
    with Proxy(place.server.port) as proxy:
        url = place.url_through(proxy)
        box = opened(place.module.open_box(url, "requests"))
        answers = waiting(place, box, start, url)
        proxy.cut()
        box.end_waits()
        until(lambda: answers == [False])


def test_a_cut_connection_is_replaced_by_the_next_call(place: Place, opened: Opened) -> None:
    with Proxy(place.server.port) as proxy:
        box = opened(place.module.open_box(place.url_through(proxy), "requests"))
        put(box, "a")
        proxy.cut()
        with pytest.raises(StoreUnavailable):
            box.depth()
        proxy.mend()
        assert box.depth() == Depth(1, 0, 0)


def test_an_outage_is_told_without_secrets(place: Place, opened: Opened) -> None:
    url = place.server.url.replace("//", "//user:hush@").replace(
        "user:hush@postgres@", "postgres:hush@"
    )
    box = opened(place.open_box())
    place.server.stop()
    with pytest.raises(StoreUnavailable) as caught:
        box.depth()
    with pytest.raises(StoreUnavailable) as also:
        opened(place.module.open_box(url, "requests")).depth()
    for each in (caught, also):
        assert f"127.0.0.1:{place.server.port}" in str(each.value)
        assert "hush" not in str(each.value)


def test_everybody_is_woken_when_the_connection_is_back(
    place: Place, opened: Opened, start: Start
) -> None:
    answers: list[bool] = []
    with Proxy(place.server.port) as proxy:
        bell = opened(place.connect(place.url_through(proxy))).bell
        before = bell.count("another")
        bell.ring(["another"])
        assert bell.wait("another", before, PATIENCE_S)  # it listens
        seen = bell.count("topic")
        start(lambda: answers.append(bell.wait("topic", seen, PATIENCE_S)))
        until(lambda: bell.waiters == 1)
        proxy.cut()
        assert not answers
        proxy.mend()
        until(lambda: answers == [True])


def test_what_was_sent_and_not_answered_is_not_sent_again(place: Place, opened: Opened) -> None:
    other = opened(place.open_box())
    with Proxy(place.server.port) as proxy:
        box = opened(place.module.open_box(place.url_through(proxy), "requests"))
        put(other, "a", "b", "c")
        assert len(box.take(1, LEASE_MS)) == 1
        proxy.loses_next_answer = True
        with pytest.raises(StoreUnavailable, match="may have happened"):
            box.take(1, LEASE_MS)
    assert other.depth() == Depth(1, 2, 0)


def test_a_sender_who_saw_no_answer_can_try_again(place: Place, opened: Opened) -> None:
    box = opened(place.open_box())
    put(box, "a")
    place.server.restart(is_killed=True)
    put(box, "a")
    assert finish_all(box) == ["a"]


def test_nothing_is_lost_in_a_storm_of_restarts(place: Place, opened: Opened, start: Start) -> None:
    """Senders and receivers go on through kills and stops; what was accepted is received."""
    count, restarts = 120, 4
    accepted: list[str] = []
    finished: list[str] = []
    is_over = threading.Event()

    def insist(call: Callable[..., Any], *arguments: Any) -> Any:
        while True:
            try:
                return call(*arguments)
            except StoreUnavailable:
                SYSTEM_CLOCK.sleep(0.01)

    def send(box: Box[bytes], who: str) -> None:
        for number in range(count):
            entry = Entry(f"{who}-{number}", b"x")
            assert insist(box.put, entry)
            accepted.append(entry.id)
            SYSTEM_CLOCK.sleep(0.002)

    def receive(box: Box[bytes]) -> None:
        while not is_over.is_set():
            insist(box.wait, 0.2, is_over)
            for each in insist(box.take, 5, 300):
                insist(box.finish, Handle(each.id, each.fence))
                finished.append(each.id)

    senders = [start(send, opened(place.open_box()), who) for who in ("one", "two")]
    receivers = [start(receive, opened(place.open_box())) for _ in range(2)]
    for number in range(restarts):
        SYSTEM_CLOCK.sleep(0.05)
        place.server.restart(is_killed=number % 2 == 0)
    for each in senders:
        each.join(PATIENCE_S)
    until(lambda: set(finished) >= set(accepted) and len(accepted) == 2 * count)
    is_over.set()
    for each in receivers:
        each.join(PATIENCE_S)
    assert opened(place.open_box()).depth() == Depth(0, 0, 0)
