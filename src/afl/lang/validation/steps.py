"""A step reads steps that exist and come before it, never itself."""

from afl.lang import ast
from afl.lang.codes import AMBIGUOUS_STEP, SELF_REFERENCE, UNDEFINED_STEP
from afl.lang.diagnostics import suggest
from afl.lang.scopes import Scope
from afl.lang.validation.rule import Report, Rule


def check(report: Report, reference: ast.Reference, scope: Scope) -> None:
    name = reference.path[0]
    if reference.is_input or name == scope.variable:
        return
    if scope.step(name) is not None:
        if scope.is_ambiguous(name):
            message = f"Ambiguous step '{name}': several sibling blocks have a step of that name"
            report(AMBIGUOUS_STEP, message, reference, "rename one of them")
        return
    if name == scope.current:
        message = f"Step '{name}' waits for itself: it reads '{'.'.join(reference.path)}'"
        report(SELF_REFERENCE, message, reference)
    else:
        message = f"Reference to undefined step '{name}'"
        report(UNDEFINED_STEP, message, reference, _hint(name, scope))


def _hint(name: str, scope: Scope) -> str | None:
    later = scope.block.get(name)
    if later is not None and later.location is not None:
        return f"'{name}' is defined further down, at line {later.location.line}; move it up"
    if name in scope.owner.inputs.types:
        return f"inputs are written `$.{name}`"
    if close := suggest(name, scope.step_names()):
        return close
    if scope.owner.label.startswith("step "):
        return f"{scope.owner.label} has a body of its own: pass the value as an argument"
    return None


RULE = Rule("steps", (UNDEFINED_STEP, SELF_REFERENCE, AMBIGUOUS_STEP), reference=check)
