"""A `use` names a namespace that exists."""

from afl.lang import ast
from afl.lang.codes import UNKNOWN_NAMESPACE
from afl.lang.diagnostics import suggest
from afl.lang.validation.rule import Report, Rule


def check(report: Report, name: str, scope: ast.Program | ast.Namespace) -> None:
    known = [each for each in report.names.namespaces() if each != name]
    for each in scope.uses if isinstance(scope, ast.Namespace) else ():
        if each.name not in report.names.uses:
            message = f"Invalid use statement: namespace '{each.name}' does not exist"
            hint = suggest(each.name, known) or "add the file or `--library` that declares it"
            report(UNKNOWN_NAMESPACE, message, each, hint)


RULE = Rule("uses", (UNKNOWN_NAMESPACE,), scope=check)
