"""A program as the engine walks it: bodies, blocks and statements, with who waits for whom.

Made once for each program and then only read. Everything that can be known before a run is known
here: ids, callees, which steps a statement reads and where those are. So finishing a step looks up
whom it unblocks, and searches nothing.

- *Bodies* are the `andThen` blocks and the `catch` behind a declaration or a step.
- A *plain* block has statements; a *group* has blocks: rounds of a foreach, cases of a when.
- Statements of plain blocks wait for single steps, also of sibling blocks. A group waits as a
  whole for the sibling steps that anything in it reads, because its blocks may exist many times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from operator import attrgetter
from typing import Any, NamedTuple

from afl.lang import ast, paths
from afl.lang.dependencies import call_expressions, step_names
from afl.lang.names import Declared
from afl.lang.program import Program
from afl.lang.scopes import Owner, owner_of_declaration, owner_of_step, step_info
from afl.runtime.types import StatementId


class Kind(Enum):
    PLAIN = "andThen"
    FOREACH = "foreach"
    WHEN = "when"
    SCRIPT = "script"


@dataclass(eq=False, slots=True)
class Statement:
    """A step or a yield of a block."""

    id: StatementId
    name: str
    node: ast.StepStmt | ast.YieldStmt
    block: Block
    #: What it calls; of a yield, whose returns it gives.
    callee: Declared | None
    #: Its place among the statements of the same bodies: grows with the text.
    place_in_text: int
    #: Body and catch written behind a step.
    own: Bodies | None = None
    #: Steps of this block and of sibling blocks that it reads, in the order of the text.
    needs: tuple[Statement, ...] = ()
    #: Statements that read it: of this block, and of plain sibling blocks.
    dependents: list[Statement] = field(default_factory=list)
    #: Sibling blocks that wait for it as a whole: groups, and blocks whose yields read it.
    dependent_blocks: list[Block] = field(default_factory=list)

    @property
    def call(self) -> ast.CallExpr:
        return self.node.call

    @property
    def namespace(self) -> str:
        return self.block.bodies.namespace

    @property
    def place(self) -> dict[str, Any]:
        """Where it stands in the text, for errors and logs."""
        location = self.node.location
        if location is None:
            return {"step": self.name}
        place = {"step": self.name, "line": location.line, "column": location.column}
        return place if location.source_id is None else {**place, "source": location.source_id}


@dataclass(eq=False, slots=True)
class Block:
    """One `andThen`, one case, one `catch`; of a foreach, the group and the round in it."""

    id: StatementId
    name: str
    kind: Kind
    bodies: Bodies
    statements: tuple[Statement, ...] = ()
    yields: tuple[Statement, ...] = ()
    #: The steps of this block by name.
    steps: dict[str, Statement] = field(default_factory=dict)
    foreach: ast.ForeachClause | None = None
    #: What each round of a foreach runs.
    round: Block | None = None
    #: The loop variable, in a round.
    variable: str | None = None
    cases: tuple[tuple[ast.Expr | None, Block], ...] = ()
    script: ast.ScriptBlock | None = None
    #: Sibling steps that must be over before a group begins, or before the yields of a plain
    #: block can be evaluated. In the order of the text.
    waits_for: tuple[Statement, ...] = ()
    #: Begins when all other steps that it reads are over: rounds, cases, the catch.
    is_late: bool = False
    #: Runs because of an error, which it can read.
    is_catch: bool = False

    @property
    def awaited(self) -> tuple[Statement, ...]:
        """All steps that must be over before its yields can be evaluated."""
        return _in_order((*self.statements, *self.waits_for))

    @property
    def inner(self) -> tuple[Block, ...]:
        """The blocks that have the statements: the block itself, or those of a group."""
        if self.round is not None:
            return (self.round,)
        return tuple(each for _, each in self.cases) or (self,)

    def find(self, name: str) -> Statement | None:
        """The step that `name` means here, of this block or of a sibling; None: no such step."""
        own = self.steps.get(name)
        if own is not None or name == self.bodies.step_name:
            return own
        return self.bodies.steps.get(name)


@dataclass(eq=False, slots=True)
class Bodies:
    """What runs behind a declaration, or behind a step that has a body of its own."""

    namespace: str
    #: What yields here may give returns to, by every name; None where nothing is declared.
    targets: Mapping[str, Declared | None]
    #: The step that blocks here know by name: the one whose own body this is.
    step_name: str | None = None
    blocks: tuple[Block, ...] = ()
    catch: Block | None = None
    #: Steps of all plain blocks, for siblings and for the catch; names of two blocks are out.
    steps: dict[str, Statement] = field(default_factory=dict)


class Capture(NamedTuple):
    """What the end of a step takes from its blocks, as far as the text tells."""

    blocks: tuple[Block, ...]
    #: Their yields; None if some of them may happen often, or not at all.
    single: frozenset[StatementId] | None
    #: Names of mixins that a yield may fill.
    aliases: frozenset[str]
    #: What is declared of the values.
    returns: Mapping[str, ast.Parameter]


class Plan:
    """The whole program. Statements and blocks are found by their ids."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.names = program.names
        self._bodies: dict[str, Bodies] = {}
        self._statements: dict[StatementId | None, Statement] = {}
        self._blocks: dict[str, Block] = {}
        #: Where steps have work, by statement and by workflow: noted by who lets them go on.
        self.stages: dict[str, Mapping[str, str]] = {}
        #: What is captured at the end of steps, by statement and workflow and by how many of their
        #: `catch` clauses ran: noted by who does it.
        self.captures: dict[tuple[str, int], Capture] = {}
        #: Bodies of steps whose statements are still to be made: nesting costs no stack.
        self._pending: list[tuple[Bodies, ast.Body, ast.CatchClause | None, str]] = []
        for declared in program:
            if not isinstance(declared.node, ast.SchemaDecl):
                self._declare(declared, declared.node)

    def bodies_of(self, declared: Declared) -> Bodies | None:
        """What runs behind a declaration; None if it is not of this program."""
        return self._bodies.get(declared.qualified)

    def statement(self, statement_id: StatementId | None) -> Statement:
        """Raises KeyError for what is no statement of this program."""
        return self._statements[statement_id]

    def block(self, statement_id: StatementId) -> Block:
        return self._blocks[statement_id]

    # Building

    def _declare(self, declared: Declared, node: ast.CallableDecl) -> None:
        path = paths.declaration(declared.namespace, node)
        owner = owner_of_declaration(self.names, declared)
        bodies = self._bodies[declared.qualified] = Bodies(owner.namespace, owner.targets)
        self._pending.append((bodies, node.body, node.catch, path))
        while self._pending:
            self._fill(*self._pending.pop())

    def _fill(
        self, bodies: Bodies, body: ast.Body, catch: ast.CatchClause | None, path: str
    ) -> None:
        bodies.blocks = tuple(
            self._and_then(bodies, node, paths.and_then(path, index), f"andThen:{index}")
            for index, node in enumerate(ast.body_blocks(body))
        )
        bodies.steps = _shared_names(bodies.blocks)
        if catch is not None:
            at = paths.catch(path)
            bodies.catch = self._choice(bodies, catch.when, catch.block, at, "catch")
            for block in (bodies.catch, *bodies.catch.inner):
                block.is_late = block.is_catch = True
            _link(bodies.catch)
        for block in bodies.blocks:
            _link(block)

    def _and_then(self, bodies: Bodies, node: ast.AndThenBlock, path: str, name: str) -> Block:
        if node.script is not None:
            scripted = Block(_id(path), name, Kind.SCRIPT, bodies, script=node.script)
            return self._index(scripted, path)
        if node.foreach is not None:
            group = Block(_id(path), name, Kind.FOREACH, bodies, foreach=node.foreach)
            group.round = Block(_id(path), "round", Kind.PLAIN, bodies, is_late=True)
            group.round.variable = node.foreach.variable
            self._add_statements(group.round, node.block, path)
            return self._index(group, path)
        return self._choice(bodies, node.when, node.block, path, name)

    def _choice(
        self,
        bodies: Bodies,
        when: ast.WhenBlock | None,
        block: ast.Block,
        path: str,
        name: str,
    ) -> Block:
        if when is None:
            plain = Block(_id(path), name, Kind.PLAIN, bodies)
            self._add_statements(plain, block, path)
            return self._index(plain, path)
        group = Block(_id(path), name, Kind.WHEN, bodies)
        group.cases = tuple(
            (case.condition, self._case(bodies, case, paths.case(paths.when(path), index), index))
            for index, case in enumerate(when.cases)
        )
        return self._index(group, path)

    def _case(self, bodies: Bodies, case: ast.WhenCase, path: str, index: int) -> Block:
        block = Block(_id(path), f"case:{index}", Kind.PLAIN, bodies, is_late=True)
        self._add_statements(block, case.block, path)
        return self._index(block, path)

    def _index(self, block: Block, path: str) -> Block:
        self._blocks[_id(path)] = block
        return block

    def _add_statements(self, block: Block, node: ast.Block, path: str) -> None:
        block.statements = tuple(
            self._step(block, step, at) for step, at in paths.named(node.steps, path)
        )
        block.steps = {each.name: each for each in reversed(block.statements)}
        block.yields = tuple(
            self._statement(block, each, paths.yield_(path, index), f"yield:{index}")
            for index, each in enumerate(node.yield_stmts)
        )

    def _step(self, block: Block, node: ast.StepStmt, path: str) -> Statement:
        statement = self._statement(block, node, path, node.name)
        if node.body is not None or node.catch is not None:
            owner = self._owner_of(node, block.bodies.namespace)
            statement.own = Bodies(owner.namespace, owner.targets, step_name=node.name)
            self._pending.append((statement.own, node.body, node.catch, path))
        return statement

    def _statement(
        self, block: Block, node: ast.StepStmt | ast.YieldStmt, path: str, name: str
    ) -> Statement:
        callee = self._callee(block.bodies, node)
        made = Statement(StatementId(_id(path)), name, node, block, callee, len(self._statements))
        self._statements[made.id] = made
        return made

    def _callee(self, bodies: Bodies, node: ast.StepStmt | ast.YieldStmt) -> Declared | None:
        name = node.call.name
        if isinstance(node, ast.YieldStmt) and name in bodies.targets:
            return bodies.targets[name]
        return self.names.resolve(bodies.namespace, name).declared

    def _owner_of(self, node: ast.StepStmt, namespace: str) -> Owner:
        return owner_of_step(self.names, namespace, step_info(self.names, namespace, node))


