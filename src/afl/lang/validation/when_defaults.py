"""A `when` ends with one `case _`, so that it always has an answer."""

from afl.lang import ast
from afl.lang.codes import WHEN_DEFAULT
from afl.lang.validation.rule import Report, Rule


def check(report: Report, when: ast.WhenBlock) -> None:
    defaults = [index for index, case in enumerate(when.cases) if case.condition is None]
    if not defaults:
        hint = "add `case _ => { }` at the end"
        report(WHEN_DEFAULT, "This 'when' has no default case", when, hint)
    for index in defaults:
        if index != len(when.cases) - 1:
            message = "The default case must be the last one, and the only one"
            report(WHEN_DEFAULT, message, when.cases[index])


RULE = Rule("when defaults", (WHEN_DEFAULT,), when=check)
