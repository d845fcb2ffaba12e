"""The syntax tree: fields and their order, equality by meaning, nothing that can change."""

from __future__ import annotations

import copy
import pickle
import uuid
from dataclasses import FrozenInstanceError, fields

import pytest

from afl.lang import ast
from afl.lang.ast import FrozenList, SourceLocation, frozen
from afl.lang.parser import parse

TEXT = """
namespace library {
    use town
    schema Book { title: String }
    workflow Lend(title: String = "Emma") => (days: Int) with Logged() andThen {
        b = Find(title = $.title) with Quick() as q
        yield Lend(days = b.days + 1)
    }
}
"""

#: The fields that can be given by position, in their order.
POSITIONAL: dict[type[ast.ASTNode], list[str]] = {
    ast.TypeRef: ["name"],
    ast.ArrayType: ["element_type"],
    ast.Parameter: ["name", "type", "default"],
    ast.Literal: ["value", "kind"],
    ast.Reference: ["path", "is_input"],
    ast.ConcatExpr: ["operands"],
    ast.BinaryExpr: ["operator", "left", "right"],
    ast.UnaryExpr: ["operator", "operand"],
    ast.ArrayLiteral: ["elements"],
    ast.MapEntry: ["key", "value"],
    ast.MapLiteral: ["entries"],
    ast.IndexExpr: ["target", "index"],
    ast.NamedArg: ["name", "value"],
    ast.MixinSig: ["name", "args", "alias"],
    ast.MixinCall: ["name", "args", "alias"],
    ast.CallExpr: ["name", "args", "mixins"],
    ast.StepStmt: ["name", "call", "body"],
    ast.YieldStmt: ["call"],
    ast.ForeachClause: ["variable", "iterable"],
    ast.Block: ["steps", "yield_stmts"],
    ast.AndThenBlock: ["block", "foreach", "when", "script"],
    ast.WhenCase: ["condition", "block"],
    ast.WhenBlock: ["cases"],
    ast.CatchClause: ["block", "when"],
    ast.PromptBlock: ["system", "template", "model"],
    ast.ScriptBlock: ["language", "code"],
    ast.ReturnClause: ["params"],
    ast.FacetSig: ["name", "params", "returns", "mixins"],
    ast.FacetDecl: ["sig", "body"],
    ast.EventFacetDecl: ["sig", "body"],
    ast.WorkflowDecl: ["sig", "body"],
    ast.ImplicitDecl: ["name", "call"],
    ast.UsesDecl: ["name"],
    ast.SchemaField: ["name", "type"],
    ast.SchemaDecl: ["name", "fields"],
    ast.Namespace: [
        "name", "uses", "facets", "event_facets", "workflows", "implicits", "schemas",
    ],
    ast.Program: [
        "namespaces", "facets", "event_facets", "workflows", "implicits", "schemas",
    ],
    ast.DocComment: ["description", "params", "returns"],
    ast.DocEntry: ["name", "description"],
}  # fmt: skip


@pytest.mark.parametrize("node", POSITIONAL)
def test_fields_are_given_in_their_order(node: type[ast.ASTNode]) -> None:
    assert [each.name for each in fields(node) if not each.kw_only] == POSITIONAL[node]


def test_every_kind_of_node_is_pinned_above() -> None:
    public = {
        each
        for name, each in vars(ast).items()
        if isinstance(each, type) and issubclass(each, ast.ASTNode) and not name.startswith("_")
    }
    assert public - {ast.ASTNode} == set(POSITIONAL)


def test_optional_fields_have_defaults() -> None:
    assert ast.ScriptBlock() == ast.ScriptBlock("python", "")
    assert ast.PromptBlock() == ast.PromptBlock(None, None, None)
    assert ast.CallExpr("Find") == ast.CallExpr("Find", frozen(), frozen())
    assert ast.MixinCall("Quick").alias is None
    assert ast.FacetSig("Find") == ast.FacetSig("Find", frozen(), None, frozen())
    assert ast.Program() == ast.Program(*[frozen() for _ in range(6)])


# Equality


def test_two_texts_that_differ_in_layout_have_equal_trees() -> None:
    assert parse(TEXT) == parse(" ".join(TEXT.split()))


def test_places_and_ids_take_no_part_in_equality_and_repr() -> None:
    here = ast.TypeRef("Book", location=SourceLocation(1, 1))
    there = ast.TypeRef("Book", location=SourceLocation(9, 9, source_id="file://b.afl"))
    assert here == there
    assert here.node_id != there.node_id
    assert repr(here) == repr(there) == "TypeRef(name='Book')"


def test_nodes_of_different_kinds_are_never_equal() -> None:
    sig = ast.FacetSig("Find")
    declarations: list[ast.ASTNode] = [
        ast.FacetDecl(sig),
        ast.EventFacetDecl(sig),
        ast.WorkflowDecl(sig),
    ]
    mixins: list[ast.ASTNode] = [ast.MixinSig("Quick"), ast.MixinCall("Quick")]
    assert [len(set(each)) for each in (declarations, mixins)] == [3, 2]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (ast.Literal(1, "integer"), ast.Literal(1.0, "double")),
        (ast.Literal(1, "integer"), ast.Literal(True, "boolean")),
        (ast.Literal("1", "string"), ast.Literal(1, "integer")),
    ],
)
def test_literals_of_different_kinds_are_different(left: ast.Literal, right: ast.Literal) -> None:
    assert left != right
    assert len({left, right}) == 2


