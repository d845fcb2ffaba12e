"""What a workflow can ask of the outside world: the event facets that its steps can reach."""

from __future__ import annotations

from collections.abc import Iterator

from afl.lang import ast
from afl.lang.names import Declared
from afl.lang.program import Program


def reachable_events(program: Program, workflow: Declared) -> list[str]:
    """Qualified names of the event facets behind the steps of a workflow, in reading order."""
    seen: dict[str, Declared] = {}
    pending = [workflow]
    while pending:
        declared = pending.pop()
        if declared.qualified in seen:
            continue
        seen[declared.qualified] = declared
        called = [
            program.names.resolve(declared.namespace, each.call.name).declared
            for each in _steps(declared)
        ]
        pending += [each for each in reversed(called) if each is not None]
    return [name for name, each in seen.items() if each.is_event]


def _steps(declared: Declared) -> Iterator[ast.StepStmt]:
    """All steps of a declaration, also those in blocks of steps."""
    for node in ast.walk(declared.node):
        if isinstance(node, ast.StepStmt):
            yield node
