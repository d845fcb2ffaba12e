"""Tools that compile text."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from afl.lang.diagnostics import render
from afl.mcp import shapes
from afl.mcp.arguments import Arguments, Result
from afl.mcp.backend import Backend
from afl.mcp.tool import READS, Tool, in_thread, never
from afl.operations.texts import compile_text

Source = Annotated[str, Meta(description="The whole AFL program, as text.")]


class Compile(Arguments):
    source: Source
    locations: Annotated[bool, Meta(description="Also say where in the text each part stands.")] = (
        False
    )


class Compiled(Result):
    json: Annotated[dict[str, Any], Meta(description="The compiled program.")] | UnsetType = UNSET
    errors: Annotated[list[str], Meta(description="Each drawn with its place.")] | UnsetType = UNSET
    warnings: list[str] | UnsetType = UNSET


def compile_(backend: Backend, given: Compile) -> Compiled:
    options = backend.options
    found = compile_text(given.source, library_paths=options.library_paths, strict=options.strict)
    texts = found.registry.texts()
    warnings = [render(each, texts) for each in found.warnings] or UNSET
    if found.program is None:
        errors = [render(each, texts) for each in found.errors]
        summary = "the program has errors; correct the text and compile it again"
        return Compiled(success=False, error=summary, errors=errors, warnings=warnings)
    json = found.program.to_dict(include_locations=given.locations)
    return Compiled(success=True, json=json, warnings=warnings)


class Validate(Arguments):
    source: Source


class Validated(Result):
    valid: bool | UnsetType = UNSET
    errors: (
        Annotated[
            list[dict[str, Any]],
            Meta(
                description="Each with `message`, `code`, and mostly `line`, `column` and `hint`."
            ),
        ]
        | UnsetType
    ) = UNSET
    warnings: list[dict[str, Any]] | UnsetType = UNSET


def validate(backend: Backend, given: Validate) -> Validated:
    options = backend.options
    found = compile_text(given.source, library_paths=options.library_paths, strict=options.strict)
    return Validated(
        success=True,
        valid=found.program is not None,
        errors=[shapes.problem(each) for each in found.errors],
        warnings=[shapes.problem(each) for each in found.warnings],
    )


TOOLS = (
    Tool(
        "afl_compile",
        "Compile AFL",
        "Compile an AFL program to JSON. If it has problems, each is drawn with its place and a "
        "hint. Nothing is stored and nothing runs.",
        Compile,
        Compiled,
        in_thread(compile_),
        READS,
        never,
    ),
    Tool(
        "afl_validate",
        "Check AFL",
        "Check an AFL program: `valid`, and every problem with line, column, code and hint. "
        "Nothing is stored and nothing runs.",
        Validate,
        Validated,
        in_thread(validate),
        READS,
        never,
    ),
)