def test_a_literal_is_nothing_but_a_literal() -> None:
    assert ast.Literal(1, "integer") != 1


def test_equal_trees_have_equal_hashes() -> None:
    assert hash(parse(TEXT)) == hash(parse(TEXT))


# Ids


def test_a_node_id_is_a_random_uuid_and_stays() -> None:
    node = ast.TypeRef("Book")
    assert uuid.UUID(node.node_id).version == 4
    assert len({node.node_id for _ in range(3)}) == 1


def test_no_two_nodes_of_a_tree_share_an_id() -> None:
    nodes = list(ast.walk(parse(TEXT)))
    assert len({each.node_id for each in nodes}) == len(nodes)


# Frozen


def test_a_field_cannot_be_set() -> None:
    node = ast.TypeRef("Book")
    with pytest.raises(FrozenInstanceError):
        node.name = "Page"  # type: ignore[misc]


def test_a_list_of_a_tree_is_equal_to_a_plain_list() -> None:
    call = ast.CallExpr("Find", FrozenList([ast.NamedArg("a", ast.Literal(1, "integer"))]))
    assert call.args == [ast.NamedArg("a", ast.Literal(1, "integer"))]
    assert isinstance(call.args, list)
    assert call.mixins == []


@pytest.mark.parametrize(
    "change",
    [
        lambda items: items.append(1),
        lambda items: items.extend([1]),
        lambda items: items.insert(0, 1),
        lambda items: items.remove(1),
        lambda items: items.pop(),
        lambda items: items.clear(),
        lambda items: items.sort(),
        lambda items: items.reverse(),
        lambda items: items.__setitem__(0, 1),
        lambda items: items.__delitem__(0),
        lambda items: items.__iadd__([1]),
        lambda items: items.__imul__(2),
    ],
)
def test_a_list_of_a_tree_refuses_to_change(change: object) -> None:
    items = FrozenList([1, 2])
    assert callable(change)
    with pytest.raises(TypeError, match="syntax trees do not change"):
        change(items)
    assert items == [1, 2]


def test_a_tree_can_be_copied_and_pickled() -> None:
    tree = parse(TEXT)
    assert copy.deepcopy(tree) == tree
    assert pickle.loads(pickle.dumps(tree)) == tree


# Walking


def test_walking_goes_parents_first_and_in_order() -> None:
    (facet,) = parse("facet Find(a: [Int] = [1, 2])").facets
    names = [type(each).__name__ for each in ast.walk(facet)]
    assert names == [
        "FacetDecl", "FacetSig", "Parameter", "ArrayType", "TypeRef",
        "ArrayLiteral", "Literal", "Literal",
    ]  # fmt: skip


def test_walking_a_deep_tree_costs_no_stack() -> None:
    block = ast.AndThenBlock(ast.Block())
    for _ in range(5000):
        step = ast.StepStmt("s", ast.CallExpr("Find"), block)
        block = ast.AndThenBlock(ast.Block(FrozenList([step])))
    assert sum(isinstance(each, ast.StepStmt) for each in ast.walk(block)) == 5000


# Bodies and blocks


def body_of(text: str) -> object:
    return parse(text).workflows[0].body


def test_no_block_is_none_one_is_itself_and_several_are_a_list() -> None:
    assert body_of("workflow W()") is None
    assert isinstance(body_of("workflow W() andThen { }"), ast.AndThenBlock)
    several = body_of("workflow W() andThen { } andThen { }")
    assert several == [ast.AndThenBlock(ast.Block()), ast.AndThenBlock(ast.Block())]


def test_a_body_can_be_a_prompt_or_a_script() -> None:
    assert body_of('workflow W() prompt { template "t" }') == ast.PromptBlock(template="t")
    assert body_of('workflow W() script "pass"') == ast.ScriptBlock("python", "pass")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("workflow W()", 0),
        ('workflow W() script "pass"', 0),
        ("workflow W() andThen { }", 1),
        ("workflow W() andThen { } andThen { }", 2),
    ],
)
def test_blocks_can_be_read_as_a_list_whatever_their_number(text: str, count: int) -> None:
    assert len(parse(text).workflows[0].bodies) == count


def test_the_yield_of_a_block_is_its_first() -> None:
    (first, second) = (ast.YieldStmt(ast.CallExpr(name)) for name in ("A", "B"))
    assert ast.Block().yield_stmt is None
    assert ast.Block(frozen(), FrozenList([first, second])).yield_stmt is first


# Programs


def test_merged_programs_follow_one_another() -> None:
    merged = ast.Program.merge(
        [
            parse("namespace a { } facet F() workflow W() schema S { }"),
            parse("event facet E() facet G() implicit i = F() namespace a { }"),
        ]
    )
    assert [each.name for each in merged.namespaces] == ["a", "a"]
    assert [each.name for each in merged.facets] == ["F", "G"]
    assert [each.name for each in merged.declarations] == ["F", "G", "E", "W", "i", "S"]


def test_merging_changes_no_part() -> None:
    first, second = parse("facet F()"), parse("facet G()")
    ast.Program.merge([first, second])
    assert (first, second) == (parse("facet F()"), parse("facet G()"))


def test_merging_nothing_is_an_empty_program() -> None:
    assert ast.Program.merge([]) == ast.Program()


def test_a_namespace_knows_its_declarations() -> None:
    (namespace,) = parse(TEXT).namespaces
    assert [each.name for each in namespace.callables] == ["Lend"]
    assert [each.name for each in namespace.declarations] == ["Lend", "Book"]
    assert [each.name for each in namespace.uses] == ["town"]
