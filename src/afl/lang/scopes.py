"""What can be seen from a place in a program: inputs, steps, the loop variable, yield targets.

- `$` reads the *owner*: the enclosing declaration, or, inside the body of a step, that step. A
  step's own body therefore sees the parameters and results of its facet, not those of the
  workflow around it. Blocks behind an event, or behind a script, see the results of those, too.
- A block sees its own steps above the current one, and all steps of plain sibling blocks of the
  same body. A `catch` sees all of them, with the error of each.
- The body and the `catch` of a step see that step by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from afl.lang import ast
from afl.lang.names import Declared, Names, reserved_namespaces
from afl.lang.types import (
    ArrayOf,
    Type,
    declared_type,
    field_type,
    literal_type,
    operator_type,
)

Mixins: TypeAlias = Iterable[ast.MixinSig | ast.MixinCall]


class Attributes:
    """Readable names with their types. An open set admits others that nobody declared."""

    def __init__(self, types: Mapping[str, Type], *, is_open: bool = False) -> None:
        self.types = dict(types)
        self.is_open = is_open

    def over(self, other: Attributes) -> Attributes:
        """These, and behind them what `other` adds; a name of both means this one."""
        types = {**self.types, **other.types, **self.types}
        return Attributes(types, is_open=self.is_open or other.is_open)


#: What a `catch` can read about the error, of the owner or of a step.
ERROR = Attributes({"error": "String", "error_type": "String"})


@dataclass(frozen=True)
class Owner:
    """Whom `$` and `yield` belong to."""

    label: str
    namespace: str
    inputs: Attributes
    #: Yield targets by every name they may be called by; None where nothing is declared.
    targets: Mapping[str, Declared | None]
    #: Inputs that are there only when more has happened.
    later: Attributes = field(default_factory=lambda: Attributes({}))


@dataclass(frozen=True)
class StepInfo:
    node: ast.StepStmt
    declared: Declared | None
    attributes: Attributes


@dataclass(frozen=True)
class Scope:
    """The view from one block, or from one statement of it (`current`)."""

    names: Names
    owner: Owner
    #: Steps above the current one, and the step whose body this is.
    visible: Mapping[str, StepInfo] = field(default_factory=dict)
    #: Steps of all plain blocks of the same body.
    siblings: Mapping[str, StepInfo] = field(default_factory=dict)
    #: Names that steps of more than one of these blocks have.
    shared: frozenset[str] = frozenset()
    #: All steps of the block, also those further down, which hide siblings of that name.
    block: Mapping[str, ast.StepStmt] = field(default_factory=dict)
    variable: str | None = None
    variable_type: Type = None
    current: str | None = None
    in_foreach: bool = False

    @property
    def namespace(self) -> str:
        return self.owner.namespace

    def step(self, name: str) -> StepInfo | None:
        """The step that `name` means here."""
        found = self.visible.get(name)
        if found is None and name not in self.block:
            found = self.siblings.get(name)
        return found

    def is_ambiguous(self, name: str) -> bool:
        """Whether `name` could be a step of this or of that sibling block."""
        return name in self.shared and name not in self.visible and name not in self.block

    def step_names(self) -> list[str]:
        return [*self.visible, *(each for each in self.siblings if each not in self.block)]

    # Types of expressions

    def type_of(self, expr: ast.Expr) -> Type:
        """The type of a value here, as far as it is known."""
        if isinstance(expr, ast.Literal):
            return literal_type(expr)
        if isinstance(expr, ast.Reference):
            return self._reference_type(expr)
        if isinstance(expr, ast.ConcatExpr):
            return "String"
        if isinstance(expr, ast.BinaryExpr):
            return operator_type(expr.operator, self.type_of(expr.left), self.type_of(expr.right))
        if isinstance(expr, ast.UnaryExpr):
            return "Boolean" if expr.operator == "!" else self.type_of(expr.operand)
        if isinstance(expr, ast.ArrayLiteral):
            return ArrayOf(self._common_type(expr.elements))
        if isinstance(expr, ast.MapLiteral):
            return "Json"
        target = self.type_of(expr.target)
        return target.element if isinstance(target, ArrayOf) else None

    def _common_type(self, elements: Iterable[ast.Expr]) -> Type:
        types = [self.type_of(each) for each in elements]
        return types[0] if types and all(each == types[0] for each in types) else None

    def _reference_type(self, reference: ast.Reference) -> Type:
        head, *rest = reference.path
        type_ = self._head_type(head, reference.is_input)
        if isinstance(type_, StepInfo):
            if not rest:
                return type_.declared if type_.declared and type_.declared.is_schema else "Json"
            head, *rest = rest
            type_ = type_.attributes.types.get(head)
        for name in rest:
            type_ = field_type(self.names, type_, name)
        return type_

    def _head_type(self, name: str, is_input: bool) -> Type | StepInfo:
        if name == self.variable:
            return self.variable_type
        return self.owner.inputs.types.get(name) if is_input else self.step(name)


def owner_of_declaration(names: Names, declared: Declared) -> Owner:
    """A facet or workflow as the owner of its own body."""
    own = {declared.name: declared, declared.qualified: declared}
    targets = _mixin_targets(names, declared.namespace, declared.mixins)
    return Owner(
        f"{declared.kind} '{declared.name}'",
        declared.namespace,
        given_to(names, declared).over(_early_results(names, declared)),
        {**own, **targets, **own},
    )


def before_its_body(names: Names, declared: Declared, owner: Owner, mixed_in: Mixins = ()) -> Owner:
    """The owner as its signature sees it: nothing has run, and no mixins are there but `mixed_in`.

    Arguments are completed in the order of the signature: defaults, then mixin after mixin.
    """
    added = _mixed_in(names, declared.namespace, mixed_in, returns=False)
    return replace(owner, inputs=_params(names, declared).over(added), later=owner.inputs)


def owner_of_step(names: Names, namespace: str, info: StepInfo) -> Owner:
    """A step as the owner of the body written behind it."""
    call, declared = info.node.call, info.declared
    inputs = Attributes({}, is_open=declared is None)
    targets = _mixin_targets(names, namespace, call.mixins)
    own = {call.name.rpartition(".")[2]: declared, call.name: declared}
    if declared is not None:
        inputs = given_to(names, declared).over(_returns(names, declared))
        targets |= _mixin_targets(names, declared.namespace, declared.mixins)
        own[declared.qualified] = declared
    return Owner(
        f"step '{info.node.name}'",
        namespace,
        inputs.over(_mixed_in(names, namespace, call.mixins)),
        {**own, **targets, **own},
    )


def step_info(names: Names, namespace: str, step: ast.StepStmt) -> StepInfo:
    """What can be read of a step."""
    declared = names.resolve(namespace, step.call.name).declared
    attributes = Attributes({}, is_open=True)
    if declared is not None:
        attributes = _results(names, declared)
        attributes = attributes.over(_mixed_in(names, declared.namespace, declared.mixins))
    attributes = attributes.over(_mixed_in(names, namespace, step.call.mixins))
    info = StepInfo(step, declared, attributes)
    return failing(info) if step.catch is not None else info


def catching(owner: Owner) -> Owner:
    """The same owner, seen from its `catch`, where `$` has the error above all else."""
    return replace(owner, inputs=ERROR.over(owner.inputs))


def failing(info: StepInfo) -> StepInfo:
    """The same step, where it may have ended in error and that can be read."""
    return replace(info, attributes=info.attributes.over(ERROR))


# What declarations lend


def given_to(names: Names, declared: Declared) -> Attributes:
    """What a declaration is given: its parameters, and what its signature mixes in."""
    mixed_in = _mixed_in(names, declared.namespace, declared.mixins)
    return _params(names, declared).over(mixed_in)


def _early_results(names: Names, declared: Declared) -> Attributes:
    """What is there before the blocks run: results of the event, or of a script in front."""
    assert not isinstance(declared.node, ast.SchemaDecl)
    if declared.node.pre_script is not None:
        return _results(names, declared)
    return _returns(names, declared) if declared.is_event else Attributes({})


def _results(names: Names, declared: Declared) -> Attributes:
    """What others read. A facet without returns is plain data: it holds its parameters."""
    if declared.returns:
        return _returns(names, declared)
    return Attributes(_params(names, declared).types, is_open=not declared.is_schema)


def _params(names: Names, declared: Declared) -> Attributes:
    return _typed(names, declared, declared.params)


def _returns(names: Names, declared: Declared) -> Attributes:
    return _typed(names, declared, declared.returns)


def _typed(
    names: Names, declared: Declared, nodes: Mapping[str, ast.Parameter | ast.SchemaField]
) -> Attributes:
    return Attributes(
        {name: declared_type(names, declared.namespace, each.type) for name, each in nodes.items()}
    )


def _mixed_in(names: Names, namespace: str, mixins: Mixins, *, returns: bool = True) -> Attributes:
    """An aliased mixin is one attribute; others lend what they hold, and nobody knows what an
    undeclared one holds."""
    lent = Attributes({})
    for mixin in mixins:
        if mixin.alias is not None:
            lent = lent.over(Attributes({mixin.alias: None}))
            continue
        declared = names.resolve(namespace, mixin.name).declared
        if declared is not None and declared.namespace in reserved_namespaces():
            continue  # an ask of the runtime, such as a retry, lends nothing
        if declared is not None:
            lent = lent.over(_params(names, declared))
        if declared is not None and returns:
            lent = lent.over(_returns(names, declared))
        given = dict.fromkeys(each.name for each in mixin.args)
        lent = lent.over(Attributes(given, is_open=declared is None))
    return lent


def _mixin_targets(names: Names, namespace: str, mixins: Mixins) -> dict[str, Declared | None]:
    targets: dict[str, Declared | None] = {}
    for mixin in mixins:
        found = names.resolve(namespace, mixin.name).declared
        for name in (mixin.name, mixin.name.rpartition(".")[2], mixin.alias):
            if name is not None:
                targets[name] = found
    return targets
