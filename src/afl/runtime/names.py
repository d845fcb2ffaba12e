"""Which handler a task belongs to. Claims, dispatch and registrations all ask here.

An exact name wins. Else a handler with a short name takes every task that ends in it: `Pay` takes
`billing.Pay`. It is never the other way round: a task `Pay` is not for a handler of `billing.Pay`.
"""

from __future__ import annotations

from collections.abc import Iterable


def short_name(name: str) -> str:
    """The part behind the last dot. Tasks of the runtime itself (`afl:…`) have no shorter name."""
    return name if ":" in name else name.rpartition(".")[2]


def is_short(name: str) -> bool:
    return "." not in name


def handler_for(task_name: str, handlers: Iterable[str]) -> str | None:
    """The name of the handler that a task goes to, or None."""
    known = set(handlers)
    return next((each for each in (task_name, short_name(task_name)) if each in known), None)
