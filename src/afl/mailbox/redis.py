"""A box on Redis or Valkey: each call is one script, which runs as a whole or not at all.

Keys, all in one slot of a cluster because they share the part in braces:

| key | holds |
| --- | --- |
| `{queue:NAME}:ready` | sorted set of ids that can be taken, by their place in the order |
| `{queue:NAME}:hidden` | sorted set of ids that are taken or delayed, by the end of that |
| `{queue:NAME}:letters` | `m` + id → place, fence, deliveries, times, reply address; \
`p` + id → payload |
| `{queue:NAME}:buried` | sorted set of ids of dead letters, by the order of their burial |
| `{queue:NAME}:burials` | id → when and why |
| `{queue:NAME}:last` | the last place that was given out; none if the box is empty |

A call of a command costs a script more than what the command does: scripts make few. Nothing
expires. What the server keeps when it crashes is its setting (`appendfsync`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf
from typing import Any, TypeVar

import msgspec
import redis

from afl.db.redis import RedisServer, Script, open_redis
from afl.db.redis.server import CHANNEL
from afl.mailbox.box import Burial, Buried, Delivery, Depth, Entry, Handle, Waiting
from afl.mailbox.named import NamedMailbox
from afl.mailbox.remote import Offset, RemoteBox, no_offset
from afl.mailbox.resolver import MailboxResolver

T = TypeVar("T")
R = TypeVar("R")

_PARTS = ("ready", "hidden", "letters", "buried", "burials", "last")

_COMMON = """
local ready, hidden, letters = KEYS[1], KEYS[2], KEYS[3]
local buried, burials, last = KEYS[4], KEYS[5], KEYS[6]

local function parse(id, text)
    local seq, fence, deliveries, enqueued, first, reply =
        string.match(text, '^(%d+) (%d+) (%d+) (%d+) (%d+) (.*)$')
    return {id = id, seq = tonumber(seq), fence = tonumber(fence), reply = reply,
            deliveries = tonumber(deliveries), enqueued = tonumber(enqueued),
            first = tonumber(first)}
end

local function read(id)
    local text = redis.call('HGET', letters, 'm' .. id)
    return text and parse(id, text)
end

-- The mark and the payload of a letter that is there.
local function open(id)
    local parts = redis.call('HMGET', letters, 'm' .. id, 'p' .. id)
    return parse(id, parts[1]), parts[2]
end

local function text_of(mark)
    return string.format('%.0f %.0f %.0f %.0f %.0f %s', mark.seq, mark.fence, mark.deliveries,
        mark.enqueued, mark.first, mark.reply)
end

local function write(mark)
    redis.call('HSET', letters, 'm' .. mark.id, text_of(mark))
end

local function forget(id)
    redis.call('HDEL', letters, 'm' .. id, 'p' .. id)
end

-- Nobody needs the places of an empty box: fences belong to letters. Who replies to many names
-- would leave a key for each of them.
local function tidy()
    if redis.call('HLEN', letters) == 0 then redis.call('UNLINK', last) end
end

-- It may be in either: a lease that is over counts until somebody else has the letter.
local function take_out(id)
    if redis.call('ZREM', hidden, id) == 0 then redis.call('ZREM', ready, id) end
end

local function held(id, fence)
    local mark = read(id)
    if mark and mark.fence == tonumber(fence) then return mark end
    return nil
end

local function hide(mark, till)
    redis.call('ZREM', ready, mark.id)
    redis.call('ZADD', hidden, till, mark.id)
end

local function show(mark)
    redis.call('ZREM', hidden, mark.id)
    redis.call('ZADD', ready, mark.seq, mark.id)
end

local function announce()
    redis.call('PUBLISH', ARGV[2], ARGV[3])
end

