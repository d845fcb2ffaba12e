"""The parts of a whole tree, in the order in which they are printed.

`parts_of` works with a stack of its own: each node says what it is made of, and the loop takes
its children apart in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from afl.lang import ast
from afl.lang.formatter import spelling
from afl.lang.formatter.parts import (
    Begin,
    Break,
    Kind,
    Note,
    Open,
    Part,
    Pieces,
    Sign,
    Word,
    braces,
    listing,
)
from afl.lang.formatter.source import Places, Source
from afl.lang.formatter.statements import Statements, clauses, some

_KEYWORDS = {
    ast.FacetDecl: "facet",
    ast.EventFacetDecl: "event",
    ast.WorkflowDecl: "workflow",
    ast.ImplicitDecl: "implicit",
    ast.SchemaDecl: "schema",
    ast.Namespace: "namespace",
}


def parts_of(tree: ast.Program, source: Source | None = None) -> list[Part]:
    """Everything there is to print, from the top of the file to its end."""
    table = Declarations(Places(source)).table
    parts: list[Part] = []
    pending: Pieces = [tree]
    while pending:
        piece = pending.pop()
        if isinstance(piece, ast.ASTNode):
            pending.extend(reversed(table[type(piece)](piece)))
        else:
            parts.append(piece)
    return parts


class Declarations(Statements):
    """Declarations, namespaces and the program."""

    def __init__(self, places: Places) -> None:
        super().__init__(places)
        self.table |= {
            ast.Program: self.program,
            ast.Namespace: self.namespace,
            ast.UsesDecl: self.uses,
            ast.FacetDecl: self.callable,
            ast.EventFacetDecl: self.callable,
            ast.WorkflowDecl: self.callable,
            ast.ImplicitDecl: self.implicit,
            ast.SchemaDecl: self.schema,
            ast.SchemaField: self.schema_field,
            ast.Parameter: self.parameter,
        }

    def program(self, node: ast.Program) -> Pieces:
        members = _in_order(
            [
                node.schemas,
                node.implicits,
                node.facets,
                node.event_facets,
                node.workflows,
                node.namespaces,
            ]
        )
        pieces = self._lines(members[:-1])
        for last in members[-1:]:
            if isinstance(last, ast.Namespace) and last.file_scoped:
                pieces += self._file_scope(last, first=not pieces)
            else:
                pieces += self._line(last, first=not pieces)
        end = None if self.places.source is None else len(self.places.source.text)
        return [*pieces, Break(Kind.HARD, outer=True, first=not pieces), Word("", end)]

    def _lines(self, members: Sequence[ast.ASTNode]) -> Pieces:
        pieces: Pieces = []
        for member in members:
            pieces += self._line(member, first=not pieces)
        return pieces

    def _line(self, node: ast.ASTNode, first: bool) -> Pieces:
        begin = Begin(tall=isinstance(node, ast.Namespace))
        return [self._separator(node, first), begin, node, Sign.END]

    def _separator(self, node: ast.ASTNode, first: bool) -> Break:
        """The line end before a declaration. Without a source, docs come from the tree."""
        separator = Break(Kind.HARD, first=first, between=not first)
        doc: ast.DocComment | None = getattr(node, "doc", None)
        if doc is not None and self.places.source is None:
            separator.notes.append(Note(spelling.doc(doc)))
        return separator

    # Namespaces

    def namespace(self, node: ast.Namespace) -> Pieces:
        members = self._lines(_members(node))
        close: Pieces = [Break(Kind.HARD, outer=True), Sign.DEDENT, self.closer("}", node)]
        if not members:
            return [*self._keyword(node), " ", node.name, " ", *braces("{", [], close[-1])]
        return [*self._keyword(node), " ", node.name, " {", Sign.INDENT, *members, *close]

    def _file_scope(self, node: ast.Namespace, first: bool) -> Pieces:
        """A namespace without braces: its members stand beside it."""
        head = [self._separator(node, first), Begin(tall=True)]
        head += [*self._keyword(node), " ", node.name, Sign.END]
        for member in _members(node):
            head += self._line(member, first=False)
        return head

    def uses(self, node: ast.UsesDecl) -> Pieces:
        return [self.word("use", node), " ", node.name]

    # Declarations

    def _keyword(self, node: ast.ASTNode) -> Pieces:
        return [Word(_KEYWORDS[type(node)], self.places.start(node), declares=True)]

    def callable(self, node: ast.CallableDecl) -> Pieces:
        keyword = self._keyword(node)
        if isinstance(node, ast.EventFacetDecl):
            keyword.append(" facet")
        return [*keyword, " ", *self._signature(node.sig), *clauses(self._tail(node))]

    def _signature(self, node: ast.FacetSig) -> Pieces:
        """Name, parameters, returns. If they do not fit one line the parameters break first."""
        bare = node.returns is None and not node.mixins
        closer = self.closer(")", node) if bare else ")"
        params = listing("(", [[each] for each in node.params], closer)
        if len(params) > 2:
            params[1] = Open(follows=True)
        pieces: Pieces = [self.word(node.name, node), Open(indent=0), *params]
        if node.returns is not None:
            returns: list[Pieces] = [[each] for each in node.returns.params]
            pieces += [" => ", *listing("(", returns, self.closer(")", node.returns))]
        return [*pieces, Sign.CLOSE]

    def _tail(self, node: ast.CallableDecl) -> Pieces:
        """What follows a signature: mixins, then prompt or script, then blocks, then catch."""
        head: Any = node.pre_script
        if isinstance(node.body, ast.PromptBlock | ast.ScriptBlock):
            head = node.body
        return [*node.sig.mixins, *some(head), *node.bodies, *some(node.catch)]

    def parameter(self, node: ast.Parameter) -> Pieces:
        pieces: Pieces = [self.word(node.name, node), ": ", node.type]
        return pieces if node.default is None else [*pieces, " = ", node.default]

    def implicit(self, node: ast.ImplicitDecl) -> Pieces:
        return [*self._keyword(node), " ", node.name, " = ", node.call]

    def schema(self, node: ast.SchemaDecl) -> Pieces:
        head = [*self._keyword(node), " ", node.name, " "]
        closer = self.closer("}", node)
        if not node.fields:
            return [*head, *braces("{", [], closer)]
        return [*head, *listing("{", [[each] for each in node.fields], closer, pad=" ")]

    def schema_field(self, node: ast.SchemaField) -> Pieces:
        return [self.word(node.name, node), ": ", node.type]


def _members(node: ast.Namespace) -> list[Any]:
    return _in_order(
        [
            node.uses,
            node.schemas,
            node.implicits,
            node.facets,
            node.event_facets,
            node.workflows,
        ]
    )


def _in_order(kinds: Sequence[Sequence[ast.ASTNode]]) -> list[Any]:
    """Members in source order; by kind if there is no such order.

    Merged and hand-made trees may hold members whose places contradict the order of their list,
    which has a meaning of its own.
    """
    members = [each for kind in kinds for each in kind]
    places = [each.location for each in members if each.location is not None]
    if len(places) < len(members) or len({place.source_id for place in places}) > 1:
        return members
    orders = [[_place(each) for each in kind] for kind in kinds]
    if any(order != sorted(order) for order in orders):
        return members
    return sorted(members, key=_place)


def _place(node: ast.ASTNode) -> tuple[int, int]:
    assert node.location is not None
    return node.location[:2]
