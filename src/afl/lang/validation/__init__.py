"""The rules of the language, and checking a program against them.

One rule is one module; this list is all of them. Problems are collected, never raised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from afl.lang import ast
from afl.lang.diagnostics import Diagnostic, by_place
from afl.lang.names import Names
from afl.lang.validation import (
    argument_types,
    arguments,
    attributes,
    callees,
    duplicate_arguments,
    duplicate_declarations,
    duplicate_fields,
    duplicate_parameters,
    duplicate_steps,
    foreach_iterables,
    inputs,
    mixin_cycles,
    operands,
    prompts,
    recursion,
    reserved_namespaces,
    schema_calls,
    schema_places,
    script_syntax,
    scripts,
    step_cycles,
    steps,
    type_names,
    use_cycles,
    uses,
    when_defaults,
    yield_arguments,
    yield_targets,
)
from afl.lang.validation.rule import Rule
from afl.lang.validation.walk import Walk

RULES: tuple[Rule, ...] = (
    duplicate_declarations.RULE,
    duplicate_fields.RULE,
    duplicate_steps.RULE,
    duplicate_parameters.RULE,
    duplicate_arguments.RULE,
    reserved_namespaces.RULE,
    uses.RULE,
    use_cycles.RULE,
    callees.RULE,
    type_names.RULE,
    inputs.RULE,
    steps.RULE,
    attributes.RULE,
    step_cycles.RULE,
    yield_targets.RULE,
    yield_arguments.RULE,
    arguments.RULE,
    argument_types.RULE,
    schema_calls.RULE,
    schema_places.RULE,
    operands.RULE,
    prompts.RULE,
    scripts.RULE,
    script_syntax.RULE,
    recursion.RULE,
    mixin_cycles.RULE,
    foreach_iterables.RULE,
    when_defaults.RULE,
)

#: For programs that were checked when they were compiled, perhaps by a Python that knows more.
STORED_RULES = tuple(each for each in RULES if each is not script_syntax.RULE)

#: What code that checks programs calls one of its problems.
ValidationError = Diagnostic


@dataclass(frozen=True)
class ValidationResult:
    """What the rules found: errors reject the program, warnings do not."""

    diagnostics: list[Diagnostic] = field(default_factory=list)

    @property
    def errors(self) -> list[Diagnostic]:
        return [each for each in self.diagnostics if each.is_error]

    @property
    def warnings(self) -> list[Diagnostic]:
        return [each for each in self.diagnostics if not each.is_error]

    @property
    def is_valid(self) -> bool:
        return not self.errors


def validate(program: ast.Program, *, strict: bool = False) -> ValidationResult:
    """Check a tree against every rule. Under `strict`, warnings are errors."""
    return check(Names(program), strict=strict)


def check(names: Names, *, strict: bool = False, rules: Sequence[Rule] = RULES) -> ValidationResult:
    """`validate`, for callers that have the names already or want other rules."""
    found = by_place(Walk(names, rules).run().diagnostics)
    return ValidationResult([each.as_error() for each in found] if strict else found)
