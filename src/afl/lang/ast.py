"""The syntax tree of AFL: what the text says, before anything is known about its names.

- Nodes are frozen; their lists are `FrozenList`s, which read and compare as plain lists.
- Equality and repr look at meaning only: `location` and `node_id` take no part, so two texts
  that differ in layout have equal trees.
- `node_id` is a fresh UUID per node. It names a node of one tree and nothing else; ids that
  must survive are made by the emitter.

Nodes hold data. They never resolve names, check rules or print themselves.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, NamedTuple, NoReturn, TypeAlias, TypeVar

T = TypeVar("T")


class SourceLocation(NamedTuple):
    """Where a node stands: 1-based lines and columns, the end exclusive."""

    line: int
    column: int
    end_line: int | None = None
    end_column: int | None = None
    source_id: str | None = None


class FrozenList(list[T]):
    """A list that refuses to change, so that a frozen node is frozen all the way down."""

    __slots__ = ()

    def _refuse(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise TypeError("syntax trees do not change; build a new node instead")

    append = extend = insert = remove = pop = clear = sort = reverse = _refuse
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> tuple[type[FrozenList[T]], tuple[list[T]]]:
        # Unpickling a list subclass appends item by item, which this one refuses.
        return FrozenList, (list(self),)


EMPTY: FrozenList[Any] = FrozenList()


def frozen(items: Iterable[T] | None = None) -> FrozenList[T]:
    """The items as a FrozenList; the empty one is shared."""
    return FrozenList(items) if items else EMPTY


@dataclass(frozen=True)
class ASTNode:
    """What every node has beside its own fields."""

    location: SourceLocation | None = field(default=None, kw_only=True, compare=False, repr=False)

    @cached_property
    def node_id(self) -> str:
        """A UUID of this node object, made when first asked for."""
        return str(uuid.uuid4())

    def children(self) -> Iterator[ASTNode]:
        """The nodes directly below this one, in field order."""
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, ASTNode):
                yield value
            elif isinstance(value, list):
                yield from (item for item in value if isinstance(item, ASTNode))


def walk(node: ASTNode) -> Iterator[ASTNode]:
    """`node` and everything below it, parents first. Iterative: depth costs no stack."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(reversed(list(current.children())))


# Types


@dataclass(frozen=True)
class TypeRef(ASTNode):
    name: str


@dataclass(frozen=True)
class ArrayType(ASTNode):
    element_type: TypeExpr


TypeExpr: TypeAlias = TypeRef | ArrayType


# Expressions


@dataclass(frozen=True)
class Literal(ASTNode):
    """`kind` is one of string, integer, double, boolean, null."""

    value: str | int | float | bool | None
    kind: str

    def __eq__(self, other: object) -> bool:
        # 1, 1.0 and True are equal in Python but not in AFL.
        if not isinstance(other, Literal):
            return NotImplemented
        return self.kind == other.kind and self.value == other.value

    def __hash__(self) -> int:
        return hash((self.kind, self.value))


@dataclass(frozen=True)
class Reference(ASTNode):
    """`$.a.b` (is_input) or `step.a.b`; one element without `$` is the whole step."""

    path: FrozenList[str]
    is_input: bool


@dataclass(frozen=True)
class ConcatExpr(ASTNode):
    operands: FrozenList[Expr]


@dataclass(frozen=True)
class BinaryExpr(ASTNode):
    operator: str
    left: Expr
    right: Expr


@dataclass(frozen=True)
class UnaryExpr(ASTNode):
    operator: str
    operand: Expr


@dataclass(frozen=True)
class ArrayLiteral(ASTNode):
    elements: FrozenList[Expr]


@dataclass(frozen=True)
class MapEntry(ASTNode):
    key: str
    value: Expr


@dataclass(frozen=True)
class MapLiteral(ASTNode):
    entries: FrozenList[MapEntry]


@dataclass(frozen=True)
class IndexExpr(ASTNode):
    target: Expr
    index: Expr


