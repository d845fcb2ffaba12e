"""A Redis or Valkey server as one process sees it: a pool of connections, and one that listens."""

from __future__ import annotations

import hashlib
import socket
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from afl.clock import SYSTEM_CLOCK, Clock
from afl.db.redis.errors import errors_translated
from afl.db.remote_bell import RemoteBell
from afl.db.sharing import Held, Registry
from afl.db.urls import is_readable
from afl.errors import ConfigurationError

#: Everything is announced here; the message is the topic.
CHANNEL = b"afl:news"

_TIMEOUT_S = 10.0
_CONNECT_S = 5.0
_CONNECTIONS = 64
_REDISES = ("redis", "rediss", "unix", "valkey", "valkeys")


class Script:
    """A Lua script; the server knows it by its digest after the first call."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


class RedisServer(Held):
    """The server at a URL, or the one that a client has; the client itself is not used, because
    it may send things twice. `clock` counts how long waits at the bell last.

    Raises ConfigurationError for a URL that cannot be; that nobody answers there shows at the
    first call.
    """

    def __init__(self, address: str | redis.Redis, *, clock: Clock = SYSTEM_CLOCK) -> None:
        # redis-py types only some of its methods.
        self._client: Any = _client(address) if isinstance(address, str) else _like(address)
        self._address = address  # kept alive: the registry knows it by its id
        #: One, as a rule: those who wait for one wait at the pool.
        self._at_hand: deque[Any] = deque()
        super().__init__(_place(self._client))
        self.bell = RemoteBell(
            self.place,
            lambda: _Ear(self._client, self.place),
            self._publish,
            clock=clock,
            guard=self.check,
        )

    def call(self, *command: Any) -> Any:
        """One command. Raises StoreUnavailable; what was not answered may have happened."""
        self.check()
        with errors_translated(self.place):
            return self._client.execute_command(*command)

    def run(self, script: Script, keys: Sequence[bytes], *arguments: Any) -> Any:
        """Run a script, which is atomic. Raises StoreUnavailable as `call` does."""
        self.check()
        with errors_translated(self.place):
            try:
                return self._asked("EVALSHA", script.digest, len(keys), *keys, *arguments)
            except redis.exceptions.NoScriptError:  # new, or restarted, or another primary
                return self._asked("EVAL", script.text, len(keys), *keys, *arguments)

    def _asked(self, *command: Any) -> Any:
        """As the client would do it, without its retries and measurements, which take as long as
        the rest."""
        connection = self._lent()
        try:
            if not _is_ready(connection):
                connection.disconnect()  # it connects again when it is used
            connection.send_command(*command)
            return connection.read_response()
        finally:
            self._give_back(connection)  # one that failed has closed itself

    def _lent(self) -> Any:
        try:
            return self._at_hand.pop()
        except IndexError:
            return self._client.connection_pool.get_connection()

    def _give_back(self, connection: Any) -> None:
        if self._at_hand:
            self._client.connection_pool.release(connection)
        else:
            self._at_hand.append(connection)

    def keys(self, pattern: str) -> Iterable[bytes]:
        """Names of keys that were there all the time, maybe twice; others may be among them."""
        self.check()
        with errors_translated(self.place):
            yield from self._client.scan_iter(match=pattern, count=1000)

    def _publish(self, topics: tuple[str, ...]) -> None:
        for topic in topics:
            self.call("PUBLISH", CHANNEL, topic)

    def _end(self) -> None:
        self.bell.close()
        self._client.close()
        self._client.connection_pool.disconnect()


class _Ear:
    """A subscription, on a connection of its own."""

    def __init__(self, client: Any, place: str) -> None:
        self._place = place
        self._subscription = client.pubsub()
        try:
            with errors_translated(place):
                self._subscription.subscribe(CHANNEL)
                self._subscription.get_message(timeout=_TIMEOUT_S)  # it is confirmed
        except BaseException:
            self.close()
            raise

    def hear(self) -> Iterable[str]:
        with errors_translated(self._place):
            # Dead connections end by themselves: the sockets are kept alive.
            message = self._subscription.get_message(ignore_subscribe_messages=True, timeout=None)
        return () if message is None else (message["data"].decode(),)

    def interrupt(self) -> None:
        # Closing it would take the buffers from under the thread that reads.
        sock = getattr(self._subscription.connection, "_sock", None)
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._subscription.close()


_registry: Registry[RedisServer] = Registry()


def open_redis(address: str | redis.Redis, *, clock: Clock = SYSTEM_CLOCK) -> RedisServer:
    """The server at a URL (`redis://`, `rediss://`, `unix://`; `valkey://` is the same), or the
    one that a client has.

    Whoever opens the same again shares the object; each must close it. Raises ConfigurationError
    for a URL that cannot be, and if it is open already with another clock.
    """
    key = address if isinstance(address, str) else f"client {id(address.connection_pool)}"
    return _registry.open(key, (clock,), lambda: RedisServer(address, clock=clock))


def _is_ready(connection: Any) -> bool:
    """Whether it is idle and open, as far as one can see from here. One that has closed itself
    connects again for this; raises TimeoutError if the server is silent then."""
    try:
        return not connection.can_read()
    except redis.exceptions.ConnectionError:
        return False


def _client(url: str) -> redis.Redis:
    scheme, colon, rest = url.partition(":")
    if not colon or scheme not in _REDISES:
        raise ConfigurationError(
            f"{scheme}: is not the scheme of a Redis URL; expected redis://host:6379/0, "
            "rediss:// for TLS, or unix:///path/of/socket"
        )
    try:
        if scheme != "unix" and not is_readable(url):
            raise ValueError
        pool = redis.BlockingConnectionPool.from_url(
            f"{scheme.replace('valkey', 'redis')}:{rest}",
            socket_timeout=_TIMEOUT_S,
            socket_connect_timeout=_CONNECT_S,
            socket_keepalive=True,
            protocol=2,
            **_pool_settings(),
        )
    except (ValueError, TypeError):
        # Not the error itself: what it cannot read may be a piece of the password.
        raise ConfigurationError(
            "the Redis URL cannot be read; expected redis://user:password@host:6379/0, with "
            "special characters of the password escaped (%2F for a slash)"
        ) from None
    return redis.Redis(connection_pool=pool)


def _like(client: redis.Redis) -> redis.Redis:
    given = client.connection_pool
    settings = {**given.connection_kwargs, **_pool_settings()}
    make: Any = redis.BlockingConnectionPool  # untyped
    pool = make(connection_class=given.connection_class, **settings)
    return redis.Redis(connection_pool=pool)


def _pool_settings() -> dict[str, Any]:
    return {
        # A command that was sent and not answered may have been done: who asked decides.
        "retry": Retry(NoBackoff(), 0),
        "decode_responses": False,
        "max_connections": _CONNECTIONS,
        "timeout": _TIMEOUT_S,  # for one of them to come free
    }


def _place(client: redis.Redis) -> str:
    options = client.get_connection_kwargs()
    if path := options.get("path"):
        return f"unix://{path}?db={options.get('db', 0)}"
    host, port = options.get("host", "localhost"), options.get("port", 6379)
    return f"redis://{host}:{port}/{options.get('db', 0) or 0}"
