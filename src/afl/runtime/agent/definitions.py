"""Event facets as tools: a model that uses the tool of a facet gives the result of its step."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from afl.agents.model import ToolSpec
from afl.agents.shapes import Shape
from afl.agents.tools import TOOL_NAME
from afl.lang import ast
from afl.lang.names import Declared, Names
from afl.lang.program import Program
from afl.lang.types import ArrayOf, Type, declared_type

_SCHEMAS: dict[str, dict[str, Any]] = {
    "String": {"type": "string"},
    "Int": {"type": "integer"},
    "Long": {"type": "integer"},
    "Double": {"type": "number"},
    "Boolean": {"type": "boolean"},
    "Json": {},
}
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64


@dataclass(frozen=True)
class ToolDefinition:
    """A tool that ends a talk: its arguments are the result."""

    #: At most 64 letters, digits, `_` and `-`.
    name: str
    description: str
    #: JSON Schema of the result.
    input_schema: Mapping[str, Any]
    param_names: tuple[str, ...] = ()
    return_names: tuple[str, ...] = ()
    prompt_block: ast.PromptBlock | None = None
    #: Qualified name of the facet that it was made of.
    facet: str = ""

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, self.description, self.input_schema)

    @cached_property
    def shape(self) -> Shape:
        return Shape.of_schema(self.input_schema)


def tool_definitions(program: Program) -> dict[str, ToolDefinition]:
    """One for each event facet, by the qualified name of that."""
    return {
        name: _definition(program.names, declared)
        for name, declared in program.event_facets.items()
    }


def tool_name(facet: str) -> str:
    """The name of a facet as services take it. Two facets never share one."""
    # No part of a qualified name has a hyphen, so nothing else becomes the same.
    name = facet.replace(".", "-")
    if TOOL_NAME.fullmatch(name):
        return name
    digest = hashlib.sha256(facet.encode("utf-8")).hexdigest()[:12]
    return f"{_NOT_IN_NAMES.sub('_', name)[: _LONGEST_NAME - 13]}-{digest}"


def _definition(names: Names, declared: Declared) -> ToolDefinition:
    assert isinstance(declared.node, ast.EventFacetDecl)
    body = declared.node.body
    return ToolDefinition(
        name=tool_name(declared.qualified),
        description=_description(declared),
        input_schema=_result_schema(names, declared),
        param_names=tuple(declared.params),
        return_names=tuple(declared.returns),
        prompt_block=body if isinstance(body, ast.PromptBlock) else None,
        facet=declared.qualified,
    )


def _description(declared: Declared) -> str:
    doc = declared.node.doc
    lines = [f"Gives the result of {declared.qualified}."]
    if doc is not None and doc.description:
        lines.append(doc.description)
    if declared.params:
        lines.append(f"It is asked with: {', '.join(declared.params)}.")
    return "\n".join(lines)


def _result_schema(names: Names, declared: Declared) -> dict[str, Any]:
    doc = declared.node.doc
    meanings = {each.name: each.description for each in doc.returns} if doc is not None else {}
    properties = {}
    for name, each in declared.returns.items():
        schema = _schema(names, declared_type(names, declared.namespace, each.type), ())
        meaning = meanings.get(name)
        properties[name] = {**schema, "description": meaning} if meaning else schema
    return _object(properties)


def _schema(names: Names, type_: Type, parents: tuple[Declared, ...]) -> dict[str, Any]:
    if isinstance(type_, ArrayOf):
        return {"type": "array", "items": _schema(names, type_.element, parents)}
    if isinstance(type_, Declared):
        if type_ in parents:  # a schema within itself: what is below may be anything
            return {"type": "object"}
        within = (*parents, type_)
        return _object(
            {
                name: _schema(names, declared_type(names, type_.namespace, each.type), within)
                for name, each in type_.params.items()
            }
        )
    return dict(_SCHEMAS.get(type_ or "", {}))


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
