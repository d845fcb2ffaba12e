"""What is read of a step or a value is something it has."""

from afl.lang import ast
from afl.lang.codes import STEP_ATTRIBUTE, UNDECLARED_ATTRIBUTE
from afl.lang.diagnostics import suggest
from afl.lang.names import Declared
from afl.lang.scopes import ERROR, Scope, StepInfo
from afl.lang.types import Type, field_type
from afl.lang.validation.rule import Report, Rule


def check(report: Report, reference: ast.Reference, scope: Scope) -> None:
    head, *rest = reference.path
    if head == scope.variable:
        _check_fields(report, reference, scope.variable_type, rest)
    elif reference.is_input:
        _check_fields(report, reference, scope.owner.inputs.types.get(head), rest)
    elif rest and (step := scope.step(head)) is not None:
        _check_step(report, reference, step, rest)


def _check_step(report: Report, reference: ast.Reference, step: StepInfo, rest: list[str]) -> None:
    attributes, name = step.attributes, rest[0]
    if name in attributes.types:
        _check_fields(report, reference, attributes.types[name], rest[1:])
        return
    hint = suggest(name, attributes.types)
    if name in ERROR.types:
        hint = f"give step '{step.node.name}' a `catch` to read its error"
    if not attributes.is_open:
        valid = ", ".join(attributes.types)
        message = (
            f"Invalid attribute '{name}' for step '{step.node.name}': "
            f"valid attributes are [{valid}]"
        )
        report(STEP_ATTRIBUTE, message, reference, hint)
    elif step.declared is not None:
        what = f"{step.declared.kind} '{step.declared.name}'"
        message = f"Attribute '{name}' of step '{step.node.name}' is not declared by {what}"
        report(UNDECLARED_ATTRIBUTE, message, reference, hint)


def _check_fields(report: Report, reference: ast.Reference, type_: Type, names: list[str]) -> None:
    for name in names:
        if isinstance(type_, Declared) and name not in type_.params:
            message = f"Schema '{type_.qualified}' has no field '{name}'"
            report(UNDECLARED_ATTRIBUTE, message, reference, suggest(name, type_.params))
            return
        type_ = field_type(report.names, type_, name)


RULE = Rule("attributes", (STEP_ATTRIBUTE, UNDECLARED_ATTRIBUTE), reference=check)
