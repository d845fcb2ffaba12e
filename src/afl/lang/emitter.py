"""Syntax tree to compiled JSON.

The shape is a public contract. Declarations appear under their kind (`facets`, `workflows`, …)
and again, all together, under `declarations`, because readers of both styles exist. Absent and
empty parts are left out.

Ids are made from the path of a node (`namespace:shop/workflow:Buy/andThen:0/step:pay`), so the
same text has the same ids wherever and whenever it is compiled, and an edit changes only the ids
below the names it touches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from afl.lang import ast, paths

if TYPE_CHECKING:
    from afl.lang.sources import SourceRegistry

Json = dict[str, Any]

_LITERAL_TYPES = {
    "string": "String",
    "integer": "Int",
    "double": "Double",
    "boolean": "Boolean",
}


class JSONEmitter:
    """Writes one program at a time; options say what to add to the bare structure."""

    def __init__(
        self,
        include_locations: bool = True,
        include_provenance: bool = False,
        source_registry: SourceRegistry | None = None,
        indent: int | None = 2,
    ) -> None:
        self._locations = include_locations
        self._provenance = include_provenance
        self._registry = source_registry
        self._indent = indent
        # Steps whose dicts are made but not filled: bodies are not entered by recursion, so that
        # deep nesting costs no stack.
        self._pending: list[Callable[[], None]] = []
        #: How often a path was given out. A namespace may be open in several places and files:
        #: its parts count as one, so that a new file moves no id of the others.
        self._given: Counter[str] = Counter()

    def emit(self, node: ast.ASTNode) -> str:
        """The node as JSON text."""
        text = msgspec.json.encode(self.emit_dict(node))
        if self._indent:
            text = msgspec.json.format(text, indent=self._indent)
        return text.decode("utf-8")

    def emit_dict(self, node: ast.ASTNode) -> Json:
        """The node as plain dicts and lists. Raises ValueError for a node that has no JSON."""
        self._given.clear()
        result = self._node(node, "")
        while self._pending:
            self._pending.pop()()
        return result

    def _node(self, node: ast.ASTNode, path: str) -> Json:
        emit = self._EMITTERS.get(type(node))
        if emit is None:
            raise ValueError(f"Unknown node type: {type(node).__name__}")
        return emit(self, node, path)

    # Identity and place

    def _head(self, node: ast.ASTNode, path: str) -> Json:
        return {"type": type(node).__name__, "id": paths.node_id(path)}

    def _placed(self, result: Json, node: ast.ASTNode) -> Json:
        """Add the location, which comes last."""
        place = node.location
        if not self._locations or place is None:
            return result
        location: Json = {"line": place.line, "column": place.column}
        if place.end_line is not None:
            location["endLine"] = place.end_line
        if place.end_column is not None:
            location["endColumn"] = place.end_column
        if place.source_id is not None:
            location["sourceId"] = place.source_id
            provenance = self._provenance_of(place.source_id)
            if provenance:
                location["provenance"] = provenance
        result["location"] = location
        return result

    def _provenance_of(self, source_id: str) -> Json | None:
        if not self._provenance or self._registry is None:
            return None
        entry = self._registry.get(source_id)
        return entry.origin.to_provenance() if entry else None

    # Declarations

    def _program(self, node: ast.Program, path: str) -> Json:
        result = self._head(node, path)
        namespaces = self._named(node.namespaces, path)
        self._add_declarations(result, node, path, namespaces)
        return self._placed(result, node)

    def _namespace(self, node: ast.Namespace, path: str) -> Json:
        result = self._head(node, path)
        result["name"] = node.name
        if node.uses:
            result["uses"] = [each.name for each in node.uses]
        self._add_doc(result, node.doc)
        self._add_declarations(result, node, path.partition("#")[0], [])
        return self._placed(result, node)

    def _add_declarations(
        self, result: Json, node: ast.Program | ast.Namespace, path: str, namespaces: list[Json]
    ) -> None:
        kinds = {
            "namespaces": namespaces,
            "facets": self._named(node.facets, path),
            "eventFacets": self._named(node.event_facets, path),
            "workflows": self._named(node.workflows, path),
            "implicits": self._named(node.implicits, path),
            "schemas": self._named(node.schemas, path),
        }
        result.update({key: value for key, value in kinds.items() if value})
        together = [each for value in kinds.values() for each in value]
        if together:
            result["declarations"] = together

    def _named(self, nodes: Iterable[Any], path: str) -> list[Json]:
        return [self._node(node, at) for node, at in paths.named(nodes, path, self._given)]

    def _callable(self, node: ast.CallableDecl, path: str) -> Json:
        result = self._head(node, path)
        sig = node.sig
        result["name"] = sig.name
        if sig.params:
            result["params"] = [self._parameter(each, path) for each in sig.params]
        if sig.returns:
            result["returns"] = [self._parameter(each, path) for each in sig.returns.params]
        if sig.mixins:
            result["mixins"] = [self._node(each, path) for each in sig.mixins]
        self._add_doc(result, node.doc)
        if node.pre_script:
            result["preScript"] = self._node(node.pre_script, paths.pre_script(path))
        self._add_bodies(result, node.body, node.catch, path)
        return self._placed(result, node)

    def _parameter(self, node: ast.Parameter, path: str) -> Json:
        result: Json = {"name": node.name, "type": self._type(node.type)}
        if node.default is not None:
            result["default"] = self._node(node.default, path)
        return result

    def _type(self, node: ast.TypeExpr) -> str | Json:
        if isinstance(node, ast.ArrayType):
            return {"type": "ArrayType", "elementType": self._type(node.element_type)}
        return node.name

    def _schema(self, node: ast.SchemaDecl, path: str) -> Json:
        result = self._head(node, path)
        result["name"] = node.name
        self._add_doc(result, node.doc)
        result["fields"] = [
            {"name": each.name, "type": self._type(each.type)} for each in node.fields
        ]
        return self._placed(result, node)

    def _implicit(self, node: ast.ImplicitDecl, path: str) -> Json:
        result = self._head(node, path)
        result["name"] = node.name
        self._add_doc(result, node.doc)
        result["call"] = self._node(node.call, paths.call(path))
        return self._placed(result, node)

    def _add_doc(self, result: Json, doc: ast.DocComment | None) -> None:
        if doc is None:
            return
        result["doc"] = {
            "description": doc.description,
            "params": [{"name": each.name, "description": each.description} for each in doc.params],
            "returns": [
                {"name": each.name, "description": each.description} for each in doc.returns
            ],
        }

    # Bodies

    def _add_bodies(
        self, result: Json, body: ast.Body, catch: ast.CatchClause | None, path: str
    ) -> None:
        if isinstance(body, list):
            result["body"] = [
                self._node(each, paths.and_then(path, index)) for index, each in enumerate(body)
            ]
        elif isinstance(body, ast.AndThenBlock):
            result["body"] = self._node(body, paths.and_then(path, 0))
        elif body is not None:
            result["body"] = self._node(body, paths.body(path))
        if catch is not None:
            result["catch"] = self._node(catch, paths.catch(path))

    def _and_then(self, node: ast.AndThenBlock, path: str) -> Json:
        result = self._head(node, path)
        if node.foreach:
            result["foreach"] = {
                "type": "ForeachClause",
                "variable": node.foreach.variable,
                "iterable": self._node(node.foreach.iterable, path),
            }
        if node.when:
            result["when"] = self._node(node.when, paths.when(path))
        if node.script:
            result["script"] = self._node(node.script, paths.script(path))
        self._add_statements(result, node.block, path)
        return self._placed(result, node)

    def _when(self, node: ast.WhenBlock, path: str) -> Json:
        result = self._head(node, path)
        result["cases"] = [
            self._node(each, paths.case(path, index)) for index, each in enumerate(node.cases)
        ]
        return self._placed(result, node)

    def _case(self, node: ast.WhenCase, path: str) -> Json:
        result = self._head(node, path)
        if node.condition is None:
            result["default"] = True
        else:
            result["condition"] = self._node(node.condition, path)
        self._add_statements(result, node.block, path)
        return self._placed(result, node)

    def _catch(self, node: ast.CatchClause, path: str) -> Json:
        result = self._head(node, path)
        if node.when:
            result["when"] = self._node(node.when, paths.when(path))
        self._add_statements(result, node.block, path)
        return self._placed(result, node)

    def _add_statements(self, result: Json, block: ast.Block, path: str) -> None:
        if block.steps:
            result["steps"] = self._named(block.steps, path)
        yields = [
            self._node(each, paths.yield_(path, index))
            for index, each in enumerate(block.yield_stmts)
        ]
        if len(yields) == 1:
            result["yield"] = yields[0]
        elif yields:
            result["yields"] = yields

    def _step(self, node: ast.StepStmt, path: str) -> Json:
        result = self._head(node, path)
        result["name"] = node.name
        result["call"] = self._node(node.call, paths.call(path))
        if node.body is None and node.catch is None:
            return self._placed(result, node)

        def fill() -> None:
            self._add_bodies(result, node.body, node.catch, path)
            self._placed(result, node)

        self._pending.append(fill)
        return result

    def _yield(self, node: ast.YieldStmt, path: str) -> Json:
        result = self._head(node, path)
        result["call"] = self._node(node.call, paths.call(path))
        return self._placed(result, node)

    def _prompt(self, node: ast.PromptBlock, path: str) -> Json:
        result = self._head(node, path)
        for key in ("system", "template", "model"):
            value = getattr(node, key)
            if value is not None:
                result[key] = value
        return self._placed(result, node)

    def _script(self, node: ast.ScriptBlock, path: str) -> Json:
        result = self._head(node, path)
        result["language"] = node.language
        result["code"] = node.code
        return self._placed(result, node)

    # Calls

    def _call(self, node: ast.CallExpr, path: str) -> Json:
        result = self._head(node, path)
        result["target"] = node.name
        if node.args:
            result["args"] = self._args(node.args, path)
        if node.mixins:
            result["mixins"] = [self._node(each, path) for each in node.mixins]
        return self._placed(result, node)

    def _mixin(self, node: ast.MixinSig | ast.MixinCall, path: str) -> Json:
        result: Json = {"type": type(node).__name__, "target": node.name}
        if node.args:
            result["args"] = self._args(node.args, path)
        if node.alias is not None:
            result["alias"] = node.alias
        return result

    def _args(self, args: Iterable[ast.NamedArg], path: str) -> list[Json]:
        return [{"name": each.name, "value": self._node(each.value, path)} for each in args]

    # Expressions

    def _literal(self, node: ast.Literal, _path: str) -> Json:
        if node.kind == "null":
            return {"type": "Null"}
        return {"type": _LITERAL_TYPES[node.kind], "value": node.value}

    def _reference(self, node: ast.Reference, _path: str) -> Json:
        return {"type": "InputRef" if node.is_input else "StepRef", "path": list(node.path)}

    def _concat(self, node: ast.ConcatExpr, path: str) -> Json:
        return {
            "type": "ConcatExpr",
            "operands": [self._node(each, path) for each in node.operands],
        }

    def _binary(self, node: ast.BinaryExpr, path: str) -> Json:
        return {
            "type": "BinaryExpr",
            "operator": node.operator,
            "left": self._node(node.left, path),
            "right": self._node(node.right, path),
        }

    def _unary(self, node: ast.UnaryExpr, path: str) -> Json:
        return {
            "type": "UnaryExpr",
            "operator": node.operator,
            "operand": self._node(node.operand, path),
        }

    def _array(self, node: ast.ArrayLiteral, path: str) -> Json:
        return {
            "type": "ArrayLiteral",
            "elements": [self._node(each, path) for each in node.elements],
        }

    def _map(self, node: ast.MapLiteral, path: str) -> Json:
        entries = [
            {"key": each.key, "value": self._node(each.value, path)} for each in node.entries
        ]
        return {"type": "MapLiteral", "entries": entries}

    def _index(self, node: ast.IndexExpr, path: str) -> Json:
        return {
            "type": "IndexExpr",
            "target": self._node(node.target, path),
            "index": self._node(node.index, path),
        }

    _EMITTERS: ClassVar[dict[type, Callable[[JSONEmitter, Any, str], Json]]] = {
        ast.Program: _program,
        ast.Namespace: _namespace,
        ast.FacetDecl: _callable,
        ast.EventFacetDecl: _callable,
        ast.WorkflowDecl: _callable,
        ast.SchemaDecl: _schema,
        ast.ImplicitDecl: _implicit,
        ast.AndThenBlock: _and_then,
        ast.WhenBlock: _when,
        ast.WhenCase: _case,
        ast.CatchClause: _catch,
        ast.StepStmt: _step,
        ast.YieldStmt: _yield,
        ast.PromptBlock: _prompt,
        ast.ScriptBlock: _script,
        ast.CallExpr: _call,
        ast.MixinSig: _mixin,
        ast.MixinCall: _mixin,
        ast.Literal: _literal,
        ast.Reference: _reference,
        ast.ConcatExpr: _concat,
        ast.BinaryExpr: _binary,
        ast.UnaryExpr: _unary,
        ast.ArrayLiteral: _array,
        ast.MapLiteral: _map,
        ast.IndexExpr: _index,
    }


def emit_json(node: ast.ASTNode, include_locations: bool = True, indent: int | None = 2) -> str:
    """The node as JSON text."""
    return JSONEmitter(include_locations=include_locations, indent=indent).emit(node)


def emit_dict(node: ast.ASTNode, include_locations: bool = True) -> Json:
    """The node as plain dicts and lists."""
    return JSONEmitter(include_locations=include_locations).emit_dict(node)
