"""Which declaration a name means. Nothing else in the compiler answers that question.

A dotted name means exactly the declaration of that qualified name. A bare name is looked up

1. in its own namespace,
2. in the namespaces it uses, and at the top level,
3. anywhere, if only one namespace declares it.

Two answers at one stage are an ambiguity, never a guess. Names of the prelude (`afl.Retry`) take
no part in stage 3, so they cannot be confused with a program's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from importlib.resources import files
from typing import NamedTuple

import msgspec

from afl.lang import ast
from afl.lang.decoder import decode_program
from afl.lang.diagnostics import suggest

_KINDS: dict[type, str] = {
    ast.FacetDecl: "facet",
    ast.EventFacetDecl: "event facet",
    ast.WorkflowDecl: "workflow",
    ast.SchemaDecl: "schema",
}


class Declared:
    """A declaration together with the name it is known by."""

    def __init__(self, namespace: str, node: ast.CallableDecl | ast.SchemaDecl) -> None:
        self.namespace = namespace
        self.node = node
        self.qualified = f"{namespace}.{node.name}" if namespace else node.name

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def kind(self) -> str:
        return _KINDS[type(self.node)]

    @property
    def is_schema(self) -> bool:
        return isinstance(self.node, ast.SchemaDecl)

    @property
    def is_event(self) -> bool:
        return isinstance(self.node, ast.EventFacetDecl)

    @cached_property
    def params(self) -> dict[str, ast.Parameter | ast.SchemaField]:
        """What a call may give: parameters of a facet, fields of a schema."""
        if isinstance(self.node, ast.SchemaDecl):
            return {each.name: each for each in self.node.fields}
        return {each.name: each for each in self.node.sig.params}

    @cached_property
    def returns(self) -> dict[str, ast.Parameter]:
        if isinstance(self.node, ast.SchemaDecl) or self.node.sig.returns is None:
            return {}
        return {each.name: each for each in self.node.sig.returns.params}

    @property
    def mixins(self) -> list[ast.MixinSig]:
        return [] if isinstance(self.node, ast.SchemaDecl) else self.node.sig.mixins

    def __repr__(self) -> str:
        return f"<{self.kind} {self.qualified}>"


class Resolution(NamedTuple):
    """One declaration, none, or several that fit equally well."""

    declared: Declared | None
    candidates: tuple[Declared, ...] = ()

    @property
    def is_ambiguous(self) -> bool:
        return len(self.candidates) > 1


_UNKNOWN = Resolution(None)


class Names:
    """The index of a program's declarations."""

    def __init__(self, program: ast.Program) -> None:
        self.program = program
        self._qualified: dict[str, Declared] = {}
        self._short: dict[str, list[Declared]] = {}
        self.uses: dict[str, list[ast.UsesDecl]] = {}
        self._implicits: dict[str, dict[str, ast.ImplicitDecl]] = {}
        self._cache: dict[tuple[str, str, bool], Resolution] = {}
        self._add_prelude()
        self._add(program)

    def _add_prelude(self) -> None:
        for namespace in prelude().namespaces:
            self.uses[namespace.name] = []
            for node in _declared_nodes(namespace):
                declared = Declared(namespace.name, node)
                self._qualified[declared.qualified] = declared

    def _add(self, program: ast.Program) -> None:
        for namespace, scope in scopes(program):
            self.uses.setdefault(namespace, []).extend(
                scope.uses if isinstance(scope, ast.Namespace) else []
            )
            implicits = self._implicits.setdefault(namespace, {})
            for implicit in scope.implicits:
                implicits.setdefault(implicit.name, implicit)
            for node in _declared_nodes(scope):
                declared = Declared(namespace, node)
                # Of two declarations with one name the first counts; the second is reported.
                if self._qualified.setdefault(declared.qualified, declared) is declared:
                    self._short.setdefault(node.name, []).append(declared)

    # Questions

    def resolve(self, namespace: str, name: str) -> Resolution:
        """What a call, mixin or yield of `name` in `namespace` means."""
        return self._resolve(namespace, name, False)

    def resolve_schema(self, namespace: str, name: str) -> Resolution:
        """What the type `name` in `namespace` means; only schemas are types."""
        return self._resolve(namespace, name, True)

    def find(self, qualified: str) -> Declared | None:
        """The declaration with exactly this qualified name."""
        return self._qualified.get(qualified)

    def all(self) -> Iterator[Declared]:
        """Every declaration of the program itself, without the prelude."""
        for declared in self._qualified.values():
            if declared.namespace not in reserved_namespaces():
                yield declared

    def namespaces(self) -> list[str]:
        return [each for each in self.uses if each]

    def has_implicit(self, namespace: str, name: str) -> bool:
        """Whether an implicit of this name supplies arguments in `namespace`."""
        return self.implicit(namespace, name) is not None

    def implicit(self, namespace: str, name: str) -> tuple[str, ast.ImplicitDecl] | None:
        """The implicit that supplies arguments of this name in `namespace`, and where it is."""
        for each in (namespace, ""):
            found = self._implicits.get(each, {}).get(name)
            if found is not None:
                return each, found
        return None

    def similar_to(self, name: str) -> list[str]:
        """Names that somebody who wrote `name` may have meant."""
        return similar(name, self._qualified.values()) if "." in name else list(self._short)

    # Answers

    def _resolve(self, namespace: str, name: str, schema: bool) -> Resolution:
        key = (namespace, name, schema)
        found = self._cache.get(key)
        if found is None:
            found = self._cache[key] = self._look_up(namespace, name, schema)
        return found

    def _look_up(self, namespace: str, name: str, schema: bool) -> Resolution:
        if "." in name:
            return _choose([self._qualified.get(name)], schema)
        stages = (
            [self._in(namespace, name)],
            [*(self._in(each.name, name) for each in self.uses.get(namespace, ())),
             self._in("", name)],
            self._short.get(name, []),
        )  # fmt: skip
        for candidates in stages:
            resolution = _choose(candidates, schema)
            if resolution is not _UNKNOWN:
                return resolution
        return _UNKNOWN

    def _in(self, namespace: str, name: str) -> Declared | None:
        return self._qualified.get(f"{namespace}.{name}" if namespace else name)


