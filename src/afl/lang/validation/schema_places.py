"""Schemas belong to a namespace, because types are shared by name."""

from afl.lang.codes import SCHEMA_PLACE
from afl.lang.names import Declared
from afl.lang.validation.rule import Report, Rule


def check(report: Report, declared: Declared) -> None:
    if not declared.namespace:
        message = f"Schema '{declared.name}' must be defined inside a namespace"
        report(SCHEMA_PLACE, message, declared.node)


RULE = Rule("schema places", (SCHEMA_PLACE,), schema=check)
