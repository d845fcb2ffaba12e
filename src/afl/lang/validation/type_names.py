"""A type is built in or a schema that can be found."""

from afl.lang import ast
from afl.lang.codes import AMBIGUOUS_SCHEMA, UNKNOWN_TYPE
from afl.lang.diagnostics import suggest
from afl.lang.names import similar
from afl.lang.types import BUILTINS
from afl.lang.validation.rule import Report, Rule


def check(report: Report, namespace: str, node: ast.TypeRef) -> None:
    name = node.name
    if name in BUILTINS:
        return
    resolution = report.names.resolve_schema(namespace, name)
    if resolution.declared is not None:
        return
    if resolution.is_ambiguous:
        options = ", ".join(sorted(each.qualified for each in resolution.candidates))
        message = f"Ambiguous schema reference '{name}': it could be {options}"
        report(AMBIGUOUS_SCHEMA, message, node, "write the qualified name")
        return
    schemas = [each for each in report.names.all() if each.is_schema]
    known = similar(name, schemas) if "." in name else [each.name for each in schemas]
    hint = suggest(name, [*known, *BUILTINS])
    if "." in name:
        report(UNKNOWN_TYPE, f"Unknown schema '{name}'", node, hint)
    else:
        message = f"Unknown type '{name}': it is neither built in nor a schema"
        report(UNKNOWN_TYPE, message, node, hint)


RULE = Rule("type names", (UNKNOWN_TYPE, AMBIGUOUS_SCHEMA), type=check)