Expr: TypeAlias = (
    Literal
    | Reference
    | ConcatExpr
    | BinaryExpr
    | UnaryExpr
    | ArrayLiteral
    | MapLiteral
    | IndexExpr
)


# Calls


@dataclass(frozen=True)
class NamedArg(ASTNode):
    name: str
    value: Expr


@dataclass(frozen=True)
class MixinSig(ASTNode):
    name: str
    args: FrozenList[NamedArg] = EMPTY
    alias: str | None = None


@dataclass(frozen=True)
class MixinCall(ASTNode):
    name: str
    args: FrozenList[NamedArg] = EMPTY
    alias: str | None = None


@dataclass(frozen=True)
class CallExpr(ASTNode):
    name: str
    args: FrozenList[NamedArg] = EMPTY
    mixins: FrozenList[MixinCall] = EMPTY


# Statements and bodies


@dataclass(frozen=True)
class ForeachClause(ASTNode):
    variable: str
    iterable: Expr


@dataclass(frozen=True)
class ScriptBlock(ASTNode):
    language: str = "python"
    code: str = ""
    #: Line and column of each line of code in the text; only the parser knows them, of code
    #: between braces.
    places: tuple[tuple[int, int], ...] = field(
        default=(), init=False, kw_only=True, compare=False, repr=False
    )


@dataclass(frozen=True)
class PromptBlock(ASTNode):
    system: str | None = None
    template: str | None = None
    model: str | None = None


@dataclass(frozen=True)
class YieldStmt(ASTNode):
    call: CallExpr


@dataclass(frozen=True)
class Block(ASTNode):
    steps: FrozenList[StepStmt] = EMPTY
    yield_stmts: FrozenList[YieldStmt] = EMPTY

    @property
    def yield_stmt(self) -> YieldStmt | None:
        """The first yield; most blocks have no other."""
        return self.yield_stmts[0] if self.yield_stmts else None


@dataclass(frozen=True)
class WhenCase(ASTNode):
    """`condition` is None in the default, `case _`."""

    condition: Expr | None
    block: Block


@dataclass(frozen=True)
class WhenBlock(ASTNode):
    cases: FrozenList[WhenCase] = EMPTY


@dataclass(frozen=True)
class AndThenBlock(ASTNode):
    """One `andThen`: a block (perhaps for each element), a `when`, or a script."""

    block: Block
    foreach: ForeachClause | None = None
    when: WhenBlock | None = None
    script: ScriptBlock | None = None


@dataclass(frozen=True)
class CatchClause(ASTNode):
    """What runs when a step or declaration ended in error: a block or a `when`."""

    block: Block
    when: WhenBlock | None = None


#: One block is not wrapped in a list; two or more are.
StepBody: TypeAlias = AndThenBlock | FrozenList[AndThenBlock] | None
Body: TypeAlias = StepBody | PromptBlock | ScriptBlock


@dataclass(frozen=True)
class StepStmt(ASTNode):
    name: str
    call: CallExpr
    body: StepBody = None
    catch: CatchClause | None = field(default=None, kw_only=True)

    @property
    def bodies(self) -> list[AndThenBlock]:
        """The body as a list, whatever its length."""
        return body_blocks(self.body)


def body_blocks(body: Body) -> list[AndThenBlock]:
    """The `andThen` blocks of a body, in order; none for a prompt or a script."""
    if isinstance(body, list):
        return body
    return [body] if isinstance(body, AndThenBlock) else []


# Declarations


@dataclass(frozen=True)
class DocEntry(ASTNode):
    name: str
    description: str


@dataclass(frozen=True)
class DocComment(ASTNode):
    """A `/** … */` comment, taken apart at its `@param` and `@return` lines."""

    description: str = ""
    params: FrozenList[DocEntry] = EMPTY
    returns: FrozenList[DocEntry] = EMPTY


@dataclass(frozen=True)
class Parameter(ASTNode):
    name: str
    type: TypeExpr
    default: Expr | None = None


@dataclass(frozen=True)
class ReturnClause(ASTNode):
    params: FrozenList[Parameter] = EMPTY


