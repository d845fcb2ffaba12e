"""Compiled JSON back to a syntax tree: the inverse of emitter.py.

Reads both key styles: declarations under their kinds, or, where those are absent, all together
under `declarations`. Ids are not read, because they follow from the structure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from afl.errors import UsageError
from afl.lang import ast
from afl.lang.ast import FrozenList, SourceLocation, frozen
from afl.lang.limits import MAX_DEPTH

Json = Mapping[str, Any]


class CompiledFormatError(UsageError):
    """The given data is not a compiled AFL program. Compile the text again."""


def decode_program(data: Json) -> ast.Program:
    """The tree that `data` was made from. Raises CompiledFormatError if it is something else."""
    if not isinstance(data, Mapping) or data.get("type") != "Program":
        raise CompiledFormatError("compiled AFL is a JSON object with type 'Program'")
    try:
        return _Decoder(data).program(data)
    except RecursionError:
        raise CompiledFormatError("compiled AFL is nested too deeply") from None
    except KeyError as problem:
        raise CompiledFormatError(f"compiled AFL is malformed: no key {problem}") from problem
    except (TypeError, AttributeError, ValueError) as problem:
        raise CompiledFormatError(f"compiled AFL is malformed: {problem}") from problem


def _text(data: Json, key: str) -> str:
    value = data[key]
    if not isinstance(value, str):
        raise ValueError(f"'{key}' must be text, not {value!r}")
    return value


# Declarations

_KEYS = {
    "facets": "FacetDecl",
    "eventFacets": "EventFacetDecl",
    "workflows": "WorkflowDecl",
    "implicits": "ImplicitDecl",
    "schemas": "SchemaDecl",
}


def _members(data: Json, key: str, type_name: str) -> list[Json]:
    if key in data:
        return list(data[key])
    if any(each in data for each in (*_KEYS, "namespaces")):
        return []
    return [each for each in data.get("declarations", ()) if each["type"] == type_name]


def _parameter(data: Json) -> ast.Parameter:
    default = data.get("default")
    return ast.Parameter(
        _text(data, "name"), _type(data["type"]), None if default is None else _expr(default)
    )


def _type(data: str | Json) -> ast.TypeExpr:
    if isinstance(data, str):
        return ast.TypeRef(data)
    return ast.ArrayType(_type(data["elementType"]))


def _schema(data: Json) -> ast.SchemaDecl:
    fields = [ast.SchemaField(_text(each, "name"), _type(each["type"])) for each in data["fields"]]
    return ast.SchemaDecl(
        _text(data, "name"), frozen(fields), doc=_doc(data), location=_location(data)
    )


def _implicit(data: Json) -> ast.ImplicitDecl:
    return ast.ImplicitDecl(
        _text(data, "name"), _call(data["call"]), doc=_doc(data), location=_location(data)
    )


def _doc(data: Json) -> ast.DocComment | None:
    doc = data.get("doc")
    if doc is None:
        return None

    def entries(key: str) -> FrozenList[ast.DocEntry]:
        return frozen(
            [ast.DocEntry(_text(each, "name"), _text(each, "description")) for each in doc[key]]
        )

    return ast.DocComment(doc["description"], entries("params"), entries("returns"))


# Bodies


_NESTING_KEYS = (
    *("namespaces", "facets", "eventFacets", "workflows", "declarations"),
    *("body", "catch", "when", "cases", "steps"),
)


def _step_data(data: Json) -> Iterator[Json]:
    """Every step of the program, outer ones before inner ones."""
    pending: list[Any] = [data]
    while pending:
        current = pending.pop()
        if isinstance(current, list):
            pending.extend(current)
        elif isinstance(current, Mapping):
            if current.get("type") == "StepStmt":
                yield current
            pending.extend(current[key] for key in _NESTING_KEYS if key in current)


def _script(data: Json) -> ast.ScriptBlock:
    return ast.ScriptBlock(_text(data, "language"), _text(data, "code"), location=_location(data))


class _Decoder:
    """Decodes what can nest without end. Steps are decoded innermost first and looked up by
    their enclosing block, so that depth costs no stack."""

    def __init__(self, data: Json) -> None:
        self._steps: dict[int, ast.StepStmt] = {}
        for step in reversed(list(_step_data(data))):
            self._steps[id(step)] = self._step(step)

    def _declarations(self, data: Json) -> dict[str, Any]:
        found = {key: _members(data, key, type_name) for key, type_name in _KEYS.items()}
        return {
            "facets": frozen([self._callable(ast.FacetDecl, each) for each in found["facets"]]),
            "event_facets": frozen(
                [self._callable(ast.EventFacetDecl, each) for each in found["eventFacets"]]
            ),
            "workflows": frozen(
                [self._callable(ast.WorkflowDecl, each) for each in found["workflows"]]
            ),
            "implicits": frozen([_implicit(each) for each in found["implicits"]]),
            "schemas": frozen([_schema(each) for each in found["schemas"]]),
        }

    def program(self, data: Json) -> ast.Program:
        namespaces = [self._namespace(each) for each in _members(data, "namespaces", "Namespace")]
        return ast.Program(frozen(namespaces), **self._declarations(data), location=_location(data))

    def _namespace(self, data: Json) -> ast.Namespace:
        return ast.Namespace(
            _text(data, "name"),
            frozen([ast.UsesDecl(each) for each in data.get("uses", ())]),
            **self._declarations(data),
            doc=_doc(data),
            location=_location(data),
        )

    def _callable(self, kind: type[Any], data: Json) -> Any:
        returns = data.get("returns")
        sig = ast.FacetSig(
            _text(data, "name"),
            frozen([_parameter(each) for each in data.get("params", ())]),
            ast.ReturnClause(frozen([_parameter(each) for each in returns])) if returns else None,
            frozen([_mixin(ast.MixinSig, each) for each in data.get("mixins", ())]),
            location=_location(data),
        )
        pre_script = data.get("preScript")
        return kind(
            sig,
            self._body(data.get("body")),
            pre_script=_script(pre_script) if pre_script else None,
            catch=self._catch(data.get("catch")),
            doc=_doc(data),
            location=_location(data),
        )

    def _body(self, data: Any) -> ast.Body:
        if data is None:
            return None
        if isinstance(data, list):
            return FrozenList([self._and_then(each) for each in data])
        if data["type"] == "PromptBlock":
            texts = {key: data.get(key) for key in ("system", "template", "model")}
            return ast.PromptBlock(**texts, location=_location(data))
        return _script(data) if data["type"] == "ScriptBlock" else self._and_then(data)

    def _and_then(self, data: Json) -> ast.AndThenBlock:
        foreach, when, script = data.get("foreach"), data.get("when"), data.get("script")
        return ast.AndThenBlock(
            self._block(data),
            ast.ForeachClause(_text(foreach, "variable"), _expr(foreach["iterable"]))
            if foreach
            else None,
            self._when(when) if when else None,
            _script(script) if script else None,
            location=_location(data),
        )

    def _catch(self, data: Json | None) -> ast.CatchClause | None:
        if data is None:
            return None
        when = data.get("when")
        return ast.CatchClause(
            self._block(data), self._when(when) if when else None, location=_location(data)
        )

    def _when(self, data: Json) -> ast.WhenBlock:
        return ast.WhenBlock(
            frozen([self._case(each) for each in data["cases"]]), location=_location(data)
        )

    def _case(self, data: Json) -> ast.WhenCase:
        condition = None if data.get("default") else _expr(data["condition"])
        return ast.WhenCase(condition, self._block(data), location=_location(data))

    def _block(self, data: Json) -> ast.Block:
        yields = [data["yield"]] if "yield" in data else data.get("yields", ())
        return ast.Block(
            frozen([self._known_step(each) for each in data.get("steps", ())]),
            frozen(
                [ast.YieldStmt(_call(each["call"]), location=_location(each)) for each in yields]
            ),
            location=_location(data),
        )

    def _known_step(self, data: Json) -> ast.StepStmt:
        found = self._steps.get(id(data))
        if found is None:
            raise ValueError(f"a step must be a StepStmt, not {data!r}")
        return found

    def _step(self, data: Json) -> ast.StepStmt:
        body = self._body(data.get("body"))
        if isinstance(body, ast.PromptBlock | ast.ScriptBlock):
            raise ValueError(f"step '{data['name']}' has a body that steps cannot have")
        return ast.StepStmt(
            _text(data, "name"),
            _call(data["call"]),
            body,
            catch=self._catch(data.get("catch")),
            location=_location(data),
        )


# Calls


def _call(data: Json) -> ast.CallExpr:
    return ast.CallExpr(
        _text(data, "target"),
        _args(data),
        frozen([_mixin(ast.MixinCall, each) for each in data.get("mixins", ())]),
        location=_location(data),
    )


def _mixin(kind: type[Any], data: Json) -> Any:
    return kind(_text(data, "target"), _args(data), data.get("alias"))


def _args(data: Json) -> FrozenList[ast.NamedArg]:
    return frozen(
        [ast.NamedArg(_text(each, "name"), _expr(each["value"])) for each in data.get("args", ())]
    )


# Expressions


def _expr(data: Json, depth: int = 0) -> ast.Expr:
    if depth > MAX_DEPTH:
        raise RecursionError
    return _EXPRESSIONS[data["type"]](data, depth + 1)


def _literal(kind: str, type_: type[Any]) -> Callable[[Json, int], ast.Expr]:
    def decode(data: Json, _depth: int) -> ast.Expr:
        value: Any = data.get("value")
        # Exactly: to Python, true is an int as well.
        if type(value) is type_:
            return ast.Literal(value, kind)
        raise ValueError(f"the value of a literal of type {data['type']} cannot be {value!r}")

    return decode


def _double(data: Json, _depth: int) -> ast.Expr:
    # JSON writers may spell 2.0 as 2.
    return ast.Literal(float(data["value"]), "double")


# No helper in between: at most three frames per level, or deep programs cost too much stack.
_EXPRESSIONS: dict[str, Callable[[Json, int], ast.Expr]] = {
    "String": _literal("string", str),
    "Int": _literal("integer", int),
    "Double": _double,
    "Boolean": _literal("boolean", bool),
    "Null": _literal("null", type(None)),
    "InputRef": lambda data, _: ast.Reference(FrozenList(data["path"]), True),
    "StepRef": lambda data, _: ast.Reference(FrozenList(data["path"]), False),
    "ConcatExpr": lambda data, depth: ast.ConcatExpr(
        frozen([_expr(each, depth) for each in data["operands"]])
    ),
    "BinaryExpr": lambda data, depth: ast.BinaryExpr(
        _text(data, "operator"), _expr(data["left"], depth), _expr(data["right"], depth)
    ),
    "UnaryExpr": lambda data, depth: ast.UnaryExpr(
        _text(data, "operator"), _expr(data["operand"], depth)
    ),
    "ArrayLiteral": lambda data, depth: ast.ArrayLiteral(
        frozen([_expr(each, depth) for each in data["elements"]])
    ),
    "MapLiteral": lambda data, depth: ast.MapLiteral(
        frozen(
            [
                ast.MapEntry(_text(each, "key"), _expr(each["value"], depth))
                for each in data["entries"]
            ]
        )
    ),
    "IndexExpr": lambda data, depth: ast.IndexExpr(
        _expr(data["target"], depth), _expr(data["index"], depth)
    ),
}


def _location(data: Json) -> SourceLocation | None:
    place = data.get("location")
    if place is None:
        return None
    return SourceLocation(
        place["line"],
        place["column"],
        place.get("endLine"),
        place.get("endColumn"),
        place.get("sourceId"),
    )
