"""All idempotency keys of a database, for who moves them to another one."""

from __future__ import annotations

from contextlib import AbstractContextManager

from afl.db.plain import PlainRows, Shape, plain_rows

_MODULES = {
    "sqlite": "afl.turns.idempotency.sqlite",
    "postgres": "afl.turns.idempotency.postgres",
}
_KIND, _KEY = "idempotency key", ("key",)
_COMMON = {"key": "key", "value": "value"}
_SHAPES = {
    "sqlite": [
        Shape(_KIND, "idempotency_key", {**_COMMON, "until": "until"}, _KEY, "key", {}),
    ],
    "postgres": [
        Shape(_KIND, "afl_idempotency_key", {**_COMMON, "until": "until_ms"}, _KEY, "key", {}),
    ],
}


def keys_at(url: str) -> AbstractContextManager[list[PlainRows]]:
    """The keys; nothing where they are kept in no tables."""
    return plain_rows(url, "idempotency", _MODULES, _SHAPES)
