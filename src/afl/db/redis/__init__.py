"""Redis and Valkey: one client for each URL and process, scripts, and announcements.

- `open_redis(url)` gives the `RedisServer`; everybody in a process shares it.
- Nothing is sent twice: what was sent and not answered may have happened.
- `RedisServer.bell` wakes whoever waits for news, in any process.
"""

from __future__ import annotations

from afl.db.redis.server import RedisServer, Script, open_redis

__all__ = ["RedisServer", "Script", "open_redis"]
