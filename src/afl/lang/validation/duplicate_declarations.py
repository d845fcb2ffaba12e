"""A name is declared once in its namespace, whatever it is the name of."""

from afl.lang import ast
from afl.lang.ast import SourceLocation
from afl.lang.codes import DUPLICATE_DECLARATION
from afl.lang.diagnostics import display_name
from afl.lang.names import Declared, scopes
from afl.lang.validation.rule import Report, Rule


def check(report: Report) -> None:
    first: dict[tuple[str, str, bool], ast.ASTNode] = {}
    everything = [
        (namespace, node)
        for namespace, scope in scopes(report.names.program)
        for node in scope.declarations
    ]
    for namespace, node in sorted(everything, key=_reading_order):
        # Implicits are never called, so they do not compete with facets for a name.
        key = (namespace, node.name, isinstance(node, ast.ImplicitDecl))
        earlier = first.setdefault(key, node)
        if earlier is not node:
            kind = _kind(namespace, node)
            message = f"Duplicate {kind} name '{node.name}'{_previously(node, earlier)}"
            report(DUPLICATE_DECLARATION, message, node)


def _reading_order(item: tuple[str, ast.Declaration]) -> tuple[str, int, int]:
    """The tree keeps declarations by kind; people read them by place."""
    place = item[1].location or SourceLocation(0, 0)
    return (place.source_id or "", place.line, place.column)


def _kind(namespace: str, node: ast.Declaration) -> str:
    return "implicit" if isinstance(node, ast.ImplicitDecl) else Declared(namespace, node).kind


def _previously(node: ast.ASTNode, earlier: ast.ASTNode) -> str:
    if earlier.location is None:
        return ""
    where = f"at line {earlier.location.line}"
    if node.location is not None and node.location.source_id != earlier.location.source_id:
        where += f" of {display_name(earlier.location.source_id)}"
    return f" (previously defined {where})"


RULE = Rule("duplicate declarations", (DUPLICATE_DECLARATION,), program=check)
