"""The compiled program: validated, indexed, immutable. The engine accepts nothing else.

Two programs are equal if their compiled JSON is, places aside; `digest` is the short form of
that, and runs record it to tell which program they belong to.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

import msgspec

from afl.errors import UsageError
from afl.lang import ast
from afl.lang.decoder import decode_program
from afl.lang.diagnostics import Diagnostic, InvalidProgram, suggest
from afl.lang.emitter import JSONEmitter
from afl.lang.names import Declared, Names
from afl.lang.validation import RULES, STORED_RULES, check
from afl.lang.validation.rule import Rule


class UnknownWorkflow(UsageError):  # noqa: N818 - the noun is what callers catch
    """No workflow, or more than one, has the given name."""


class Program:
    """Made by `Program.of` (checks the rules) or `Program.from_dict` (compiled JSON)."""

    def __init__(self, tree: ast.Program, names: Names, warnings: tuple[Diagnostic, ...]) -> None:
        self._tree = tree
        self._names = names
        self._warnings = warnings

    @classmethod
    def of(cls, tree: ast.Program, *, strict: bool = False) -> Program:
        """Index and check a tree. Raises InvalidProgram with every problem."""
        return cls._checked(tree, RULES, strict)

    @classmethod
    def _checked(cls, tree: ast.Program, rules: Sequence[Rule], strict: bool = False) -> Program:
        names = Names(tree)
        result = check(names, strict=strict, rules=rules)
        if not result.is_valid:
            raise InvalidProgram(result.diagnostics)
        return cls(tree, names, tuple(result.warnings))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Program:
        """The program that `to_dict` was called on, checked again."""
        return cls._checked(decode_program(data), STORED_RULES)

    @classmethod
    def from_json(cls, text: str | bytes) -> Program:
        """The program that `to_json` was called on, checked again."""
        try:
            data = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError) as problem:
            raise UsageError(f"compiled AFL is no JSON: {problem}") from None
        except RecursionError:
            raise UsageError("compiled AFL is nested too deeply") from None
        return cls.from_dict(data)

    @property
    def tree(self) -> ast.Program:
        return self._tree

    @property
    def names(self) -> Names:
        return self._names

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        return self._warnings

    # Contents by qualified name

    @cached_property
    def declarations(self) -> Mapping[str, Declared]:
        """Facets, event facets, workflows and schemas by their qualified names."""
        return MappingProxyType({each.qualified: each for each in self._names.all()})

    @cached_property
    def workflows(self) -> Mapping[str, Declared]:
        return self._of_kind(ast.WorkflowDecl)

    @cached_property
    def event_facets(self) -> Mapping[str, Declared]:
        return self._of_kind(ast.EventFacetDecl)

    @cached_property
    def schemas(self) -> Mapping[str, Declared]:
        return self._of_kind(ast.SchemaDecl)

    def _of_kind(self, kind: type) -> Mapping[str, Declared]:
        found = {
            name: each for name, each in self.declarations.items() if isinstance(each.node, kind)
        }
        return MappingProxyType(found)

    def workflow(self, name: str) -> Declared:
        """The workflow of this qualified name, or of this short name if only one has it."""
        found = self.workflows.get(name)
        if found is not None:
            return found
        fitting = [each for each in self.workflows.values() if each.name == name]
        if len(fitting) == 1:
            return fitting[0]
        raise UnknownWorkflow(self._explain(name, fitting))

    def _explain(self, name: str, fitting: list[Declared]) -> str:
        if fitting:
            options = ", ".join(each.qualified for each in fitting)
            return f"workflow '{name}' is ambiguous: it could be {options}"
        if not self.workflows:
            return f"there is no workflow '{name}': the program has no workflows"
        options = ", ".join(self.workflows)
        hint = suggest(name, [*self.workflows, *(each.name for each in self.workflows.values())])
        return f"there is no workflow '{name}'" + (f"; {hint}" if hint else f": it has {options}")

    def __iter__(self) -> Iterator[Declared]:
        return iter(self.declarations.values())

    # JSON

    def to_dict(self, *, include_locations: bool = True) -> dict[str, Any]:
        return JSONEmitter(include_locations=include_locations).emit_dict(self._tree)

    def to_json(self, *, include_locations: bool = True, indent: int | None = None) -> str:
        return JSONEmitter(include_locations=include_locations, indent=indent).emit(self._tree)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the compiled JSON without places: the identity of what will run."""
        text = self.to_json(include_locations=False)
        return hashlib.sha256(text.encode("utf-8")).hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Program):
            return NotImplemented
        return self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"<Program {self.digest[:12]}: {len(self.declarations)} declarations>"
