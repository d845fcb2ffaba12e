"""Announcements of PostgreSQL: through which channels they go, and who in this process hears them.

Each is a transaction of its own, right behind the one that it tells of. PostgreSQL lets those that
announce something commit one at a time, in all of its databases: if they waited for the disk, each
would wait for all before it. What is lost between the two is lost with the connection of the server
to us, and whoever looks again at times finds what it was about.

Each kind of topic has a channel of its own, and a process listens to those kinds alone that
somebody in it has waited for. Else every result of every worker would wake all other workers, to
tell them of a run that nobody there waits for.
"""

from __future__ import annotations

import re
import select
import socket
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any

import psycopg

from afl.clock import SYSTEM_CLOCK
from afl.db.postgres.errors import errors_translated
from afl.db.postgres.wire import Answer, Connection, Parameters
from afl.db.remote_bell import RemoteBell
from afl.log import get_logger

_log = get_logger(__name__)

_CHANNEL = "afl_news"
#: The payload is the topic. A transaction of nothing else need not wait for the disk.
_ANNOUNCE = """\
SELECT set_config('synchronous_commit', 'off', true), pg_notify(channel, topic)
FROM unnest(%s::text[], %s::text[]) AS news (channel, topic)"""
_KIND = re.compile(r"[a-z]{1,40}(?=:|$)")

#: How long the first who counts a kind of topic waits until it is listened to. That wakes everybody
#: in the end, and who counts before would be woken for nothing.
_OPENING_S = 0.5


def channel_of(topic: str) -> str:
    """Topics of one kind have the same: a word, a colon, and what tells them apart."""
    kind = _KIND.match(topic)
    return _CHANNEL if kind is None else f"{_CHANNEL}_{kind[0]}"


def announcing(topics: Collection[str]) -> list[tuple[str, Parameters]]:
    """The statement that announces these, if there are any."""
    if not topics:
        return []
    ordered = sorted(topics)
    return [(_ANNOUNCE, ([channel_of(each) for each in ordered], ordered))]


def ask_and_announce(
    connection: Connection, statements: Sequence[tuple[str, Parameters]], topics: Collection[str]
) -> tuple[list[Answer], psycopg.Error | None]:
    """As `Connection.ask`, for statements that end with their commit; then announce these topics,
    in the same round trip. That may fail: what was committed stays so."""
    answers, error = connection.ask([*statements, *announcing(topics)])
    if error is not None and topics and len(answers) >= len(statements):
        _log.warning("announcement_not_sent", topics=sorted(topics), error=str(error))
        error = None
    return answers[: len(statements)], error


class Channels:
    """Those that somebody in this process has asked for, and those of them that are heard."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Set once it is heard.
        self._wanted: dict[str, threading.Event] = {}

    def __contains__(self, channel: str) -> bool:
        """Whether it is wanted."""
        return channel in self._wanted

    def want(self, channel: str) -> None:
        with self._lock:
            self._wanted.setdefault(channel, threading.Event())

    def besides(self, heard: set[str]) -> list[str]:
        """Those that are wanted, too."""
        with self._lock:
            return [each for each in self._wanted if each not in heard]

    def are_heard(self, channels: Iterable[str]) -> None:
        for each in channels:
            self._wanted[each].set()

    def wait_for(self, channel: str, seconds: float) -> None:
        """Until one that is wanted is heard."""
        SYSTEM_CLOCK.wait(self._wanted[channel], seconds)


class Ear:
    """LISTEN, on a connection of its own."""

    def __init__(self, info: str, place: str, channels: Channels) -> None:
        self._place = place
        self._channels = channels
        self._heard: set[str] = set()
        self._hand, self._touched = socket.socketpair()
        try:
            with errors_translated(place):
                self._connection = psycopg.connect(info, autocommit=True)
            self._listen()
        except BaseException:
            self.close()
            raise
        self._waiting = select.poll()
        self._waiting.register(self._connection.fileno(), select.POLLIN)
        self._waiting.register(self._touched, select.POLLIN)

    def hear(self) -> Iterable[str] | None:
        # What may have been missed before has been told by now.
        self._channels.are_heard(self._new)
        if self._listen():
            return None
        if any(each == self._touched.fileno() for each, _ in self._waiting.poll()):
            self._touched.recv(4096)
        with errors_translated(self._place):
            return [each.payload for each in self._connection.notifies(timeout=0)]

    def _listen(self) -> bool:
        """Listen to all that is wanted; whether something is new."""
        self._new = self._channels.besides(self._heard)
        if self._new:
            listen = "; ".join(f"LISTEN {each}" for each in self._new)
            with errors_translated(self._place):
                self._connection.execute(listen.encode())
            self._heard.update(self._new)
        return bool(self._new)

    def interrupt(self) -> None:
        self._hand.send(b"\0")

    def close(self) -> None:
        with suppress(AttributeError):  # it could not connect
            self._connection.close()
        self._hand.close()
        self._touched.close()


class Bell(RemoteBell):
    """Listens to a kind of topic from the first one on that somebody counts or waits for."""

    def __init__(
        self, place: str, info: str, publish: Callable[[tuple[str, ...]], None], **options: Any
    ) -> None:
        channels = self._channels = Channels()
        super().__init__(place, lambda: Ear(info, place, channels), publish, **options)

    def count(self, topic: str) -> int:
        channel = channel_of(topic)
        is_first = channel not in self._channels
        counted = super().count(topic)
        if not is_first:
            return counted
        self._channels.wait_for(channel, _OPENING_S)
        return super().count(topic)

    def _want(self, topic: str) -> None:
        channel = channel_of(topic)
        if channel not in self._channels:
            self._channels.want(channel)
            self.interrupt()
