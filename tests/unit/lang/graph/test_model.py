"""What is in the picture of a workflow: nodes, clusters, edges."""

from __future__ import annotations

import afl
from afl.lang.graph import EdgeKind, Graph, NodeKind, workflow_graph

HEAD = """
namespace kitchen
schema Dish { name: String, plates: Long }
event facet Cook(dish: String) => (pot: String)
facet Serve(pot: String) => (table: String)
workflow Wash(pot: String) => (clean: Boolean)
"""


def graph_of(body: str) -> Graph:
    return workflow_graph(afl.compile_source(f"{HEAD}\nworkflow Dinner{body}"), "Dinner")


def nodes(graph: Graph) -> dict[str, NodeKind]:
    return {each.key: each.kind for each in graph.nodes}


def edges(graph: Graph, kind: EdgeKind = EdgeKind.DATA) -> set[tuple[str, str]]:
    return {(each.source, each.target) for each in graph.edges if each.kind is kind}


def test_steps_are_nodes_of_the_kind_they_call() -> None:
    graph = graph_of(
        """() andThen {
            a = Cook(dish = "soup")
            b = Serve(pot = "x")
            c = Wash(pot = "x")
            d = Dish(name = "x", plates = 2)
            e = Nowhere()
        }"""
    )
    assert nodes(graph) == {
        "input": NodeKind.INPUT,
        "andThen:0/step:a": NodeKind.EVENT,
        "andThen:0/step:b": NodeKind.FACET,
        "andThen:0/step:c": NodeKind.WORKFLOW,
        "andThen:0/step:d": NodeKind.SCHEMA,
        "andThen:0/step:e": NodeKind.UNKNOWN,
    }
    assert [each.target for each in graph.nodes[1:]] == [
        "kitchen.Cook",
        "kitchen.Serve",
        "kitchen.Wash",
        "kitchen.Dish",
        "Nowhere",
    ]


def test_an_edge_goes_from_what_is_read_to_who_reads_it() -> None:
    graph = graph_of(
        """(dish: String) => (table: String) andThen {
            cooked = Cook(dish = $.dish)
            served = Serve(pot = cooked.pot ++ "!")
            yield Dinner(table = served.table)
        }"""
    )
    assert edges(graph) == {
        ("andThen:0/step:cooked", "andThen:0/step:served"),
        ("andThen:0/step:served", "andThen:0/yield:0"),
        ("andThen:0/yield:0", "output"),
    }
    assert edges(graph, EdgeKind.CONTROL) == {("input", "andThen:0/step:cooked")}


def test_sibling_blocks_are_clusters_that_read_each_other() -> None:
    graph = graph_of(
        """() andThen { a = Cook(dish = "x") b = Serve(pot = c.pot) }
             andThen { c = Cook(dish = a.pot) }"""
    )
    assert [each.title for each in graph.clusters] == ["andThen 1", "andThen 2"]
    assert edges(graph) == {
        ("andThen:0/step:a", "andThen:1/step:c"),
        ("andThen:1/step:c", "andThen:0/step:b"),
    }


def test_a_foreach_is_a_cluster_that_waits_for_its_list() -> None:
    graph = graph_of(
        """() andThen { menu = Cook(dish = "x") }
             andThen foreach dish in menu.pot { each = Cook(dish = dish) }"""
    )
    loop = graph.clusters[1]
    assert loop.title == "foreach dish in menu.pot"
    assert ("andThen:0/step:menu", loop.key) in edges(graph)
    assert ("andThen:0/step:menu", "andThen:1/step:each") not in edges(graph)


def test_cases_are_clusters_named_by_their_conditions() -> None:
    graph = graph_of(
        """(n: Long) andThen when {
            case $.n > 1 && $.n != 3 => { a = Cook(dish = "x") }
            case _ => { b = Cook(dish = "y") }
        }"""
    )
    assert [each.title for each in graph.clusters] == [
        "when",
        "case $.n > 1 && $.n != 3",
        "otherwise",
    ]


def test_a_catch_reads_the_steps_that_may_have_failed() -> None:
    graph = graph_of("""() andThen { a = Cook(dish = "x") } catch { b = Serve(pot = a.pot) }""")
    assert ("andThen:0/step:a", "catch/step:b") in edges(graph)


def test_the_body_of_a_step_is_a_cluster_it_owns() -> None:
    graph = graph_of(
        """() andThen {
            a = Cook(dish = "x") andThen { b = Serve(pot = $.pot) yield Cook(pot = b.table) }
            c = Serve(pot = a.pot)
        }"""
    )
    body = graph.clusters[0]
    assert (body.title, body.owner) == ("body of a", "andThen:0/step:a")
    assert "andThen:0/step:a/andThen:0/step:b" in nodes(graph)
    assert not any(each.target == "output" for each in graph.edges)


def test_retries_and_catches_are_marked() -> None:
    graph = graph_of("""() andThen { a = Cook(dish = "x") with afl.Retry(max = 4) catch { } }""")
    step = next(each for each in graph.nodes if each.label == "a")
    assert step.marks == ("retry ×4", "catch")


def test_deep_bodies_need_no_stack() -> None:
    depth = 200
    graph = graph_of(
        "() andThen { " + 's = Cook(dish = "x") andThen { ' * depth + "}" * depth + "}"
    )
    assert len([each for each in graph.nodes if each.kind is NodeKind.EVENT]) == depth


def test_the_same_program_gives_an_equal_graph() -> None:
    body = """() andThen { a = Cook(dish = "x") b = Serve(pot = a.pot) }"""
    assert graph_of(body) == graph_of(body)
