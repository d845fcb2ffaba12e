"""Functions as tools: what a model must know about one comes from its signature and docstring."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, get_type_hints

import msgspec

from afl.agents.model import ToolSpec
from afl.agents.shapes import REQUIRED, Field, Shape
from afl.error_text import message_of, storable, with_article
from afl.errors import UsageError
from afl.turns.effects import UNDECLARED, Policy

F = TypeVar("F", bound=Callable[..., Any])

#: Where a function carries what was said about it.
_POLICY = "__afl_policy__"
#: What services take as the name of a tool.
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True)
class Tool:
    """A function that a model may call."""

    spec: ToolSpec
    function: Callable[..., Any]
    shape: Shape
    parameters: tuple[str, ...]
    #: What may be done when a call of it was interrupted.
    policy: Policy = UNDECLARED

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    def call(self, arguments: Mapping[str, Any]) -> Any:
        """Call the function with arguments that a model wrote; an awaitable if it is a coroutine
        function. Raises InvalidArguments; what the function raises comes out."""
        read = self.shape.read(arguments)
        values = (getattr(read, field) for field in read.__struct_fields__)
        return self.function(**dict(zip(self.parameters, values, strict=True)))


def tool(
    *, idempotent: bool = False, reconcile: Callable[[str], Any] | None = None
) -> Callable[[F], F]:
    """Say of a function what may be done when a call of it was interrupted, so that nobody knows
    whether it had its effect.

    If it is `idempotent`, it is called again, and sends the same idempotency key. `reconcile` is
    called with that key, and returns `Done(value)`, `NotDone()`, or None if it cannot tell.
    Unless one of them helps, a person must decide.
    """

    def declare(function: F) -> F:
        vars(function)[_POLICY] = Policy(idempotent, reconcile)
        return function

    return declare


def tool_of(function: Callable[..., Any], *, name: str | None = None) -> Tool:
    """Make a tool of a function, or of an object that can be called like one.

    Its docstring tells the model what it is for. Parameters have the types of their annotations,
    and text in an `Annotated` describes one; what has no default must be given, and what a
    `partial` gives is not for the model. Raises UsageError for a function that cannot be called by
    named arguments alone, or whose types are not known.
    """
    inner = function.func if isinstance(function, partial) else function
    called: str = name or str(getattr(inner, "__name__", ""))
    if not TOOL_NAME.fullmatch(called):
        raise UsageError(
            f"{called!r} cannot be the name of a tool; expected at most 64 letters, digits, "
            "underscores and hyphens: give it one with name="
        )
    fields = _fields(function, inner, called)
    shape = _shape(fields, called)
    spec = ToolSpec(called, inspect.getdoc(inner) or "", shape.schema)
    names = tuple(each.name for each in fields)
    policy = getattr(function, _POLICY, getattr(inner, _POLICY, UNDECLARED))
    return Tool(spec, function, shape, names, policy)


def content_of(result: Any) -> str:
    """What a tool returned, as a model reads it: text as it is, everything else as JSON, or as it
    is printed. The tool has acted, so whatever it is, something is told."""
    if isinstance(result, str):
        return storable(result)
    try:
        return msgspec.json.encode(result).decode("utf-8")
    except Exception:  # no JSON, a circle, code of its class
        what = with_article(type(result).__name__)
        return message_of(result) or f"{what}, which cannot be written as text"


def _fields(function: Callable[..., Any], inner: Callable[..., Any], called: str) -> list[Field]:
    given = function.keywords if isinstance(function, partial) else {}
    # The types of an object that can be called are those of its method.
    typed = inner if hasattr(inner, "__name__") else type(inner).__call__
    try:
        parameters = inspect.signature(function).parameters
        hints = get_type_hints(typed, include_extras=True)
    except Exception as problem:  # annotations are code
        raise UsageError(
            f"the parameters of the tool {called} are not known: {problem}; wrap it in a function "
            "whose annotations are types of its module"
        ) from None
    return [_field(each, hints, called) for each in parameters.values() if each.name not in given]


def _field(parameter: inspect.Parameter, hints: Mapping[str, Any], called: str) -> Field:
    if parameter.kind not in _BY_NAME:
        raise UsageError(
            f"the tool {called} cannot take {str(parameter).partition(':')[0]}; give it parameters "
            "with names and types"
        )
    default = REQUIRED if parameter.default is parameter.empty else parameter.default
    return Field(parameter.name, hints.get(parameter.name, Any), default)


def _shape(fields: list[Field], called: str) -> Shape:
    try:
        shape = Shape(fields)
        _ = shape.schema  # a type that has none is found here, and not at the first call
    except (TypeError, ValueError) as problem:
        raise UsageError(f"the parameters of the tool {called} cannot be JSON: {problem}") from None
    return shape