def _id(path: str) -> StatementId:
    return StatementId(paths.node_id(path))


def _shared_names(blocks: Iterable[Block]) -> dict[str, Statement]:
    """Steps that siblings and the catch can name: those of plain blocks, unless two have it."""
    found: dict[str, Statement] = {}
    repeated: set[str] = set()
    for block in blocks:
        for name, statement in block.steps.items():
            if found.setdefault(name, statement) is not statement:
                repeated.add(name)
    return {name: each for name, each in found.items() if name not in repeated}


# Who waits for whom


def _link(block: Block) -> None:
    """Note for each statement of a block whom it reads, and there that it is read."""
    for each in block.inner:
        for statement in each.statements:
            statement.needs = _needs(each, statement)
            for needed in statement.needs:
                needed.dependents.append(statement)
    if block.is_late:
        return
    block.waits_for = _in_order(_siblings_read_by(block))
    for needed in block.waits_for:
        needed.dependent_blocks.append(block)


def _needs(block: Block, statement: Statement) -> tuple[Statement, ...]:
    read = _read(block, call_expressions(statement.call))
    # Whoever begins late finds all other blocks finished.
    return _in_order(each for each in read if each.block is block or not block.is_late)


def _in_order(statements: Iterable[Statement]) -> tuple[Statement, ...]:
    """Each once, in the order of the text."""
    return tuple(sorted(set(statements), key=attrgetter("place_in_text")))


def _siblings_read_by(block: Block) -> Iterator[Statement]:
    """Steps of other blocks that a group, or the yields of a plain block, wait for."""
    if block.foreach is not None:
        yield from _read(block, [block.foreach.iterable])
    yield from _read(block, (each for each, _ in block.cases if each is not None))
    for each in block.inner:
        statements = each.yields if each is block else (*each.statements, *each.yields)
        for statement in statements:
            read = _read(each, call_expressions(statement.call))
            yield from (found for found in read if found.block is not each)


def _read(block: Block, expressions: Iterable[ast.Expr]) -> Iterator[Statement]:
    for name in step_names(expressions):
        found = block.find(name)
        if found is not None and name != block.variable:
            yield found
