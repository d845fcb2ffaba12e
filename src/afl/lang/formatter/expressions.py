"""The parts of expressions, types and argument lists: one node at a time, children left as nodes.

Parentheses are written where the tree needs them and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from afl.lang import ast
from afl.lang.formatter import spelling
from afl.lang.formatter.parts import Break, Open, Part, Pieces, Sign, Word, listing
from afl.lang.formatter.source import Places

_OR, _AND, _COMPARISON, _CONCAT, _SUM, _PRODUCT, _UNARY, _POSTFIX = range(1, 9)
#: The others compare.
_BINDING = {"||": _OR, "&&": _AND, "+": _SUM, "-": _SUM} | dict.fromkeys("*/%", _PRODUCT)


class Expressions:
    """Takes nodes apart. `table` says which method knows which node."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.table: dict[type, Callable[[Any], Pieces]] = {
            ast.TypeRef: self.type_ref,
            ast.ArrayType: self.array_type,
            ast.Literal: self.literal,
            ast.Reference: self.reference,
            ast.ConcatExpr: self.concat,
            ast.BinaryExpr: self.binary,
            ast.UnaryExpr: self.unary,
            ast.ArrayLiteral: self.array,
            ast.MapLiteral: self.map,
            ast.MapEntry: self.entry,
            ast.IndexExpr: self.index,
            ast.NamedArg: self.argument,
        }

    def word(self, text: str, node: ast.ASTNode) -> Word:
        """`text` as the first token of `node`."""
        return Word(text, self.places.start(node))

    def closer(self, text: str, node: ast.ASTNode) -> Word:
        """`text` as the last token of `node`."""
        return Word(text, self.places.last(node))

    # Types

    def type_ref(self, node: ast.TypeRef) -> Pieces:
        return [self.word(node.name, node)]

    def array_type(self, node: ast.ArrayType) -> Pieces:
        return [self.word("[", node), node.element_type, self.closer("]", node)]

    # Atoms

    def literal(self, node: ast.Literal) -> Pieces:
        # As spelled by its author, like every formatter does: `\n` and a line end, 1.50 and 1.5
        # say the same but were chosen.
        return [self.word(self.places.text(node) or spelling.literal(node), node)]

    def reference(self, node: ast.Reference) -> Pieces:
        return [self.word(".".join(["$", *node.path] if node.is_input else node.path), node)]

    def array(self, node: ast.ArrayLiteral) -> Pieces:
        return listing("[", [[each] for each in node.elements], self.closer("]", node))

    def map(self, node: ast.MapLiteral) -> Pieces:
        return listing("#{", [[each] for each in node.entries], self.closer("}", node))

    def entry(self, node: ast.MapEntry) -> Pieces:
        return [self.word(spelling.key(node.key), node), ": ", node.value]

    # Operators

    def concat(self, node: ast.ConcatExpr) -> Pieces:
        first, *rest = (_operand(each, _SUM) for each in node.operands)
        return _chain(first, [(" ++", each) for each in rest])

    def binary(self, node: ast.BinaryExpr) -> Pieces:
        binding = _binding(node)
        if binding == _COMPARISON:
            right = _operand(node.right, _CONCAT)
            return _chain(_operand(node.left, _CONCAT), [(f" {node.operator}", right)])
        # `a + b - c` is one chain, though the tree holds it as a pair in a pair.
        links: list[tuple[str, Pieces]] = []
        left: Any = node
        while isinstance(left, ast.BinaryExpr) and _binding(left) == binding:
            links.append((f" {left.operator}", _operand(left.right, binding + 1)))
            left = left.left
        return _chain(_operand(left, binding), links[::-1])

    def unary(self, node: ast.UnaryExpr) -> Pieces:
        inner = node.operand
        repeated = isinstance(inner, ast.UnaryExpr) and inner.operator == node.operator == "-"
        sign = self.word(node.operator, node)
        return [sign, *([" "] if repeated else []), *_operand(inner, _UNARY)]

    def index(self, node: ast.IndexExpr) -> Pieces:
        target = _operand(node.target, _POSTFIX)
        if self._is_member(node):
            assert isinstance(node.index, ast.Literal)
            return [*target, ".", self.word(str(node.index.value), node.index)]
        return [*target, "[", node.index, self.closer("]", node)]

    def _is_member(self, node: ast.IndexExpr) -> bool:
        """Whether `xs[0]["name"]` is written `xs[0].name`: if it can be, and its author did."""
        name = node.index
        if not isinstance(node.target, ast.IndexExpr) or not isinstance(name, ast.Literal):
            return False
        spelled = self.places.text(name)
        return (
            name.kind == "string"
            and spelling.is_name(str(name.value))
            and (spelled is None or not spelled.startswith('"'))
        )

    # Arguments

    def argument(self, node: ast.NamedArg) -> Pieces:
        return [self.word(node.name, node), " = ", node.value]

    def arguments(self, args: Sequence[ast.NamedArg], closer: Part) -> Pieces:
        return listing("(", [[each] for each in args], closer)


def _binding(node: Any) -> int:
    """How tightly an expression holds together; atoms most of all."""
    if isinstance(node, ast.BinaryExpr):
        return _BINDING.get(node.operator, _COMPARISON)
    if isinstance(node, ast.ConcatExpr):
        return _CONCAT
    return _UNARY if isinstance(node, ast.UnaryExpr) else _POSTFIX


def _operand(node: ast.Expr, at_least: int) -> Pieces:
    return [node] if _binding(node) >= at_least else ["(", node, ")"]


def _chain(first: Pieces, links: list[tuple[str, Pieces]]) -> Pieces:
    """Operands and the operators before them; broken after each operator or nowhere."""
    pieces: Pieces = [Open(), *first]
    for operator, operand in links:
        # `not in` is two tokens.
        pieces += [f" {word}" for word in operator.split()]
        pieces += [Break(), *operand]
    return [*pieces, Sign.CLOSE]
