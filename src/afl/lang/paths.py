"""The path of a node: the names that lead to it, from which its id is made.

What has a name is in the path by name, what has none by position; of two things with one name the
second is `name#2`. The emitter writes ids made from these paths into compiled JSON, and the engine
finds its steps by them, so both ask here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from afl.ids import stable_id
from afl.lang import ast

_KINDS: dict[type, str] = {
    ast.FacetDecl: "facet",
    ast.EventFacetDecl: "event",
    ast.WorkflowDecl: "workflow",
    ast.SchemaDecl: "schema",
    ast.ImplicitDecl: "implicit",
    ast.Namespace: "namespace",
    ast.StepStmt: "step",
}


def node_id(path: str) -> str:
    """The id of the node at this path."""
    return stable_id("afl", path)


def named(
    nodes: Iterable[Any], parent: str, given: Counter[str] | None = None
) -> Iterator[tuple[Any, str]]:
    """Nodes that have names, each with its path. `given` counts over several calls."""
    given = Counter() if given is None else given
    for node in nodes:
        path = f"{parent}/{_KINDS[type(node)]}:{node.name}"
        given[path] += 1
        yield node, path if given[path] == 1 else f"{path}#{given[path]}"


def namespace(name: str) -> str:
    """The path of a namespace; of the top level, which has no name, that of the program."""
    return f"/namespace:{name}" if name else ""


def declaration(in_namespace: str, node: ast.Declaration) -> str:
    """The path of a declaration in a program without two of one name."""
    return f"{namespace(in_namespace)}/{_KINDS[type(node)]}:{node.name}"


def and_then(parent: str, index: int) -> str:
    return f"{parent}/andThen:{index}"


def body(parent: str) -> str:
    """A prompt or a script that is the whole body."""
    return f"{parent}/body"


def catch(parent: str) -> str:
    return f"{parent}/catch"


def when(parent: str) -> str:
    return f"{parent}/when"


def case(parent: str, index: int) -> str:
    return f"{parent}/case:{index}"


def yield_(parent: str, index: int) -> str:
    return f"{parent}/yield:{index}"


def call(parent: str) -> str:
    return f"{parent}/call"


def script(parent: str) -> str:
    return f"{parent}/script"


def pre_script(parent: str) -> str:
    return f"{parent}/preScript"
