"""`$.x` reads a parameter of the enclosing declaration, or of the step whose body this is."""

from afl.lang import ast
from afl.lang.codes import INPUT_REFERENCE
from afl.lang.diagnostics import suggest
from afl.lang.scopes import ERROR, Scope
from afl.lang.validation.rule import Report, Rule


def check(report: Report, reference: ast.Reference, scope: Scope) -> None:
    inputs = scope.owner.inputs
    name = reference.path[0]
    if not reference.is_input or inputs.is_open or name in inputs.types or name == scope.variable:
        return
    path = ".".join(reference.path)
    message = f"Invalid input reference '$.{path}': {scope.owner.label} has no parameter '{name}'"
    report(INPUT_REFERENCE, message, reference, _hint(name, scope))


def _hint(name: str, scope: Scope) -> str | None:
    if scope.step(name) is not None:
        return f"'{name}' is a step: write it without `$.`"
    if name in ERROR.types:
        return "an error can be read in a `catch`"
    if close := suggest(name, scope.owner.inputs.types):
        return close
    if scope.owner.label.startswith("step "):
        return f"inside the body of a step, `$` is that step: pass '{name}' as an argument"
    return None


RULE = Rule("inputs", (INPUT_REFERENCE,), reference=check)
