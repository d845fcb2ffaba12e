"""Finding handlers: from modules and files to a table of who serves which facet.

In one source, the first of these that names a facet counts:

1. a dict `HANDLERS`, facet name → callable;
2. functions marked with `@handler("shop.Charge")`;
3. functions of the module itself that are called like a facet of the program: `charge` or `Charge`
   for `shop.Charge`, `write_note` for `shop.WriteNote`;
4. a function `handle`, if the module has no other handlers: it serves every facet of the program
   that nobody else serves.

Names in 1 and 2 may be short; `afl.runtime.names` says what they mean. Two sources that serve one
facet are an error, never a race.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from afl.errors import UsageError
from afl.ids import stable_id
from afl.runtime.callables import is_async, takes_context
from afl.runtime.claims import RetryPolicy
from afl.runtime.entities import Isolation, OnLost
from afl.runtime.names import handler_for, short_name

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__afl_facets__"
_CATCH_ALL = "handle"
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def handler(facet: str) -> Callable[[F], F]:
    """Mark a function as the handler of a facet. Several marks make it serve several."""

    def mark(function: F) -> F:
        setattr(function, _MARK, (*getattr(function, _MARK, ()), facet))
        return function

    return mark


@dataclass(frozen=True)
class Handler:
    """A callable that does the tasks of a facet, and where it was found."""

    facet: str
    call: Callable[..., Any]
    #: The module or file, as it was asked for.
    source: str
    #: Handed to the callable as `_handler_metadata`.
    metadata: Mapping[str, Any] = field(default_factory=dict)
    isolation: str = Isolation.THREAD
    #: How long it may take, where the task does not say; 0: as long as it likes.
    timeout_ms: int = 0
    on_lost: str = OnLost.REDELIVER
    retry: RetryPolicy | None = None
    #: What a process of its own needs to load it again.
    recipe: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def takes_context(self) -> bool:
        """Whether it has a place for a context beside the payload."""
        return takes_context(self.call)

    @cached_property
    def is_async(self) -> bool:
        """Whether calling it only makes a coroutine: no thread is needed to wait for it."""
        return is_async(self.call)

    @property
    def label(self) -> str:
        """As messages name it: `handlers.py: charge`."""
        name = getattr(self.call, "__name__", type(self.call).__name__)
        return f"{self.source}: {name}"


class HandlerTable:
    """Who serves which facet."""

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = dict(handlers)

    def names(self) -> list[str]:
        """What to claim tasks by."""
        return sorted(self._handlers)

    def handler_for(self, task_name: str) -> Handler | None:
        """Whom a task goes to, or None."""
        name = handler_for(task_name, self._handlers)
        return None if name is None else self._handlers[name]

    def missing(self, facets: Iterable[str]) -> list[str]:
        """The facets that nobody serves, in their order."""
        return [each for each in facets if self.handler_for(each) is None]


def load_handlers(sources: Sequence[str], facets: Iterable[str]) -> HandlerTable:
    """Import every source and find its handlers for these facets of a program.

    A source is a dotted module or a `.py` file. Raises UsageError if one cannot be imported, if
    what it declares makes no sense, or if two of them serve one facet.
    """
    known = list(facets)
    found: dict[str, Handler] = {}
    catch_alls: list[Handler] = []
    for source in sources:
        module = _import(source)
        own = _handlers_of(module, source, known)
        for each in own.values():
            _require_new(each, found, known)
        found.update(own)
        if not own and callable(getattr(module, _CATCH_ALL, None)):
            catch_alls.append(Handler("*", getattr(module, _CATCH_ALL), source))
    return HandlerTable(_with_catch_all(found, catch_alls, known))


def _require_new(new: Handler, found: Mapping[str, Handler], facets: list[str]) -> None:
    """Raise UsageError if an earlier source serves a facet that this handler serves."""
    for facet in (*_meant_by(new.facet, facets), new.facet):
        name = handler_for(facet, found)
        if name is not None and found[name].call is not new.call:
            raise _served_twice(facet, found[name], new)


def _with_catch_all(
    found: dict[str, Handler], catch_alls: list[Handler], facets: list[str]
) -> dict[str, Handler]:
    unserved = HandlerTable(found).missing(facets)
    if not (catch_alls and unserved):
        return found
    if len(catch_alls) > 1:
        raise _served_twice(unserved[0], *catch_alls[:2])
    one = catch_alls[0]
    return {**found, **{facet: Handler(facet, one.call, one.source) for facet in unserved}}


def _served_twice(facet: str, one: Handler, other: Handler) -> UsageError:
    return UsageError(
        f"two handlers serve {facet}: {one.label} and {other.label}; remove one of them"
    )


def _meant_by(name: str, facets: Iterable[str]) -> list[str]:
    """The facets of the program that a handler of this name serves."""
    return [each for each in facets if name in (each, short_name(each))]


# What a module offers


def _handlers_of(module: ModuleType, source: str, facets: list[str]) -> dict[str, Handler]:
    found = {**_marked(module, source), **_listed(module, source)}
    open_facets = [each for each in facets if handler_for(each, found) is None]
    return {**found, **_named(module, source, open_facets)}


def _listed(module: ModuleType, source: str) -> dict[str, Handler]:
    table = getattr(module, "HANDLERS", {})
    if not isinstance(table, Mapping):
        raise UsageError(
            f"{source}: HANDLERS is {_a(table)}; make it a dict of facet names and functions"
        )
    for name, call in table.items():
        if not isinstance(name, str) or not callable(call):
            raise UsageError(
                f"{source}: HANDLERS[{name!r}] is {_a(call)}; expected a facet name and a function"
            )
    return {name: Handler(name, call, source) for name, call in table.items()}


def _marked(module: ModuleType, source: str) -> dict[str, Handler]:
    found: dict[str, Handler] = {}
    for call in filter(inspect.isfunction, vars(module).values()):
        for facet in getattr(call, _MARK, ()):
            new = Handler(facet, call, source)
            if found.setdefault(facet, new).call is not call:
                raise _served_twice(facet, found[facet], new)
    return found


def _named(module: ModuleType, source: str, facets: list[str]) -> dict[str, Handler]:
    found: dict[str, Handler] = {}
    for name, call in vars(module).items():
        # Only its own: an imported `copy` is hardly the handler of a facet `Copy`.
        if not inspect.isfunction(call) or call.__module__ != module.__name__:
            continue
        fitting = [each for each in facets if name in _spellings(each)]
        if len(fitting) > 1:
            raise UsageError(
                f"{source}: {name} could be the handler of {' or '.join(fitting)}; say which one "
                f'with @afl.handler("{fitting[0]}")'
            )
        found.update((facet, Handler(facet, call, source)) for facet in fitting)
    return found


def _spellings(facet: str) -> tuple[str, str]:
    short = short_name(facet)
    return short, _HUMP.sub("_", short).lower()


def _a(value: object) -> str:
    return f"of type {type(value).__name__}"


# Importing


def _import(source: str) -> ModuleType:
    is_file = source.endswith(".py") or "/" in source
    try:
        return _import_file(Path(source)) if is_file else _import_module(source)
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"handlers cannot be loaded from {source}: {type(error).__name__}: {error}"
        ) from error


def _import_module(name: str) -> ModuleType:
    make_importable(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # A module that is there but misses another one says so by itself.
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise UsageError(
            f"there is no handler module {name}; give a module that can be imported in this "
            "folder, or a .py file"
        ) from None


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"there is no handler file {path}")
    path = path.resolve()
    # Private: a file called json.py must not become everybody's json.
    name = f"afl_handlers_{stable_id('handlers', str(path)).replace('-', '')}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python file")
    make_importable(path.parent)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def make_importable(folder: Path) -> None:
    """Let handlers import their neighbours, as Python does for a script that it starts."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
