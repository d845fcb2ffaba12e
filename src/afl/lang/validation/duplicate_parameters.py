"""A declaration has one parameter and one return of a name."""

from afl.lang import ast
from afl.lang.codes import DUPLICATE_PARAMETER
from afl.lang.names import Declared
from afl.lang.validation.repeated import repeated
from afl.lang.validation.rule import Report, Rule


def check(report: Report, declared: Declared) -> None:
    assert not isinstance(declared.node, ast.SchemaDecl)
    sig = declared.node.sig
    for param in repeated(sig.params):
        report(DUPLICATE_PARAMETER, f"Duplicate parameter name '{param.name}'", param)
    for param in repeated(sig.returns.params if sig.returns else ()):
        report(DUPLICATE_PARAMETER, f"Duplicate return name '{param.name}'", param)


RULE = Rule("duplicate parameters", (DUPLICATE_PARAMETER,), declaration=check)
