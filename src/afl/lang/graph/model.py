"""A workflow as a graph: which step reads which, and which blocks stand around them.

`workflow_graph` is pure: the same program gives an equal graph. It opens the bodies written in
the workflow itself, never those of what it calls; a called workflow is one node.

What a name means in a block follows `afl.lang.scopes`: steps above, the step whose body this is,
then steps of plain sibling blocks. Loop variables are no steps and make no edges.

Bodies are worked off from a list, so that deep nesting costs no stack.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from afl.lang import ast
from afl.lang.builder import BARE_CALLS, bare_name
from afl.lang.dependencies import call_expressions, step_names
from afl.lang.graph.elements import Cluster, ClusterKind, Edge, EdgeKind, Graph, Node, NodeKind
from afl.lang.graph.marks import step_marks
from afl.lang.graph.text import call_text, expression_text, parameter_text
from afl.lang.names import Declared
from afl.lang.program import Program
from afl.lang.scopes import owner_of_declaration, owner_of_step, step_info

INPUT = "input"
OUTPUT = "output"

_KINDS: dict[type, NodeKind] = {
    ast.EventFacetDecl: NodeKind.EVENT,
    ast.FacetDecl: NodeKind.FACET,
    ast.WorkflowDecl: NodeKind.WORKFLOW,
    ast.SchemaDecl: NodeKind.SCHEMA,
}


def workflow_graph(program: Program, workflow: str) -> Graph:
    """The graph of a workflow, named as in `Program.workflow`, which may raise UnknownWorkflow."""
    return _Builder(program, program.workflow(workflow)).build()


@dataclass(frozen=True)
class _Place:
    """Where statements stand, and what can be read there."""

    path: str = ""
    cluster: str | None = None
    #: Keys by the names that mean them here.
    visible: Mapping[str, str] = field(default_factory=dict)
    siblings: Mapping[str, str] = field(default_factory=dict)
    variable: str | None = None
    #: Where yields go: the output of the workflow, or None in the body of a step.
    sink: str | None = None
    #: What the names of yields mean.
    targets: Mapping[str, Declared | None] = field(default_factory=dict)

    def at(self, part: str) -> str:
        return f"{self.path}/{part}" if self.path else part


class _Builder:
    def __init__(self, program: Program, declared: Declared) -> None:
        assert isinstance(declared.node, ast.WorkflowDecl)
        self._names = program.names
        self._declared = declared
        self._workflow = declared.node
        self._nodes: list[Node] = []
        self._clusters: list[Cluster] = []
        # A dict, to keep the order and drop what is repeated.
        self._edges: dict[Edge, None] = {}
        self._pending: list[tuple[ast.StepStmt, _Place]] = []

    def build(self) -> Graph:
        self._input()
        start = self._start()
        owner = owner_of_declaration(self._names, self._declared)
        place = _Place(sink=OUTPUT, targets=owner.targets)
        self._blocks(self._workflow.bodies, place)
        if self._workflow.catch is not None:
            siblings = _siblings(self._workflow.bodies, place)
            self._catch(self._workflow.catch, replace(place, siblings=siblings), "catch")
        while self._pending:
            self._step_body(*self._pending.pop())
        for key in list(self._roots()):
            self._edge(start, key, EdgeKind.CONTROL)
        self._output(start)
        return Graph(
            self._declared.qualified,
            tuple(self._nodes),
            tuple(self._clusters),
            tuple(each for each in self._edges if not self._is_implied(each)),
        )

    def _is_implied(self, edge: Edge) -> bool:
        return edge.kind is EdgeKind.CONTROL and replace(edge, kind=EdgeKind.DATA) in self._edges

    # Ends

    def _input(self) -> None:
        params = self._workflow.sig.params
        self._nodes.append(
            Node(
                INPUT,
                self._workflow.name,
                NodeKind.INPUT,
                self._declared.qualified,
                ", ".join(each.name for each in params),
                f"{self._declared.qualified}({', '.join(map(parameter_text, params))})",
            )
        )

    def _start(self) -> str:
        """What the first steps wait for: the script that runs first, if there is one."""
        body = self._workflow.body
        if isinstance(body, ast.ScriptBlock):
            self._edge(INPUT, self._script(body, _Place(sink=OUTPUT), "body"), EdgeKind.CONTROL)
        if self._workflow.pre_script is None:
            return INPUT
        key = self._script(self._workflow.pre_script, _Place(), "preScript")
        self._edge(INPUT, key, EdgeKind.CONTROL)
        return key

    def _output(self, start: str) -> None:
        returns = list(self._declared.returns.values())
        if not any(each.target == OUTPUT for each in self._edges):
            if not returns:
                return
            self._edge(start, OUTPUT, EdgeKind.CONTROL)
        text = ", ".join(map(parameter_text, returns))
        self._nodes.append(
            Node(
                OUTPUT,
                "result",
                NodeKind.OUTPUT,
                self._declared.qualified,
                ", ".join(each.name for each in returns),
                f"=> ({text})",
            )
        )

    def _roots(self) -> Iterator[str]:
        """What nothing else starts. A cluster that is started as a whole starts what is in it."""
        reached = {each.target for each in self._edges}
        # Blocks do not wait for anything as a whole; their steps do.
        open_places = {None, *(each.key for each in self._clusters if self._is_open(each))}
        for node in self._nodes:
            if node.key != INPUT and node.cluster in open_places and node.key not in reached:
                yield node.key
        for cluster in self._clusters:
            waits = cluster.kind in (ClusterKind.FOREACH, ClusterKind.WHEN)
            if waits and cluster.parent in open_places and cluster.key not in reached:
                yield cluster.key

    def _is_open(self, cluster: Cluster) -> bool:
        return cluster.kind is ClusterKind.BLOCK and cluster.parent is None

    # Bodies

    def _blocks(self, blocks: list[ast.AndThenBlock], place: _Place) -> None:
        """The `andThen` blocks of one body, inside whatever cluster the place names."""
        place = replace(place, siblings=_siblings(blocks, place))
        for index, block in enumerate(blocks):
            inner = replace(place, path=place.at(f"andThen:{index}"))
            if block.script is not None:
                self._script(block.script, inner, inner.at("script"))
            elif block.foreach is not None:
                self._foreach(block.foreach, block.block, inner)
            elif block.when is not None:
                self._when_block(block.when, inner)
            elif len(blocks) > 1:
                title = f"andThen {index + 1}"
                self._block(block.block, self._cluster(inner, title, ClusterKind.BLOCK))
            else:
                self._block(block.block, inner)

    def _foreach(
        self, clause: ast.ForeachClause, block: ast.Block, place: _Place, owner: str | None = None
    ) -> None:
        title = f"foreach {clause.variable} in {expression_text(clause.iterable)}"
        inner = self._cluster(place, title, ClusterKind.FOREACH, owner)
        self._reads([clause.iterable], place, inner.path)
        self._block(block, replace(inner, variable=clause.variable))

    def _when_block(self, when: ast.WhenBlock, place: _Place, owner: str | None = None) -> None:
        inner = self._cluster(place, "when", ClusterKind.WHEN, owner)
        self._cases(when, inner)

    def _cases(self, when: ast.WhenBlock, place: _Place) -> None:
        """Conditions are all evaluated before a case runs, so they start the whole, not a case."""
        assert place.cluster is not None
        for index, case in enumerate(when.cases):
            title = "otherwise"
            if case.condition is not None:
                title = f"case {expression_text(case.condition)}"
                self._reads([case.condition], place, place.cluster)
            inner = replace(place, path=place.at(f"when/case:{index}"))
            self._block(case.block, self._cluster(inner, title, ClusterKind.CASE))

    def _catch(self, catch: ast.CatchClause, place: _Place, title: str) -> str:
        inner = replace(place, path=place.at("catch"))
        inner = self._cluster(inner, title, ClusterKind.CATCH)
        if catch.when is not None:
            self._cases(catch.when, inner)
        else:
            self._block(catch.block, inner)
        return inner.path

    def _step_body(self, step: ast.StepStmt, place: _Place) -> None:
        """What is written behind a step. It sees that step, and nothing else around it."""
        key = place.path
        blocks = step.bodies
        if len(blocks) == 1 and blocks[0].foreach is not None:
            body = replace(place, path=place.at("andThen:0"))
            self._foreach(blocks[0].foreach, blocks[0].block, body, key)
            self._edge(key, body.path, EdgeKind.CONTROL)
        elif len(blocks) == 1 and blocks[0].when is not None:
            body = replace(place, path=place.at("andThen:0"))
            self._when_block(blocks[0].when, body, key)
            self._edge(key, body.path, EdgeKind.CONTROL)
        elif blocks:
            body_key = place.at("body")
            title = f"body of {step.name}"
            self._clusters.append(
                Cluster(body_key, title, ClusterKind.BODY, place.cluster, owner=key)
            )
            self._edge(key, body_key, EdgeKind.CONTROL)
            self._blocks(blocks, replace(place, cluster=body_key))
        if step.catch is not None:
            handler = replace(place, siblings=_siblings(blocks, place))
            cluster = self._catch(step.catch, handler, f"catch {step.name}")
            self._edge(key, cluster, EdgeKind.CONTROL)

    def _cluster(
        self, place: _Place, title: str, kind: ClusterKind, owner: str | None = None
    ) -> _Place:
        """A cluster of the place's own path, and the place inside it."""
        self._clusters.append(Cluster(place.path, title, kind, place.cluster, owner))
        return replace(place, cluster=place.path)

    # Statements

    def _block(self, block: ast.Block, place: _Place) -> None:
        visible = dict(place.visible)
        here = replace(
            place,
            visible=visible,
            # A step further down hides a sibling of that name.
            siblings=_without(place.siblings, (each.name for each in block.steps)),
        )
        for index, step in enumerate(block.steps):
            visible[step.name] = self._step(step, index, here)
        for index, statement in enumerate(block.yield_stmts):
            self._yield(statement, index, here)

    def _step(self, step: ast.StepStmt, index: int, place: _Place) -> str:
        key = place.at(f"step:{step.name}")
        declared = self._names.resolve(self._declared.namespace, step.call.name).declared
        is_bare = step.call.name in BARE_CALLS and step.name == bare_name(index)
        call = call_text(step.call)
        target = declared.qualified if declared else step.call.name
        self._nodes.append(
            Node(
                key,
                step.call.name if is_bare else step.name,
                _KINDS[type(declared.node)] if declared else NodeKind.UNKNOWN,
                target,
                _short(target),
                call if is_bare else f"{step.name} = {call}",
                step_marks(self._names, self._declared.namespace, step, declared),
                place.cluster,
            )
        )
        self._reads(call_expressions(step.call), place, key)
        if step.body is not None or step.catch is not None:
            namespace = self._declared.namespace
            owner = owner_of_step(self._names, namespace, step_info(self._names, namespace, step))
            inside = _Place(key, place.cluster, {step.name: key}, targets=owner.targets)
            self._pending.append((step, inside))
        return key

    def _yield(self, statement: ast.YieldStmt, index: int, place: _Place) -> None:
        key = place.at(f"yield:{index}")
        call = statement.call
        declared = place.targets.get(call.name)
        self._nodes.append(
            Node(
                key,
                "yield",
                NodeKind.YIELD,
                declared.qualified if declared else call.name,
                ", ".join(each.name for each in call.args),
                f"yield {call_text(call)}",
                cluster=place.cluster,
            )
        )
        self._reads(call_expressions(call), place, key)
        if place.sink is not None:
            self._edge(key, place.sink)

    def _script(self, script: ast.ScriptBlock, place: _Place, key: str) -> str:
        self._nodes.append(
            Node(
                key,
                "script",
                NodeKind.SCRIPT,
                script.language,
                script.language,
                script.code.strip(),
                cluster=place.cluster,
            )
        )
        if place.sink is not None:
            self._edge(key, place.sink)
        return key

    # Edges

    def _reads(self, expressions: Iterable[ast.Expr], place: _Place, key: str) -> None:
        for name in step_names(expressions):
            source = place.visible.get(name, place.siblings.get(name))
            if source is not None and name != place.variable:
                self._edge(source, key)

    def _edge(self, source: str, target: str, kind: EdgeKind = EdgeKind.DATA) -> None:
        self._edges[Edge(source, target, kind)] = None


def _siblings(blocks: list[ast.AndThenBlock], place: _Place) -> dict[str, str]:
    """The steps that blocks of one body can read of each other: not those of loops."""
    return {
        step.name: place.at(f"andThen:{index}/step:{step.name}")
        for index, block in enumerate(blocks)
        if block.foreach is None
        for step in block.block.steps
    }


def _without(names: Mapping[str, str], hidden: Iterable[str]) -> dict[str, str]:
    gone = set(hidden)
    return {name: key for name, key in names.items() if name not in gone}


def _short(name: str) -> str:
    return name.rpartition(".")[2]
