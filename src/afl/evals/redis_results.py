"""Results on Redis or Valkey: a hash for each evaluation. Nothing expires."""

from __future__ import annotations

import threading
from typing import Any

import msgspec

from afl.db.redis import RedisServer, Script, open_redis
from afl.evals.requests import EvalResult, read, written
from afl.evals.results import require_evaluation
from afl.ids import stable_id

_BEFORE = "afl:eval:"

# What is kept begins with + and the id of its request if it is a score: that is final.
_KEEP = Script("""
local kept = redis.call('HGET', KEYS[1], ARGV[1])
local final = '+' .. ARGV[2] .. ' '
if kept and string.sub(kept, 1, #final) == final then return kept end
local value = ARGV[3] .. ARGV[2] .. ' ' .. ARGV[4]
redis.call('HSET', KEYS[1], ARGV[1], value)
return value
""")
_DISCARD = Script("""
local count = redis.call('HLEN', KEYS[1])
redis.call('DEL', KEYS[1])
return count
""")


class RedisResults:
    """`server` is let go of when this is closed."""

    def __init__(self, server: RedisServer) -> None:
        self._lock = threading.Lock()
        self._is_closed = False
        self._server = server

    def keep(self, result: EvalResult) -> EvalResult:
        key = _key(require_evaluation(result))
        field = _field(result.experiment_name, result.sample_id)
        request = stable_id(result.request_id)  # without a space in it
        sign = "+" if result.success else "-"
        return _read(self._server.run(_KEEP, [key], field, request, sign, written(result)))

    def find(self, evaluation_id: str, experiment: str, sample: str) -> EvalResult | None:
        value = self._server.call("HGET", _key(evaluation_id), _field(experiment, sample))
        return None if value is None else _read(value)

    def results(self, evaluation_id: str) -> list[EvalResult]:
        found = [_read(each) for each in self._server.call("HVALS", _key(evaluation_id))]
        return sorted(found, key=lambda each: (each.experiment_name, each.sample_id))

    def evaluations(self) -> list[str]:
        names = {each.decode() for each in self._server.keys(f"{_BEFORE}*")}
        return sorted(each.removeprefix(_BEFORE) for each in names)

    def discard(self, evaluation_id: str) -> int:
        return int(self._server.run(_DISCARD, [_key(evaluation_id)]))

    def close(self) -> None:
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
        if not was_closed:
            self._server.close()


def open_results(url: str) -> RedisResults:
    return RedisResults(open_redis(url))


def _key(evaluation_id: str) -> bytes:
    return f"{_BEFORE}{evaluation_id}".encode()


def _field(*names: str) -> bytes:
    return msgspec.json.encode(names)


def _read(value: Any) -> EvalResult:
    return read(bytes(value).partition(b" ")[2])
