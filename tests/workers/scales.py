"""Handlers in a module, as registrations name them. Tests say what they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.workers import shop

#: What `weigh` does, with the payload and its context.
does: Callable[[dict[str, Any], Any], Any] | None = None


def weigh(payload: dict[str, Any], context: Any) -> Any:
    return shop.weigh(payload) if does is None else does(payload, context)


def pack(payload: dict[str, Any]) -> dict[str, Any]:
    return shop.pack(payload)
