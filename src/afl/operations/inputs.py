"""Inputs of a run: read from a command line, and checked before anything starts.

A run that starts with wrong inputs fails late, somewhere inside. So all that is wrong with them
is said at once, with what was declared and what was given.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from afl.errors import UsageError
from afl.lang import ast
from afl.lang.diagnostics import suggest
from afl.lang.names import Declared, Names
from afl.lang.program import Program
from afl.lang.types import ArrayOf, Type, declared_type, type_name

#: Longer values are cut in messages.
_SHOWN = 60
_LONGEST = 2**63


class InvalidInputs(UsageError):  # noqa: N818 - what happened is what callers catch
    """The inputs do not fit the workflow. Correct each of `problems`, which are all there are."""

    def __init__(self, workflow: str, problems: Sequence[str]) -> None:
        self.workflow = workflow
        self.problems = tuple(problems)
        lines = [f"the inputs do not fit workflow {workflow}:"]
        super().__init__("\n".join([*lines, *(f"  {each}" for each in self.problems)]))


# Checking


def check_inputs(program: Program, workflow: Declared, inputs: Mapping[str, Any]) -> None:
    """Raise InvalidInputs unless `inputs` are what the workflow declares."""
    problems = [*_missing(program.names, workflow, inputs), *_unknown(workflow, inputs)]
    for name, parameter in workflow.params.items():
        if name in inputs:
            type_ = declared_type(program.names, workflow.namespace, parameter.type)
            problems += _mismatches(program.names, type_, inputs[name], name)
    if problems:
        raise InvalidInputs(workflow.qualified, problems)


def _missing(names: Names, workflow: Declared, inputs: Mapping[str, Any]) -> Iterator[str]:
    for name, parameter in workflow.params.items():
        if name in inputs or (isinstance(parameter, ast.Parameter) and parameter.default):
            continue
        type_ = declared_type(names, workflow.namespace, parameter.type)
        yield f"{name}: is missing; expected {type_name(type_)}"


def _unknown(workflow: Declared, inputs: Mapping[str, Any]) -> Iterator[str]:
    for name in inputs:
        if name not in workflow.params:
            yield f"{name}: there is no such input; {_meant(name, workflow)}"


def _meant(name: str, workflow: Declared) -> str:
    hint = suggest(name, workflow.params)
    if hint is not None:
        return hint
    options = ", ".join(workflow.params)
    return f"the workflow has {options}" if options else "the workflow takes none"


def _mismatches(names: Names, type_: Type, value: Any, path: str) -> Iterator[str]:
    """What is wrong with a value, each with its path, such as `lines[2].count`."""
    if isinstance(type_, ArrayOf) and isinstance(value, list | tuple):
        for index, each in enumerate(value):
            yield from _mismatches(names, type_.element, each, f"{path}[{index}]")
    elif isinstance(type_, Declared) and isinstance(value, Mapping):
        yield from _field_mismatches(names, type_, value, path)
    elif type_ in (None, "Json"):
        yield from _json_mismatches(value, path)
    # Null stands for "not there" in every type.
    elif value is not None and not (isinstance(type_, str) and _FITS[type_](value)):
        yield f"{path}: expected {type_name(type_)}, got {_described(value)}"


def _field_mismatches(
    names: Names, schema: Declared, value: Mapping[Any, Any], path: str
) -> Iterator[str]:
    for name, field in schema.params.items():
        type_ = declared_type(names, schema.namespace, field.type)
        if name in value:
            yield from _mismatches(names, type_, value[name], f"{path}.{name}")
        else:
            yield f"{path}.{name}: is missing; expected {type_name(type_)}"
    for name in value:
        if name not in schema.params:
            hint = suggest(str(name), schema.params) or f"it has {', '.join(schema.params)}"
            yield f"{path}.{name}: schema {schema.qualified} has no such field; {hint}"


def _json_mismatches(value: Any, path: str) -> Iterator[str]:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        yield f"{path}: expected Json, got what is none: {error}"


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_whole(value: Any) -> bool:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return is_number and -_LONGEST <= value < _LONGEST


def _is_number(value: Any) -> bool:
    return _is_whole(value) or (isinstance(value, float) and math.isfinite(value))


def _is_boolean(value: Any) -> bool:
    return isinstance(value, bool)


_FITS: dict[str, Callable[[Any], bool]] = {
    "String": _is_text,
    "Int": _is_whole,
    "Long": _is_whole,
    "Double": _is_number,
    "Boolean": _is_boolean,
}


_KINDS: dict[type, str] = {str: "text", list: "a list", tuple: "a list", dict: "an object"}


def _described(value: Any) -> str:
    """The value as JSON, cut, and what kind it is."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=repr)
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return f"{shown} ({_kind(value)})"


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int):
        return "a whole number" if _is_whole(value) else "a number of more than 64 bits"
    if isinstance(value, float):
        return "a number" if math.isfinite(value) else "not a finite number"
    return _KINDS.get(type(value), type(value).__name__)


# Reading


def parse_inputs(
    pairs: Sequence[str], inputs: str | None, program: Program, workflow: Declared
) -> dict[str, Any]:
    """Inputs of a command line: `pairs` such as `count=3`, over the object in `inputs`, which is
    JSON, or `@` and the name of a file with JSON.

    The declared type says how the value of a pair is read: a String is the text as it stands,
    anything else is JSON. Raises UsageError.
    """
    values = _object(inputs) if inputs is not None else {}
    given: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"--input {pair}: expected name=value")
        if name in given:
            raise UsageError(f"--input {name} is given twice; keep one of them")
        given[name] = _value(program.names, workflow, name, text)
    return {**values, **given}


def _object(inputs: str) -> dict[str, Any]:
    text, origin = inputs, "--inputs"
    if inputs.startswith("@"):
        text, origin = _text_of(Path(inputs[1:])), inputs[1:]
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{origin} is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise UsageError(f"{origin} holds {_described(value)}; expected an object with the inputs")
    return value


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--inputs @{path} cannot be read: {error}") from None


def _value(names: Names, workflow: Declared, name: str, text: str) -> Any:
    parameter = workflow.params.get(name)
    if parameter is None:
        return text  # which name was meant is said by check_inputs, with all other problems
    type_ = declared_type(names, workflow.namespace, parameter.type)
    if type_ == "String":
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise UsageError(
            f"--input {name}={text}: expected {type_name(type_)}, written as JSON"
            + (f', such as {name}="{text}"' if type_ == "Json" else "")
        ) from None