def _choose(candidates: Iterable[Declared | None], schema: bool) -> Resolution:
    distinct = {
        each.qualified: each
        for each in candidates
        if each is not None and (each.is_schema or not schema)
    }
    if not distinct:
        return _UNKNOWN
    if len(distinct) == 1:
        return Resolution(next(iter(distinct.values())))
    return Resolution(None, tuple(distinct.values()))


def similar(qualified: str, declared: Iterable[Declared]) -> list[str]:
    """Qualified names with the same last part, or a like one in the same namespace.

    Compared as a whole, two names of one long namespace would always seem alike.
    """
    namespace, _, short = qualified.rpartition(".")
    return [
        each.qualified
        for each in declared
        if each.name == short or (each.namespace == namespace and suggest(short, [each.name]))
    ]


def scopes(program: ast.Program) -> Iterator[tuple[str, ast.Program | ast.Namespace]]:
    """The top level, named "", and every namespace block."""
    yield "", program
    for namespace in program.namespaces:
        yield namespace.name, namespace


def _declared_nodes(
    scope: ast.Program | ast.Namespace,
) -> Iterator[ast.CallableDecl | ast.SchemaDecl]:
    yield from scope.callables
    yield from scope.schemas


@cache
def prelude() -> ast.Program:
    """The built-in declarations, written in AFL themselves (`prelude.afl`).

    Read as they were compiled when afl was made: a worker whose programs are compiled as well would
    need a parser for nothing else, and make its tables before it could end its first task.
    """
    return decode_program(
        msgspec.json.decode(files("afl.lang").joinpath("prelude.json").read_bytes())
    )


@cache
def reserved_namespaces() -> frozenset[str]:
    """Namespaces that belong to the language."""
    return frozenset(each.name for each in prelude().namespaces)
