"""JSON Schemas of what a workflow takes and gives: for forms, tools and other programs.

They say what `check_inputs` accepts, with one difference: null, which stands for "not there" in
every type, is not offered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from afl.lang import ast
from afl.lang.expressions import Environment, EvaluationError, evaluate
from afl.lang.names import Declared, Names
from afl.lang.program import Program
from afl.lang.types import ArrayOf, Type, declared_type, type_name

Schema = dict[str, Any]

_BUILTINS: dict[str, Schema] = {
    "String": {"type": "string"},
    "Int": {"type": "integer"},
    "Long": {"type": "integer"},
    "Double": {"type": "number"},
    "Boolean": {"type": "boolean"},
    "Json": {},
}


def description_of(declared: Declared) -> str:
    """What its doc comment says; nothing if it has none."""
    return declared.node.doc.description if declared.node.doc is not None else ""


def input_schema(program: Program, workflow: Declared) -> Schema:
    """An object with the parameters of a workflow. What has no default is required."""
    doc = workflow.node.doc
    told = {each.name: each.description for each in doc.params} if doc is not None else {}
    properties = _properties(program.names, workflow.namespace, workflow.params, told)
    required = [name for name, each in workflow.params.items() if not _has_default(each)]
    return _object(properties, required)


def output_schema(program: Program, workflow: Declared) -> Schema:
    """An object with what a workflow yields, when it has. Types are told, not demanded: what a
    handler returns is not held to its declaration."""
    doc = workflow.node.doc
    told = {each.name: each.description for each in doc.returns} if doc is not None else {}
    properties: Schema = {}
    for name, each in workflow.returns.items():
        kind = type_name(declared_type(program.names, workflow.namespace, each.type))
        text = f"{kind}: {told[name]}" if told.get(name) else kind
        properties[name] = {"description": text}
    return {"type": "object", "properties": properties}


def _object(properties: Schema, required: list[str]) -> Schema:
    found: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**found, "required": required} if required else found


def _properties(
    names: Names,
    namespace: str,
    parameters: Mapping[str, ast.Parameter | ast.SchemaField],
    told: Mapping[str, str],
    inside: tuple[str, ...] = (),
) -> Schema:
    found: Schema = {}
    for name, parameter in parameters.items():
        schema = dict(_schema(names, declared_type(names, namespace, parameter.type), inside))
        if told.get(name):
            schema["description"] = told[name]
        found[name] = {**schema, **_default(parameter)}
    return found


def _schema(names: Names, type_: Type, inside: tuple[str, ...]) -> Schema:
    if isinstance(type_, ArrayOf):
        return {"type": "array", "items": _schema(names, type_.element, inside)}
    if isinstance(type_, Declared):
        return _schema_of(names, type_, inside)
    return _BUILTINS.get(type_ or "Json", {})


def _schema_of(names: Names, declared: Declared, inside: tuple[str, ...]) -> Schema:
    """A schema of the program, written out; one that holds itself only as far as that."""
    facts = {"title": declared.qualified}
    if description_of(declared):
        facts["description"] = description_of(declared)
    if declared.qualified in inside:
        return {"type": "object", **facts}
    below = (*inside, declared.qualified)
    properties = _properties(names, declared.namespace, declared.params, {}, below)
    return {**_object(properties, list(properties)), **facts}


def _has_default(parameter: ast.Parameter | ast.SchemaField) -> bool:
    return isinstance(parameter, ast.Parameter) and parameter.default is not None


def _default(parameter: ast.Parameter | ast.SchemaField) -> Schema:
    """The default, if it is the same in every run."""
    if not isinstance(parameter, ast.Parameter) or parameter.default is None:
        return {}
    try:
        return {"default": evaluate(parameter.default, Environment({}, _no_step))}
    except EvaluationError:
        return {}


def _no_step(name: str) -> Mapping[str, Any]:
    raise KeyError(name)