@dataclass(frozen=True)
class FacetSig(ASTNode):
    name: str
    params: FrozenList[Parameter] = EMPTY
    returns: ReturnClause | None = None
    mixins: FrozenList[MixinSig] = EMPTY


@dataclass(frozen=True)
class _Callable(ASTNode):
    sig: FacetSig
    body: Body = None
    #: A script that runs before the `andThen` blocks of the body.
    pre_script: ScriptBlock | None = field(default=None, kw_only=True)
    catch: CatchClause | None = field(default=None, kw_only=True)
    doc: DocComment | None = field(default=None, kw_only=True)

    @property
    def name(self) -> str:
        return self.sig.name

    @property
    def bodies(self) -> list[AndThenBlock]:
        return body_blocks(self.body)


@dataclass(frozen=True)
class FacetDecl(_Callable):
    pass


@dataclass(frozen=True)
class EventFacetDecl(_Callable):
    pass


@dataclass(frozen=True)
class WorkflowDecl(_Callable):
    pass


@dataclass(frozen=True)
class ImplicitDecl(ASTNode):
    name: str
    call: CallExpr
    doc: DocComment | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class UsesDecl(ASTNode):
    name: str


@dataclass(frozen=True)
class SchemaField(ASTNode):
    name: str
    type: TypeExpr


@dataclass(frozen=True)
class SchemaDecl(ASTNode):
    name: str
    fields: FrozenList[SchemaField] = EMPTY
    doc: DocComment | None = field(default=None, kw_only=True)


CallableDecl: TypeAlias = FacetDecl | EventFacetDecl | WorkflowDecl
Declaration: TypeAlias = CallableDecl | SchemaDecl | ImplicitDecl


class _Declares:
    """What a namespace and the top level have alike: declarations by kind."""

    facets: FrozenList[FacetDecl]
    event_facets: FrozenList[EventFacetDecl]
    workflows: FrozenList[WorkflowDecl]
    implicits: FrozenList[ImplicitDecl]
    schemas: FrozenList[SchemaDecl]

    @property
    def callables(self) -> list[CallableDecl]:
        return [*self.facets, *self.event_facets, *self.workflows]

    @property
    def declarations(self) -> list[Declaration]:
        return [*self.callables, *self.implicits, *self.schemas]


@dataclass(frozen=True)
class Namespace(_Declares, ASTNode):
    name: str
    uses: FrozenList[UsesDecl] = EMPTY
    facets: FrozenList[FacetDecl] = EMPTY
    event_facets: FrozenList[EventFacetDecl] = EMPTY
    workflows: FrozenList[WorkflowDecl] = EMPTY
    implicits: FrozenList[ImplicitDecl] = EMPTY
    schemas: FrozenList[SchemaDecl] = EMPTY
    doc: DocComment | None = field(default=None, kw_only=True)
    #: Written without braces: it holds to the end of its file.
    file_scoped: bool = field(default=False, kw_only=True, compare=False, repr=False)


@dataclass(frozen=True)
class Program(_Declares, ASTNode):
    """One parsed text, or several merged."""

    namespaces: FrozenList[Namespace] = EMPTY
    facets: FrozenList[FacetDecl] = EMPTY
    event_facets: FrozenList[EventFacetDecl] = EMPTY
    workflows: FrozenList[WorkflowDecl] = EMPTY
    implicits: FrozenList[ImplicitDecl] = EMPTY
    schemas: FrozenList[SchemaDecl] = EMPTY

    @classmethod
    def merge(cls, programs: Iterable[Program]) -> Program:
        """One tree with the contents of all, in the given order."""
        parts = list(programs)
        return cls(
            frozen(each for part in parts for each in part.namespaces),
            frozen(each for part in parts for each in part.facets),
            frozen(each for part in parts for each in part.event_facets),
            frozen(each for part in parts for each in part.workflows),
            frozen(each for part in parts for each in part.implicits),
            frozen(each for part in parts for each in part.schemas),
            location=parts[0].location if len(parts) == 1 else None,
        )
