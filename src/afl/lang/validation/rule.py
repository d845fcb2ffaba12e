"""What a rule is: a name, the codes it may report, and the places it wants to look at.

A rule is a set of functions, one for each kind of place. The walk visits every place once and
shows it to all rules, so a new rule adds its own work and no walk of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from afl.lang import ast
from afl.lang.codes import Code
from afl.lang.diagnostics import Diagnostic
from afl.lang.names import Declared, Names
from afl.lang.scopes import Scope


class Report:
    """Where rules put what they find, and what all of them may ask."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.diagnostics: list[Diagnostic] = []

    def __call__(
        self, code: Code, message: str, node: ast.ASTNode | None, hint: str | None = None
    ) -> None:
        place = node.location if node is not None else None
        self.diagnostics.append(Diagnostic.of(code, message, place, hint))


#: A call, or the mixin of one: both have a name and arguments.
Callee = ast.CallExpr | ast.MixinCall | ast.MixinSig


@dataclass(frozen=True)
class Rule:
    """Every hook gets the report first. Absent hooks cost nothing."""

    name: str
    codes: tuple[Code, ...]
    #: (report) once, before anything else
    program: Callable[[Report], None] | None = None
    #: (report, namespace name, scope node): the top level and each namespace block
    scope: Callable[[Report, str, ast.Program | ast.Namespace], None] | None = None
    #: (report, declared): facets, event facets, workflows
    declaration: Callable[[Report, Declared], None] | None = None
    #: (report, declared)
    schema: Callable[[Report, Declared], None] | None = None
    #: (report, namespace name, type reference)
    type: Callable[[Report, str, ast.TypeRef], None] | None = None
    #: (report, parameter, scope): parameters that have a default
    default: Callable[[Report, ast.Parameter, Scope], None] | None = None
    #: (report, blocks of one body, their scope)
    body: Callable[[Report, list[ast.AndThenBlock], Scope], None] | None = None
    #: (report, block, scope)
    block: Callable[[Report, ast.Block, Scope], None] | None = None
    #: (report, call, declared or None, scope): calls of steps and implicits
    call: Callable[[Report, ast.CallExpr, Declared | None, Scope], None] | None = None
    #: (report, mixin, declared or None, scope): mixins of signatures and calls
    mixin: Callable[[Report, Callee, Declared | None, Scope], None] | None = None
    #: (report, yield, scope)
    yields: Callable[[Report, ast.YieldStmt, Scope], None] | None = None
    #: (report, reference, scope)
    reference: Callable[[Report, ast.Reference, Scope], None] | None = None
    #: (report, expression, scope): binary and unary operators
    operation: Callable[[Report, ast.BinaryExpr | ast.UnaryExpr, Scope], None] | None = None
    #: (report, clause, scope)
    foreach: Callable[[Report, ast.ForeachClause, Scope], None] | None = None
    #: (report, when)
    when: Callable[[Report, ast.WhenBlock], None] | None = None
    #: (report, prompt, declared)
    prompt: Callable[[Report, ast.PromptBlock, Declared], None] | None = None
    #: (report, script)
    script: Callable[[Report, ast.ScriptBlock], None] | None = None

    def hook(self, place: str) -> Callable[..., Any] | None:
        found: Callable[..., Any] | None = getattr(self, place)
        return found


PLACES = tuple(name for name in Rule.__dataclass_fields__ if name not in ("name", "codes"))
