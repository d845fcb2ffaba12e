"""A yield goes to the owner of its block or to one of the owner's mixins, once for each."""

from afl.lang import ast
from afl.lang.codes import DUPLICATE_YIELD, YIELD_TARGET
from afl.lang.diagnostics import suggest
from afl.lang.scopes import Scope
from afl.lang.validation.rule import Report, Rule


def check_target(report: Report, statement: ast.YieldStmt, scope: Scope) -> None:
    name = statement.call.name
    if name in scope.owner.targets:
        return
    message = f"Invalid yield target '{name}': this block belongs to {scope.owner.label}"
    report(YIELD_TARGET, message, statement, _hint(name, list(scope.owner.targets)))


def _hint(name: str, valid: list[str]) -> str:
    short = name.rpartition(".")[2]
    # The owner itself comes first among its targets.
    likely = short if short in valid else valid[0]
    return ("." not in name and suggest(name, valid)) or f"yield to '{likely}'"


def check_repeated(report: Report, block: ast.Block, scope: Scope) -> None:
    seen: set[str] = set()
    for statement in block.yield_stmts:
        target = _target(statement.call.name, scope)
        if target in seen:
            message = f"Duplicate yield target '{statement.call.name}'"
            report(DUPLICATE_YIELD, message, statement, "join their arguments in one yield")
        seen.add(target)


def _target(name: str, scope: Scope) -> str:
    """Short and qualified names are one target; the alias of a mixin is one of its own."""
    declared = scope.owner.targets.get(name)
    if declared is None or name.rpartition(".")[2] != declared.name:
        return name
    return declared.qualified


RULE = Rule(
    "yield targets", (YIELD_TARGET, DUPLICATE_YIELD), yields=check_target, block=check_repeated
)
