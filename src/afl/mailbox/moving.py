"""All messages and dead letters of a database, for who moves them to another one."""

from __future__ import annotations

from contextlib import AbstractContextManager

from afl.db.plain import PlainRows, Record, Shape, plain_rows

_MODULES = {"sqlite": "afl.mailbox.sqlite_schema", "postgres": "afl.mailbox.postgres"}

_BOTH = (
    *("box", "id", "payload", "reply_to"),
    *("enqueued_ms", "first_taken_ms", "deliveries", "fence"),
)
_COMMON = {each: each for each in _BOTH}
_BURIAL = {each: each for each in ("buried_ms", "reason", "error_type")}
_KEY = ("box", "id")


def _hidden_ms(message: Record, now: int) -> int:
    until: int = message["hidden_until"]
    return max(until - now, 0)


_SHAPES = {
    "sqlite": (
        Shape(
            "message",
            "mailbox_message",
            {**_COMMON, "hidden_until": "hidden_until"},
            _KEY,
            "seq",
            {"hidden_ms": _hidden_ms},
        ),
        Shape("dead letter", "mailbox_letter", {**_COMMON, **_BURIAL}, _KEY, "seq", {}),
    ),
    "postgres": (
        Shape(
            "message",
            "afl_mailbox",
            {**_COMMON, "hidden_until": "hidden_until_ms"},
            _KEY,
            "seq",
            {},
        ),
        Shape("dead letter", "afl_mailbox_dead", {**_COMMON, **_BURIAL}, _KEY, "seq", {}),
    ),
}


def messages_at(url: str) -> AbstractContextManager[list[PlainRows]]:
    """The messages, and the dead letters; nothing where no mailboxes are kept in tables."""
    return plain_rows(url, "mailbox", _MODULES, _SHAPES)
