"""The values a step is called with, and what its mixins ask of the runtime.

An argument is, in this order: what the call gives; what a mixin of the call adds; the implicit of
its name; the default of the parameter, which may read the others; what a mixin of the signature
adds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from afl.backoff import parse_duration
from afl.errors import ConfigurationError
from afl.lang import ast
from afl.lang.expressions import LARGEST, Environment, EvaluationError, bounded, evaluate
from afl.lang.names import Declared, Names, reserved_namespaces
from afl.runtime.types import AttributeValue

Mixin = ast.MixinCall | ast.MixinSig

#: What is being computed, from the outside in: implicits, then facets that are mixed in.
Within = tuple[Declared | ast.ImplicitDecl, ...]


@dataclass(frozen=True, slots=True)
class Policy:
    """What `afl.Retry` and `afl.Timeout` ask for; 0 leaves it to others."""

    max_attempts: int = 0
    backoff_ms: int = 0
    timeout_ms: int = 0


NO_POLICY = Policy()


def call_values(
    names: Names, namespace: str, call: ast.CallExpr, callee: Declared, environment: Environment
) -> dict[str, Any]:
    """All values that a call hands to `callee`."""
    given = {each.name: evaluate(each.value, environment) for each in call.args}
    for name, value in _mixed_in(names, namespace, call.mixins, environment):
        given.setdefault(name, value)
    return completed(names, namespace, callee, given)


def completed(
    names: Names,
    namespace: str | None,
    callee: Declared,
    given: Mapping[str, Any],
    within: Within = (),
) -> dict[str, Any]:
    """`given`, and what implicits, defaults and mixins of the signature add to it.

    Implicits are those of `namespace`; None: no implicits.
    """
    if not callee.mixins and callee.params.keys() <= given.keys():
        return dict(given)  # nothing is left to add
    within = (*within, callee)
    values = _Values(names, namespace, callee, given, within)
    found = {name: values[name] for name in values}
    own = Environment(found, _no_step)
    for name, value in _mixed_in(names, callee.namespace, callee.mixins, own, within):
        found.setdefault(name, value)
    return found


def attributes_of(values: Mapping[str, Any], types: Mapping[str, Any]) -> dict[str, AttributeValue]:
    """Values with the hints of their declared types."""
    return {
        name: AttributeValue(name, value, type_hint(types.get(name)))
        for name, value in values.items()
    }


def type_hint(declared: ast.Parameter | ast.SchemaField | None) -> str:
    if declared is None:
        return "Any"
    node, depth = declared.type, 0
    if not isinstance(node, ast.ArrayType):
        return node.name  # nearly all
    while isinstance(node, ast.ArrayType):
        node, depth = node.element_type, depth + 1
    return "[" * depth + node.name + "]" * depth


def _no_step(name: str) -> Mapping[str, Any]:
    raise KeyError(name)


_NOTHING = Environment({}, _no_step)


class _Values(Mapping[str, Any]):
    """Parameters of a callee, each computed when it is first read: defaults read one another."""

    def __init__(
        self,
        names: Names,
        namespace: str | None,
        callee: Declared,
        given: Mapping[str, Any],
        within: Within,
    ) -> None:
        self._names = names
        self._within = within
        self._namespace = namespace
        self._callee = callee
        self._known = dict(given)
        self._computing: list[str] = []
        self._missing = {
            name: param
            for name, param in callee.params.items()
            if name not in given and self._has_value(name, param)
        }

    def _has_value(self, name: str, param: ast.Parameter | ast.SchemaField) -> bool:
        has_default = isinstance(param, ast.Parameter) and param.default is not None
        return has_default or self._implicit(name) is not None

    def _implicit(self, name: str) -> tuple[str, ast.ImplicitDecl] | None:
        if self._namespace is None:
            return None
        found = self._names.implicit(self._namespace, name)
        # One that is being computed cannot give what it needs itself.
        return None if found is not None and _is_among(found[1], self._within) else found

    def __getitem__(self, name: str) -> Any:
        if name not in self._known and name in self._missing:
            self._known[name] = self._computed(name)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        declared = [each for each in self._callee.params if each in self]
        return iter([*declared, *(each for each in self._known if each not in declared)])

    def __contains__(self, name: object) -> bool:
        return name in self._known or name in self._missing

    def __len__(self) -> int:
        return len({*self._known, *self._missing})

    def _computed(self, name: str) -> Any:
        implicit = self._implicit(name)
        if implicit is not None:
            return self._implicit_value(*implicit)
        param = self._missing[name]
        assert isinstance(param, ast.Parameter)
        assert param.default is not None
        if name in self._computing:
            circle = " → ".join([*self._computing, name])
            raise EvaluationError(f"Defaults read each other in a circle: {circle}", param.location)
        self._computing.append(name)
        try:
            return evaluate(param.default, Environment(self, _no_step))
        finally:
            self._computing.pop()

    def _implicit_value(self, namespace: str, implicit: ast.ImplicitDecl) -> Any:
        declared = self._names.resolve(namespace, implicit.call.name).declared
        given = {each.name: evaluate(each.value, _NOTHING) for each in implicit.call.args}
        if declared is None:
            return given
        around = [each for each in self._within if isinstance(each, ast.ImplicitDecl)]
        return completed(self._names, None, declared, given, (*around, implicit))


def _is_among(one: Declared | ast.ImplicitDecl, others: Within) -> bool:
    return any(each is one for each in others)


# Mixins


def _mixed_in(
    names: Names,
    namespace: str,
    mixins: Iterable[Mixin],
    environment: Environment,
    within: Within = (),
) -> Iterator[tuple[str, Any]]:
    """What mixins add, flat or under their alias. Asks of the runtime add nothing by themselves."""
    for mixin in mixins:
        declared = names.resolve(namespace, mixin.name).declared
        values = _mixin_values(names, namespace, mixin, declared, environment, within)
        if mixin.alias is not None:
            yield mixin.alias, bounded(values, mixin.location)
        elif declared is None or declared.namespace not in reserved_namespaces():
            yield from values.items()


def _mixin_values(
    names: Names,
    namespace: str,
    mixin: Mixin,
    declared: Declared | None,
    environment: Environment,
    within: Within = (),
) -> dict[str, Any]:
    given = {each.name: evaluate(each.value, environment) for each in mixin.args}
    if declared is None:
        return given
    if _is_among(declared, within):
        circle = [each for each in (*within, declared) if isinstance(each, Declared)]
        path = " → ".join(each.qualified for each in circle[circle.index(declared) :])
        raise EvaluationError(f"Mixins add each other in a circle: {path}", mixin.location)
    return completed(names, namespace, declared, given, within)


def policy_of(
    names: Names,
    namespace: str,
    call: ast.CallExpr,
    callee: Declared,
    environment: Environment,
    params: Mapping[str, Any],
) -> Policy:
    """What the mixins ask of the runtime; those of the call go before those of the signature."""
    if not call.mixins and not callee.mixins:
        return NO_POLICY
    asked: dict[str, int] = {}
    own = Environment(params, _no_step)
    for scope, mixins, env in (
        (callee.namespace, callee.mixins, own),
        (namespace, call.mixins, environment),
    ):
        for mixin in mixins:
            declared = names.resolve(scope, mixin.name).declared
            ask = _ASKS.get(declared.qualified) if declared is not None else None
            if ask is not None:
                asked |= ask(_mixin_values(names, scope, mixin, declared, env), mixin)
    return Policy(**asked)


def _retry(values: Mapping[str, Any], mixin: Mixin) -> dict[str, int]:
    attempts = values["max"]
    if not isinstance(attempts, int) or isinstance(attempts, bool) or attempts < 1:
        message = f"afl.Retry: max is {attempts!r}; expected a whole number, at least 1"
        raise EvaluationError(message, mixin.location)
    return {"max_attempts": attempts, "backoff_ms": _milliseconds(values["backoff"], mixin)}


def _timeout(values: Mapping[str, Any], mixin: Mixin) -> dict[str, int]:
    if "after" not in values:
        message = 'afl.Timeout: after is missing; expected a duration, such as "5m"'
        raise EvaluationError(message, mixin.location)
    return {"timeout_ms": _milliseconds(values["after"], mixin)}


_ASKS = {"afl.Retry": _retry, "afl.Timeout": _timeout}


def _milliseconds(text: Any, mixin: Mixin) -> int:
    try:
        seconds = parse_duration(text if isinstance(text, int | float) else str(text))
    except ConfigurationError as problem:
        raise EvaluationError(f"{mixin.name}: {problem}", mixin.location) from None
    if seconds >= LARGEST / 1000:
        raise EvaluationError(f"Number out of range in '{mixin.name}'", mixin.location)
    return round(seconds * 1000)
