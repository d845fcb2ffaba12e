"""A schema has one field of a name."""

from afl.lang import ast
from afl.lang.codes import DUPLICATE_FIELD
from afl.lang.names import Declared
from afl.lang.validation.repeated import repeated
from afl.lang.validation.rule import Report, Rule


def check(report: Report, declared: Declared) -> None:
    assert isinstance(declared.node, ast.SchemaDecl)
    for field in repeated(declared.node.fields):
        report(DUPLICATE_FIELD, f"Duplicate schema field name '{field.name}'", field)


RULE = Rule("duplicate fields", (DUPLICATE_FIELD,), schema=check)
