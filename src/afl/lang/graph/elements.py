"""What a picture of a workflow consists of: nodes, clusters around them, edges between them.

- Keys are paths of statements inside the workflow (`andThen:0/step:pay`), the same paths that
  compiled ids are made from, so a key can be matched with the step of a run.
- An edge may end at a cluster: then it means whatever starts inside, or the whole of it.
- Clusters come after the cluster they are in. Everything is frozen and compares by value.

These are facts about a program. How they look is for the layout and the writers.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class NodeKind(StrEnum):
    #: A step that calls an event facet: somebody outside does the work.
    EVENT = "event"
    FACET = "facet"
    WORKFLOW = "workflow"
    SCHEMA = "schema"
    SCRIPT = "script"
    YIELD = "yield"
    #: Where the parameters of the workflow come in.
    INPUT = "input"
    #: Where its returns leave.
    OUTPUT = "output"
    #: A call of something that is not declared.
    UNKNOWN = "unknown"


class ClusterKind(StrEnum):
    #: One of several `andThen` blocks of a body.
    BLOCK = "block"
    FOREACH = "foreach"
    WHEN = "when"
    CASE = "case"
    CATCH = "catch"
    #: The body written behind a step.
    BODY = "body"


class EdgeKind(StrEnum):
    #: The target reads what the source made.
    DATA = "data"
    #: The target begins because of the source, but reads nothing of it.
    CONTROL = "control"


@dataclass(frozen=True, slots=True)
class Node:
    key: str
    label: str
    kind: NodeKind
    #: The qualified name of what is called, or the name as written if nothing declares it.
    target: str = ""
    #: A second line: the short name of the target, or the values that pass.
    summary: str = ""
    #: The statement in full, on one line.
    text: str = ""
    #: Short words on what else is asked for: `retry ×3`, `catch`.
    marks: tuple[str, ...] = ()
    cluster: str | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    key: str
    title: str
    kind: ClusterKind
    parent: str | None = None
    #: The step whose results are complete only when this cluster is: it is the step's body.
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    source: str
    target: str
    kind: EdgeKind = EdgeKind.DATA


@dataclass(frozen=True, slots=True)
class Graph:
    #: The qualified name of the workflow.
    name: str
    nodes: tuple[Node, ...] = ()
    clusters: tuple[Cluster, ...] = ()
    edges: tuple[Edge, ...] = ()
