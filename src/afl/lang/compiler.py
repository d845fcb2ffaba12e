"""Texts to a Program: parse, find what is used, merge, check.

`compile_input` returns what it found, for faces that show problems; `compile_source` and
`compile_sources` raise, for code that wants a program.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from afl.collector import collector_paused
from afl.errors import UsageError
from afl.lang import ast
from afl.lang.diagnostics import Diagnostic, InvalidProgram, ParseError, by_place, display_name
from afl.lang.names import Names, reserved_namespaces
from afl.lang.parser import parse_text
from afl.lang.program import Program
from afl.lang.sources import (
    CompilerInput,
    SourceEntry,
    SourceRegistry,
    SourceStore,
    TextOrigin,
)
from afl.lang.validation import check


@dataclass(frozen=True)
class Compilation:
    """The outcome: a program unless there are errors, and everything worth telling."""

    program: Program | None
    diagnostics: list[Diagnostic]
    registry: SourceRegistry
    #: Whether texts could not even be parsed.
    is_unreadable: bool = False

    @property
    def errors(self) -> list[Diagnostic]:
        return [each for each in self.diagnostics if each.is_error]

    @property
    def warnings(self) -> list[Diagnostic]:
        return [each for each in self.diagnostics if not each.is_error]

    def require(self) -> Program:
        """The program. Raises ParseError or InvalidProgram with all errors."""
        if self.program is not None:
            return self.program
        if self.is_unreadable:
            raise ParseError(self.errors)
        raise InvalidProgram(self.errors)


def compile_input(
    compiler_input: CompilerInput,
    libraries: Sequence[SourceStore] = (),
    *,
    strict: bool = False,
) -> Compilation:
    """Compile sources together with the library sources they use."""
    with collector_paused():
        return _compile(compiler_input, libraries, strict)


def _compile(
    compiler_input: CompilerInput, libraries: Sequence[SourceStore], strict: bool
) -> Compilation:
    registry = SourceRegistry()
    trees: list[ast.Program] = []
    problems: list[Diagnostic] = []
    for entry, tree, notes in _read_all(compiler_input, libraries, registry):
        problems += _worth_telling(notes, entry.is_library)
        if tree is not None:
            trees.append(tree)
    problems = _judged(problems, strict)
    if any(each.is_error for each in problems):
        return Compilation(None, by_place(problems), registry, is_unreadable=True)
    return _check(ast.Program.merge(trees), problems, registry, strict)


def _check(
    tree: ast.Program, problems: list[Diagnostic], registry: SourceRegistry, strict: bool
) -> Compilation:
    names = Names(tree)
    found: list[Diagnostic] = []
    for each in check(names).diagnostics:
        entry = registry.get(each.source_id or "")
        found += _worth_telling([each], entry is not None and entry.is_library)
    diagnostics = by_place([*problems, *_judged(found, strict)])
    if any(each.is_error for each in diagnostics):
        return Compilation(None, diagnostics, registry)
    return Compilation(Program(tree, names, tuple(diagnostics)), diagnostics, registry)


def _worth_telling(notes: Iterable[Diagnostic], is_library: bool) -> list[Diagnostic]:
    """Warnings about a library are for its author, not for who uses it."""
    return [each for each in notes if each.is_error or not is_library]


def _judged(problems: list[Diagnostic], strict: bool) -> list[Diagnostic]:
    return [each.as_error() for each in problems] if strict else problems


def compile_source(
    text: str,
    filename: str = "<string>",
    *,
    strict: bool = False,
    libraries: Sequence[SourceStore] = (),
) -> Program:
    """Compile one text. Raises ParseError or InvalidProgram with every problem."""
    name = "" if filename == "<string>" else filename
    return compile_sources([SourceEntry(text, TextOrigin(name))], libraries, strict=strict)


def compile_sources(
    sources: Iterable[SourceEntry] | CompilerInput,
    libraries: Sequence[SourceStore] = (),
    *,
    strict: bool = False,
) -> Program:
    """Compile several sources as one program. Raises like `compile_source`."""
    if not isinstance(sources, CompilerInput):
        sources = CompilerInput(tuple(sources))
    return compile_input(sources, libraries, strict=strict).require()


# Reading what is asked for, and then what that needs


def _read_all(
    compiler_input: CompilerInput, libraries: Sequence[SourceStore], registry: SourceRegistry
) -> Iterator[tuple[SourceEntry, ast.Program | None, list[Diagnostic]]]:
    pending = deque(compiler_input.all_sources)
    asked: set[str] = set(reserved_namespaces())
    declared: set[str] = set()
    wanted: list[str] = []
    while pending or wanted:
        while pending:
            entry = pending.popleft()
            known = registry.get(entry.source_id)
            if known is not None:
                _require_same(known, entry)
                continue
            registry.register_entry(entry)
            tree, notes = parse_text(entry.text, entry.source_id or None)
            yield entry, tree, notes
            if tree is not None:
                declared |= {each.name for each in tree.namespaces}
                wanted += _used_namespaces(tree) if libraries else ()
        # Asked only when all given sources are read: what they declare is not looked for.
        for name in wanted:
            if name not in asked and name not in declared:
                asked.add(name)
                pending += _find(name, libraries)
        wanted = []


def _require_same(known: SourceEntry, entry: SourceEntry) -> None:
    """The same source twice is one source; two texts under one name cannot be told apart."""
    if known.text != entry.text:
        name = display_name(entry.source_id or None)
        raise UsageError(f"two different sources are called {name}: give each a name of its own")


def _find(name: str, libraries: Sequence[SourceStore]) -> Sequence[SourceEntry]:
    """The first library that knows a namespace is the one it comes from."""
    for library in libraries:
        if found := library.find_namespace(name):
            return found
    return ()


def _used_namespaces(tree: ast.Program) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.UsesDecl):
            yield node.name
        elif isinstance(node, ast.CallExpr | ast.MixinCall | ast.MixinSig | ast.TypeRef):
            namespace = node.name.rpartition(".")[0]
            if namespace:
                yield namespace
