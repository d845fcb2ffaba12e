"""The picture of a run: the graph of its workflow, with the state of each node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from afl.lang import paths
from afl.lang.graph import Graph, to_svg, workflow_graph
from afl.lang.program import Program
from afl.operations.reading import StepView

#: The first that some step of a node has is the state of the node.
_ORDER = ("failed", "running", "waiting", "completed", "not run")


@dataclass(frozen=True)
class NodeState:
    """A node of the graph, and how its steps stand: in a loop there are many."""

    key: str
    #: The statement, as steps name it.
    statement: str
    #: None as long as there is no step of it.
    state: str | None
    #: Steps by their states.
    counts: Mapping[str, int]


@dataclass(frozen=True)
class RunGraph:
    """The graph of a workflow, and the states of its nodes in one run."""

    graph: Graph
    nodes: tuple[NodeState, ...]

    def svg(self) -> str:
        """Drawn, with a class for each state."""
        states = {each.key: each.state for each in self.nodes if each.state is not None}
        return to_svg(self.graph, states=states)


def run_graph(program: Program, workflow: str, counts: Mapping[str, Mapping[str, int]]) -> RunGraph:
    """The graph of a workflow with the states of a run; `counts` are the steps of each statement
    by their states, as `counts_of` and `RunWatch.counts` have them."""
    declared = program.workflow(workflow)
    graph = workflow_graph(program, declared.qualified)
    path = paths.declaration(declared.namespace, declared.node)
    states, nodes = [], []
    for each in graph.nodes:
        statement = paths.node_id(f"{path}/{each.key}")
        found = {state: number for state, number in counts.get(statement, {}).items() if number}
        states.append(NodeState(each.key, statement, state_of(found), found))
        nodes.append(replace(each, marks=(*each.marks, *_progress(found))))
    return RunGraph(replace(graph, nodes=tuple(nodes)), tuple(states))


def _progress(counts: Mapping[str, int]) -> tuple[str, ...]:
    """Of a statement that is done many times."""
    total = sum(counts.values())
    return (f"{counts.get('completed', 0):,} of {total:,}",) if total > 1 else ()


def state_of(counts: Mapping[str, int]) -> str | None:
    """The one state of many steps: the worst; work that was begun and is not over is running."""
    if not counts:
        return None
    state = next((each for each in _ORDER if counts.get(each)), None)
    return "running" if state == "waiting" and counts.get("completed") else state


def counts_of(steps: Iterable[StepView]) -> dict[str, Counter[str]]:
    """The steps of each statement by their states."""
    counts: dict[str, Counter[str]] = {}
    for each in steps:
        if each.statement is not None:
            counts.setdefault(each.statement, Counter())[each.state] += 1
    return counts
