"""Which handler a task belongs to. Claims, dispatch and registrations all ask here.

An exact name wins. Else a handler with a short name takes every task that ends in it (`Pay` takes
`billing.Pay`), and a task without a namespace goes to the one handler that ends in its name. Two
that fit equally well are an error, never a guess.
"""

from __future__ import annotations

from collections.abc import Iterable

from afl.errors import UsageError


class AmbiguousHandler(UsageError):  # noqa: N818 - what happened is what callers catch
    """A short name fits handlers of two namespaces."""


def short_name(name: str) -> str:
    """The part behind the last dot. Tasks of the runtime itself (`afl:…`) have no shorter name."""
    return name if ":" in name else name.rpartition(".")[2]


def is_short(name: str) -> bool:
    return "." not in name


def handler_for(task_name: str, handlers: Iterable[str]) -> str | None:
    """The name of the handler that a task goes to, or None. Raises AmbiguousHandler."""
    known = set(handlers)
    short = short_name(task_name)
    if task_name in known:
        return task_name
    if short in known:
        return short
    if not is_short(task_name):
        return None
    fitting = sorted(each for each in known if short_name(each) == task_name)
    if len(fitting) > 1:
        raise AmbiguousHandler(
            f"'{task_name}' fits the handlers {', '.join(fitting)}; declare its facet in a "
            "namespace"
        )
    return fitting[0] if fitting else None


def require_unambiguous(name: str, others: Iterable[str]) -> None:
    """Raise AmbiguousHandler if, with `name` among them, a short name would mean two handlers."""
    short = short_name(name)
    fitting = {each for each in (name, *others) if short_name(each) == short}
    qualified = sorted(each for each in fitting if not is_short(each))
    if short in fitting and len(qualified) > 1:
        raise AmbiguousHandler(
            f"the short name '{short}' fits the handlers {', '.join(qualified)}; register handlers "
            "by their qualified names"
        )