-- The chosen dead letters, or all if none are named, in the order of their burial.
local function chosen_dead(from)
    if #ARGV < from then return redis.call('ZRANGE', buried, 0, -1) end
    local found = {}
    for i = from, #ARGV do
        local place = redis.call('ZSCORE', buried, ARGV[i])
        if place then table.insert(found, {tonumber(place), ARGV[i]}) end
    end
    table.sort(found, function(a, b) return a[1] < b[1] end)
    local ids = {}
    for i, each in ipairs(found) do
        if i == 1 or found[i - 1][2] ~= each[2] then table.insert(ids, each[2]) end
    end
    return ids
end
"""
_TIME = """
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + ARGV[1]
"""


def _script(text: str) -> Script:
    return Script(_COMMON + _TIME + text)


def _timeless(text: str) -> Script:
    return Script(_COMMON + text)


_NOW = _script("return now")
_PUT = _script("""
local id, payload, reply, capacity = ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])
if redis.call('HEXISTS', letters, 'm' .. id) == 1 then return 1 end
if capacity >= 0
    and redis.call('ZCARD', ready) + redis.call('ZCARD', hidden) >= capacity then return 0 end
local seq = redis.call('INCR', last)
local mark = {seq = seq, fence = 0, deliveries = 0, enqueued = now, first = 0, reply = reply}
redis.call('HSET', letters, 'm' .. id, text_of(mark), 'p' .. id, payload)
redis.call('ZADD', ready, seq, id)
announce()
return 1
""")
_TAKE = _script("""
for _, id in ipairs(redis.call('ZRANGEBYSCORE', hidden, '-inf', now)) do show(read(id)) end
local found = {}
local taken = redis.call('ZPOPMIN', ready, ARGV[4])
for i = 1, #taken, 2 do
    local mark, payload = open(taken[i])
    mark.fence = mark.fence + 1
    mark.deliveries = mark.deliveries + 1
    if mark.deliveries == 1 then mark.first = now end
    write(mark)
    redis.call('ZADD', hidden, now + ARGV[5], mark.id)
    table.insert(found, {mark.id, mark.fence, payload, mark.reply, mark.enqueued, mark.first,
                         mark.deliveries})
end
return found
""")
_FINISH = _timeless("""
if not held(ARGV[4], ARGV[5]) then return 0 end
take_out(ARGV[4])
forget(ARGV[4])
tidy()
return 1
""")
_GIVE_BACK = _script("""
local answers = {}
for i = 6, #ARGV, 2 do
    local mark = held(ARGV[i], ARGV[i + 1])
    if mark then
        mark.fence = mark.fence + 1
        mark.deliveries = mark.deliveries - ARGV[5]
        write(mark)
        if tonumber(ARGV[4]) > 0 then hide(mark, now + ARGV[4]) else show(mark) end
    end
    table.insert(answers, mark and 1 or 0)
end
announce()
return answers
""")
_EXTEND = _script("""
local answers = {}
for i = 5, #ARGV, 2 do
    local mark = held(ARGV[i], ARGV[i + 1])
    if mark then
        local till = tonumber(redis.call('ZSCORE', hidden, mark.id) or 0)
        if now + ARGV[4] > till then hide(mark, now + ARGV[4]) end
    end
    table.insert(answers, mark and 1 or 0)
end
return answers
""")
_BURY = _script("""
local mark = held(ARGV[4], ARGV[5])
if not mark then return 0 end
mark.fence = mark.fence + 1
write(mark)
take_out(mark.id)
redis.call('ZADD', buried, redis.call('INCR', last), mark.id)
redis.call('HSET', burials, mark.id, string.format('%.0f %s', now, ARGV[6]))
return 1
""")
_BURIED = _timeless("""
local found = {}
for _, id in ipairs(redis.call('ZRANGE', buried, 0, ARGV[4] - 1)) do
    local mark, payload = open(id)
    table.insert(found, {id, payload, mark.reply, mark.enqueued, mark.first, mark.deliveries,
                         redis.call('HGET', burials, id)})
