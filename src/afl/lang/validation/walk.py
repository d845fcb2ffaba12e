"""One walk over a program that shows every place to every rule.

Bodies are worked off from a list, not by recursion, so that deep nesting costs no stack;
expressions recurse, and the parser has bounded their depth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from afl.lang import ast
from afl.lang.names import Declared, Names, scopes
from afl.lang.scopes import (
    Attributes,
    Owner,
    Scope,
    StepInfo,
    before_its_body,
    catching,
    failing,
    owner_of_declaration,
    owner_of_step,
    step_info,
)
from afl.lang.types import ArrayOf
from afl.lang.validation.rule import PLACES, Report, Rule

Hooks = list[Callable[..., None]]


class Walk:
    def __init__(self, names: Names, rules: Sequence[Rule]) -> None:
        self.names = names
        self.report = Report(names)
        self._hooks: dict[str, Hooks] = {
            place: [hook for rule in rules if (hook := rule.hook(place)) is not None]
            for place in PLACES
        }
        self._pending: list[tuple[list[ast.AndThenBlock], ast.CatchClause | None, Scope]] = []

    def run(self) -> Report:
        self._show("program")
        for namespace, scope in scopes(self.names.program):
            self._show("scope", namespace, scope)
            for node in scope.callables:
                self._callable(Declared(namespace, node))
            for schema in scope.schemas:
                self._schema(Declared(namespace, schema))
            for implicit in scope.implicits:
                self._call(implicit.call, self._bare_scope(namespace))
        return self.report

    def _show(self, place: str, *what: Any) -> None:
        for hook in self._hooks[place]:
            hook(self.report, *what)

    def _bare_scope(self, namespace: str) -> Scope:
        """Where nothing can be read: in an implicit."""
        return Scope(self.names, Owner("this declaration", namespace, Attributes({}), {}))

    # Declarations

    def _callable(self, declared: Declared) -> None:
        node = declared.node
        assert not isinstance(node, ast.SchemaDecl)
        self._show("declaration", declared)
        scope = Scope(self.names, owner_of_declaration(self.names, declared))
        self._signature(declared, scope)
        if isinstance(node.body, ast.PromptBlock):
            self._show("prompt", node.body, declared)
        for script in (node.pre_script, node.body):
            if isinstance(script, ast.ScriptBlock):
                self._show("script", script)
        self._pending.append((node.bodies, node.catch, scope))
        while self._pending:
            self._body(*self._pending.pop())

    def _signature(self, declared: Declared, scope: Scope) -> None:
        node = declared.node
        assert not isinstance(node, ast.SchemaDecl)
        self._parameters(node.sig.params, self._early(declared, scope))
        if node.sig.returns:
            self._parameters(node.sig.returns.params, scope)
        for position, mixin in enumerate(node.sig.mixins):
            self._mixin(mixin, self._early(declared, scope, node.sig.mixins[:position]))

    def _early(
        self, declared: Declared, scope: Scope, mixins: Sequence[ast.MixinSig] = ()
    ) -> Scope:
        owner = before_its_body(self.names, declared, scope.owner, mixins)
        return replace(scope, owner=owner)

    def _schema(self, declared: Declared) -> None:
        assert isinstance(declared.node, ast.SchemaDecl)
        self._show("schema", declared)
        for each in declared.node.fields:
            self._type(each.type, declared.namespace)

    def _parameters(self, params: Iterable[ast.Parameter], scope: Scope) -> None:
        for param in params:
            self._type(param.type, scope.namespace)
            if param.default is not None:
                self._expr(param.default, scope)
                self._show("default", param, scope)

    def _type(self, node: ast.TypeExpr, namespace: str) -> None:
        while isinstance(node, ast.ArrayType):
            node = node.element_type
        self._show("type", namespace, node)

    # Bodies

    def _body(
        self, blocks: list[ast.AndThenBlock], catch: ast.CatchClause | None, scope: Scope
    ) -> None:
        if not blocks and catch is None:
            return
        self._show("body", blocks, scope)
        plain = [self._steps_of(each, scope) for each in blocks]
        count = Counter(name for infos in plain for name in infos)
        shared = frozenset(name for name, blocks_with_it in count.items() if blocks_with_it > 1)
        inside = replace(scope, siblings=_joined(plain), shared=shared)
        for block, infos in zip(blocks, plain, strict=True):
            self._and_then(block, inside, infos)
        if catch is not None:
            steps = {name: failing(each) for name, each in inside.siblings.items()}
            handler = replace(inside, owner=catching(scope.owner), siblings=steps)
            self._cases_or_block(catch.when, catch.block, handler)

    def _steps_of(self, block: ast.AndThenBlock, scope: Scope) -> dict[str, StepInfo]:
        """The steps that siblings can see: not those of loops, which exist many times."""
        if block.foreach is not None:
            return {}
        return self._infos(block.block, scope)

    def _infos(self, block: ast.Block, scope: Scope) -> dict[str, StepInfo]:
        infos: dict[str, StepInfo] = {}
        for step in block.steps:
            infos.setdefault(step.name, step_info(self.names, scope.namespace, step))
        return infos

    def _and_then(self, node: ast.AndThenBlock, scope: Scope, infos: dict[str, StepInfo]) -> None:
        if node.script is not None:
            self._show("script", node.script)
        elif node.foreach is not None:
            self._foreach(node.foreach, node.block, scope)
        elif node.when is not None:
            self._cases_or_block(node.when, node.block, scope)
        else:
            self._block(node.block, scope, infos)

    def _foreach(self, clause: ast.ForeachClause, block: ast.Block, scope: Scope) -> None:
        self._expr(clause.iterable, scope)
        self._show("foreach", clause, scope)
        items = scope.type_of(clause.iterable)
        inner = replace(
            scope,
            variable=clause.variable,
            variable_type=items.element if isinstance(items, ArrayOf) else None,
            in_foreach=True,
        )
        self._block(block, inner, self._infos(block, inner))

    def _cases_or_block(self, when: ast.WhenBlock | None, block: ast.Block, scope: Scope) -> None:
        if when is None:
            self._block(block, scope, self._infos(block, scope))
            return
        self._show("when", when)
        for case in when.cases:
            if case.condition is not None:
                self._expr(case.condition, scope)
            self._block(case.block, scope, self._infos(case.block, scope))

    def _block(self, block: ast.Block, scope: Scope, infos: dict[str, StepInfo]) -> None:
        self._show("block", block, scope)
        visible = dict(scope.visible)
        inside = replace(
            scope, visible=visible, block={each.name: each for each in reversed(block.steps)}
        )
        for step in block.steps:
            at_step = replace(inside, current=step.name)
            self._call(step.call, at_step)
            info = infos[step.name]
            if step.body is not None or step.catch is not None:
                self._step_body(step, info, scope.namespace)
            visible[step.name] = info
        for each in block.yield_stmts:
            self._show("yields", each, inside)
            for arg in each.call.args:
                self._expr(arg.value, inside)

    def _step_body(self, step: ast.StepStmt, info: StepInfo, namespace: str) -> None:
        owner = owner_of_step(self.names, namespace, info)
        scope = Scope(self.names, owner, visible={step.name: info})
        self._pending.append((step.bodies, step.catch, scope))

    # Calls and expressions

    def _call(self, call: ast.CallExpr, scope: Scope) -> None:
        declared = self.names.resolve(scope.namespace, call.name).declared
        self._show("call", call, declared, scope)
        for arg in call.args:
            self._expr(arg.value, scope)
        for mixin in call.mixins:
            self._mixin(mixin, scope)

    def _mixin(self, mixin: ast.MixinCall | ast.MixinSig, scope: Scope) -> None:
        declared = self.names.resolve(scope.namespace, mixin.name).declared
        self._show("mixin", mixin, declared, scope)
        for arg in mixin.args:
            self._expr(arg.value, scope)

    def _expr(self, expr: ast.Expr, scope: Scope) -> None:
        if isinstance(expr, ast.Literal):
            return
        if isinstance(expr, ast.Reference):
            self._show("reference", expr, scope)
            return
        if isinstance(expr, ast.BinaryExpr | ast.UnaryExpr):
            self._show("operation", expr, scope)
        for child in _operands(expr):
            self._expr(child, scope)


def _operands(expr: ast.Expr) -> Sequence[ast.Expr]:
    if isinstance(expr, ast.BinaryExpr):
        return (expr.left, expr.right)
    if isinstance(expr, ast.UnaryExpr):
        return (expr.operand,)
    if isinstance(expr, ast.ConcatExpr):
        return expr.operands
    if isinstance(expr, ast.ArrayLiteral):
        return expr.elements
    if isinstance(expr, ast.MapLiteral):
        return [each.value for each in expr.entries]
    if isinstance(expr, ast.IndexExpr):
        return (expr.target, expr.index)
    return ()


def _joined(parts: Iterable[dict[str, StepInfo]]) -> dict[str, StepInfo]:
    joined: dict[str, StepInfo] = {}
    for part in parts:
        joined.update(part)
    return joined
