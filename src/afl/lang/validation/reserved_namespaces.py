"""The namespaces of the language cannot be declared again."""

from afl.lang import ast
from afl.lang.codes import RESERVED_NAMESPACE
from afl.lang.names import reserved_namespaces
from afl.lang.validation.rule import Report, Rule


def check(report: Report, name: str, scope: ast.Program | ast.Namespace) -> None:
    root = name.partition(".")[0]
    if root in reserved_namespaces():
        message = f"Namespace '{name}' belongs to the language"
        report(RESERVED_NAMESPACE, message, scope, "choose another name")


RULE = Rule("reserved namespaces", (RESERVED_NAMESPACE,), scope=check)
