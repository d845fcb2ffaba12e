"""`$.x` reads a parameter of the enclosing declaration, or of the step whose body this is."""

from afl.lang import ast
from afl.lang.codes import EARLY_INPUT, INPUT_REFERENCE
from afl.lang.diagnostics import suggest
from afl.lang.scopes import ERROR, Scope
from afl.lang.validation.rule import Report, Rule


def check(report: Report, reference: ast.Reference, scope: Scope) -> None:
    inputs = scope.owner.inputs
    name = reference.path[0]
    if not reference.is_input or inputs.is_open or name in inputs.types or name == scope.variable:
        return
    what = f"Invalid input reference '$.{'.'.join(reference.path)}'"
    later = scope.owner.later
    if later.is_open or name in later.types:
        message = (
            f"{what}: '{name}' is not there yet, only the parameters of {scope.owner.label} are"
        )
        meant = None if name in later.types else suggest(name, inputs.types)
        report(EARLY_INPUT, message, reference, meant or _EARLY_HINT)
        return
    message = f"{what}: {scope.owner.label} has no parameter '{name}'"
    report(INPUT_REFERENCE, message, reference, _hint(name, scope))


_EARLY_HINT = "read a parameter, or give the value where it is called"


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


RULE = Rule("inputs", (INPUT_REFERENCE, EARLY_INPUT), reference=check)
