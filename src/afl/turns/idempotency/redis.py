"""Keys on Redis or Valkey, for servers on many machines. They expire by themselves.

A Redis that forgets (an eviction, a failover) lets a key act again: use one that keeps its data.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from afl.db.redis import RedisServer, Script, open_redis

_BEFORE = "afl:idempotency:"
_SWAP = Script("""
local kept = redis.call('GET', KEYS[1])
if ARGV[1] == '0' and kept then return 0 end
if ARGV[1] == '1' and kept ~= ARGV[2] then return 0 end
if ARGV[3] == '0' then redis.call('DEL', KEYS[1])
else redis.call('SET', KEYS[1], ARGV[4], 'PX', ARGV[5]) end
return 1
""")


class RedisCells:
    """`offset` is for tests: what the clock of the server is moved by, in milliseconds. Raises
    what `afl.db.redis.open_redis` raises."""

    def __init__(self, url: str, *, offset: Callable[[], int] = lambda: 0) -> None:
        self._closing = threading.Lock()
        self._is_closed = False
        self._offset = offset
        self._server: RedisServer = open_redis(url)

    def now_ms(self) -> int:
        seconds, micros = self._server.call("TIME")
        return int(seconds) * 1000 + int(micros) // 1000 + self._offset()

    def get(self, key: str) -> bytes | None:
        value = self._server.call("GET", _key(key))
        return None if value is None else bytes(value)

    def swap(self, key: str, old: bytes | None, new: bytes | None, ttl_ms: int) -> bool:
        before = (int(old is not None), old or b"")
        after = (int(new is not None), new or b"")
        return bool(self._server.run(_SWAP, [_key(key)], *before, *after, ttl_ms))

    def close(self) -> None:
        with self._closing:
            was_closed, self._is_closed = self._is_closed, True
        if not was_closed:
            self._server.close()


def _key(key: str) -> bytes:
    return f"{_BEFORE}{key}".encode()