end
return found
""")
_REVIVE = _timeless("""
local ids = chosen_dead(5)
if ARGV[4] == '0' then ids = {} end
for _, id in ipairs(ids) do
    local mark = read(id)
    mark.seq = redis.call('INCR', last)
    mark.deliveries = 0
    mark.first = 0
    write(mark)
    redis.call('ZREM', buried, id)
    redis.call('HDEL', burials, id)
    redis.call('ZADD', ready, mark.seq, id)
end
announce()
return #ids
""")
_DISCARD = _timeless("""
local ids = chosen_dead(5)
if ARGV[4] == '0' then ids = {} end
for _, id in ipairs(ids) do
    redis.call('ZREM', buried, id)
    redis.call('HDEL', burials, id)
    forget(id)
end
tidy()
return #ids
""")
_PEEK = _script("""
local found = {}
for _, id in ipairs(redis.call('ZRANGE', ready, 0, ARGV[4] - 1)) do
    table.insert(found, {read(id), 0})
end
local rest = redis.call('ZRANGE', hidden, 0, -1, 'WITHSCORES')
for i = 1, #rest, 2 do
    table.insert(found, {read(rest[i]), math.max(rest[i + 1] - now, 0)})
end
table.sort(found, function(a, b) return a[1].seq < b[1].seq end)
local first = {}
for i = 1, math.min(#found, ARGV[4]) do
    local mark, payload = open(found[i][1].id)
    table.insert(first, {mark.id, payload, mark.reply, mark.enqueued, mark.deliveries,
                         found[i][2]})
end
return first
""")
_DEPTH = _script("""
local over = redis.call('ZCOUNT', hidden, '-inf', now)
return {redis.call('ZCARD', ready) + over, redis.call('ZCARD', hidden) - over,
        redis.call('ZCARD', buried)}
""")
_PURGE = _timeless("""
local count = redis.call('ZCARD', ready) + redis.call('ZCARD', hidden)
if redis.call('ZCARD', buried) == 0 then
    redis.call('UNLINK', letters)
else
    for _, key in ipairs({ready, hidden}) do
        for _, id in ipairs(redis.call('ZRANGE', key, 0, -1)) do forget(id) end
    end
end
redis.call('UNLINK', ready, hidden)
tidy()
return count
""")
#: Milliseconds until something can be taken; -1: nothing will be by itself.
_LEFT = _script("""
if redis.call('ZCARD', ready) > 0 then return 0 end
local first = redis.call('ZRANGE', hidden, 0, 0, 'WITHSCORES')
if not first[1] then return -1 end
return math.max(first[2] - now, 0)
""")


class RedisBox(RemoteBox):
    """`server` is let go of when the box is closed. `offset` is for tests."""

    def __init__(self, server: RedisServer, name: str, *, offset: Offset = no_offset) -> None:
        super().__init__(name, server.place, server.bell, server.close, offset)
        self._server = server
        self._keys = [_key(name, part) for part in _PARTS]

    def now_ms(self) -> int:
        return int(self._run(_NOW))

    def put(self, entry: Entry[bytes], capacity: int | None = None) -> bool:
        limit = -1 if capacity is None else capacity
        return bool(self._run(_PUT, entry.id, entry.payload, _optional(entry.reply_to), limit))

    def take(self, limit: int, lease_ms: int) -> list[Delivery[bytes]]:
        return [
            Delivery(id_.decode(), fence, payload, _text(reply), enqueued, first, deliveries)
            for id_, fence, payload, reply, enqueued, first, deliveries in self._run(
                _TAKE, limit, lease_ms
            )
        ]

    def finish(self, handle: Handle) -> bool:
        return bool(self._run(_FINISH, *handle))

    def give_back(
        self, handles: Sequence[Handle], *, delay_ms: int = 0, is_counted: bool = False
    ) -> list[bool]:
        answers = self._run(_GIVE_BACK, delay_ms, 0 if is_counted else 1, *_flat(handles))
        return [bool(each) for each in answers]

    def extend(self, handles: Sequence[Handle], lease_ms: int) -> list[bool]:
        return [bool(each) for each in self._run(_EXTEND, lease_ms, *_flat(handles))]

    def bury(self, handle: Handle, burial: Burial) -> bool:
        return bool(self._run(_BURY, *handle, msgspec.json.encode(tuple(burial))))

    def buried(self, limit: int) -> list[Buried[bytes]]:
        return [
            Buried(id_.decode(), payload, _text(reply), enqueued, first, deliveries, *_why(why))
            for id_, payload, reply, enqueued, first, deliveries, why in self._first(_BURIED, limit)
        ]

    def revive(self, ids: Sequence[str] | None = None) -> int:
        return int(self._run(_REVIVE, *_chosen(ids)))

    def discard_buried(self, ids: Sequence[str] | None = None) -> int:
        return int(self._run(_DISCARD, *_chosen(ids)))

    def peek(self, limit: int) -> list[Waiting[bytes]]:
        return [
            Waiting(id_.decode(), payload, _text(reply), enqueued, deliveries, hidden)
            for id_, payload, reply, enqueued, deliveries, hidden in self._first(_PEEK, limit)
        ]

    def depth(self) -> Depth:
        return Depth(*self._run(_DEPTH))

    def purge(self) -> int:
        return int(self._run(_PURGE))

    def _seconds_left(self) -> float:
        left_ms = int(self._run(_LEFT))
        return inf if left_ms < 0 else left_ms / 1000

    def _first(self, script: Script, limit: int) -> Any:
        return self._run(script, limit) if limit > 0 else []

    def _run(self, script: Script, *arguments: Any) -> Any:
        self._require_open()
        return self._server.run(
            script, self._keys, self._offset(), CHANNEL, self._topic, *arguments
        )


class RedisMailbox(NamedMailbox[T, R]):
    """A mailbox on Redis or Valkey; `client` is a URL, or a client of the server.

    `body_type` is what bodies are checked against. `reply_resolver` finds the mailboxes that wait
    for replies; unless it is given, they are on the same server.
    """

    def __init__(
        self,
        name: str,
        client: str | redis.Redis = "redis://localhost:6379/0",
        body_type: Any = None,
        max_size: int | None = None,
        *,
        reply_resolver: MailboxResolver[Any, Any] | None = None,
    ) -> None:
        super().__init__(
            partial(open_box, client),
            name,
            body_type=body_type,
            max_size=max_size,
            reply_resolver=reply_resolver,
        )


def open_box(url: str | redis.Redis, name: str) -> RedisBox:
    return RedisBox(open_redis(url), name)


def box_names(url: str) -> list[str]:
    """The names of boxes that hold messages or dead letters there, sorted. Looks at all keys."""
    server = open_redis(url)
    before, after = _key("*", "letters").decode().split("*")
    try:
        found = {each.decode() for each in server.keys(f"{before}*{after}")}
    finally:
        server.close()
    return sorted(each.removeprefix(before).removesuffix(after) for each in found)


def _key(name: str, part: str) -> bytes:
    return f"{{queue:{name}}}:{part}".encode()


def _flat(handles: Sequence[Handle]) -> list[str | int]:
    return [part for each in handles for part in each]


def _chosen(ids: Sequence[str] | None) -> list[str | int]:
    """Whether any are chosen, and which; all if none are named."""
    if ids is None:
        return [1]
    return [1, *ids] if ids else [0]


def _optional(text: str | None) -> str:
    return "-" if text is None else f"+{text}"


def _text(optional: bytes) -> str | None:
    return None if optional == b"-" else optional[1:].decode()


def _why(packed: bytes) -> tuple[int, Burial]:
    buried_ms, _, burial = packed.partition(b" ")
    return int(buried_ms), Burial(*msgspec.json.decode(burial))
