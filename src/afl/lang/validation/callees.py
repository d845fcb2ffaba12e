"""What is called is declared, and the name says which declaration is meant."""

from afl.lang.codes import AMBIGUOUS_FACET, AMBIGUOUS_SCHEMA, UNDECLARED_FACET, UNKNOWN_FACET
from afl.lang.diagnostics import suggest
from afl.lang.names import Declared
from afl.lang.scopes import Scope
from afl.lang.validation.rule import Callee, Report, Rule


def check(report: Report, call: Callee, declared: Declared | None, scope: Scope) -> None:
    if declared is not None:
        return
    name = call.name
    resolution = report.names.resolve(scope.namespace, name)
    hint = suggest(name, report.names.similar_to(name))
    if resolution.is_ambiguous:
        options = ", ".join(sorted(each.qualified for each in resolution.candidates))
        only_schemas = all(each.is_schema for each in resolution.candidates)
        what, code = ("schema", AMBIGUOUS_SCHEMA) if only_schemas else ("facet", AMBIGUOUS_FACET)
        message = f"Ambiguous {what} reference '{name}': it could be {options}"
        report(code, message, call, "write the qualified name")
    elif "." in name:
        report(UNKNOWN_FACET, f"Unknown facet '{name}'", call, hint)
    else:
        report(UNDECLARED_FACET, f"Facet '{name}' is not declared", call, hint)


RULE = Rule(
    "callees",
    (AMBIGUOUS_FACET, AMBIGUOUS_SCHEMA, UNKNOWN_FACET, UNDECLARED_FACET),
    call=check,
    mixin=check,
)
