"""The time of the server, inside questions and changes."""

from __future__ import annotations

from typing import Any, NamedTuple


def literal(value: Any) -> dict[str, Any]:
    """Text of others inside an expression: a dollar in it means nothing."""
    return {"$literal": value}


class Now(NamedTuple):
    """The time as an expression: milliseconds since 1970. `told` is that of tests."""

    told: int | None = None

    @property
    def ms(self) -> Any:
        return {"$toLong": "$$NOW"} if self.told is None else literal(self.told)

    def after(self, duration_ms: int) -> Any:
        return {"$add": [self.ms, literal(duration_ms)]}
