"""What is in the picture of a workflow: nodes, clusters, edges."""

from __future__ import annotations

from typing import Any

import pytest

import afl
from afl.ids import stable_id
from afl.lang.graph import Cluster, ClusterKind, EdgeKind, Graph, Node, NodeKind, workflow_graph
from afl.lang.program import UnknownWorkflow

HEAD = """
namespace kitchen {
    schema Dish { name: String, plates: Long }
    event facet Cook(dish: String) => (pot: String)
    event facet Bake(dish: String) => (loaf: String) with afl.Retry(max = 2)
    event facet Praise(dish: String) => (words: String) prompt { template "Praise {dish}" }
    facet Serve(pot: String) => (table: String)
    facet Weigh(pot: String) => (grams: Long) script "result['grams'] = 1"
    workflow Wash(pot: String) => (clean: Boolean)
}
namespace hotel {
    facet Cook(dish: String) => (pot: String)
}
"""


def graph_of(body: str) -> Graph:
    text = f"{HEAD}\nnamespace kitchen {{ workflow Dinner{body} }}"
    return workflow_graph(afl.compile_source(text), "Dinner")


def kinds(graph: Graph) -> dict[str, NodeKind]:
    return {each.key: each.kind for each in graph.nodes}


def node(graph: Graph, key: str) -> Node:
    return next(each for each in graph.nodes if each.key == key)


def step(graph: Graph, label: str) -> Node:
    return next(each for each in graph.nodes if each.label == label)


def titles(graph: Graph) -> dict[str, str]:
    return {each.key: each.title for each in graph.clusters}


def reads(graph: Graph) -> set[tuple[str, str]]:
    return _edges(graph, EdgeKind.DATA)


def starts(graph: Graph) -> set[tuple[str, str]]:
    return _edges(graph, EdgeKind.CONTROL)


def _edges(graph: Graph, kind: EdgeKind) -> set[tuple[str, str]]:
    return {(each.source, each.target) for each in graph.edges if each.kind is kind}


# Nodes


def test_steps_are_nodes_of_the_kind_they_call() -> None:
    graph = graph_of(
        """() andThen {
            a = Cook(dish = "soup")
            b = Serve(pot = "x")
            c = Wash(pot = "x")
            d = Dish(name = "x", plates = 2)
            e = Nowhere()
            f = hotel.Cook(dish = "soup")
        }"""
    )
    assert kinds(graph) == {
        "input": NodeKind.INPUT,
        "andThen:0/step:a": NodeKind.EVENT,
        "andThen:0/step:b": NodeKind.FACET,
        "andThen:0/step:c": NodeKind.WORKFLOW,
        "andThen:0/step:d": NodeKind.SCHEMA,
        "andThen:0/step:e": NodeKind.UNKNOWN,
        "andThen:0/step:f": NodeKind.FACET,
    }
    assert {each.label: (each.target, each.summary) for each in graph.nodes[1:]} == {
        "a": ("kitchen.Cook", "Cook"),
        "b": ("kitchen.Serve", "Serve"),
        "c": ("kitchen.Wash", "Wash"),
        "d": ("kitchen.Dish", "Dish"),
        "e": ("Nowhere", "Nowhere"),
        "f": ("hotel.Cook", "Cook"),
    }


def test_keys_are_the_paths_that_ids_of_a_compiled_program_are_made_from() -> None:
    body = """(n: Long) => (x: String) andThen {
        a = Cook(dish = "x") andThen foreach d in $.dish { b = Cook(dish = "y") }
            catch when { case a.error != "" => { c = Serve(pot = "") } case _ => { } }
    } andThen when { case $.n > 1 => { yield Dinner(x = "") } case _ => { } }
    andThen script "pass" catch { d = Serve(pot = "") }"""
    program = afl.compile_source(f"{HEAD}\nnamespace kitchen {{ workflow Dinner{body} }}")
    ids = set(_ids(program.to_dict()))
    for each in workflow_graph(program, "Dinner").nodes:
        if each.kind not in (NodeKind.INPUT, NodeKind.OUTPUT):
            assert stable_id("afl", f"/namespace:kitchen/workflow:Dinner/{each.key}") in ids


def _ids(value: Any) -> list[str]:
    if isinstance(value, list):
        return [found for each in value for found in _ids(each)]
    if not isinstance(value, dict):
        return []
    return [value.get("id", ""), *(found for each in value.values() for found in _ids(each))]


def test_a_node_says_its_statement_in_full_on_one_line() -> None:
    graph = graph_of(
        """(n: Long) andThen {
            a = Cook(dish = "a\nb\nc" ++ ($.n + 1) * -2) with Serve(pot = [1, null][0]) as s
            b = Serve(pot = #{k: true, "k 2": 1.5} || !(a.pot in $.n))
        }"""
    )
    assert step(graph, "a").text == (
        r'a = Cook(dish = "a\nb\nc" ++ ($.n + 1) * -2) with Serve(pot = [1, null][0]) as s'
    )
    assert step(graph, "b").text == ('b = Serve(pot = #{k: true, "k 2": 1.5} || !(a.pot in $.n))')


def test_marks_tell_what_else_a_step_asks_for() -> None:
    graph = graph_of(
        """(n: Long) andThen {
            a = Cook(dish = "x") with afl.Retry(max = 4) with afl.Timeout(after = "5m") catch { }
            b = Bake(dish = "x")
            c = Bake(dish = "x") with afl.Retry(max = $.n)
            d = Praise(dish = "x")
            e = Weigh(pot = "x")
            f = Cook(dish = "x") with afl.Retry()
        }"""
    )
    assert {each.label: each.marks for each in graph.nodes if each.marks} == {
        "a": ("retry ×4", "timeout 5m", "catch"),
        "b": ("retry ×2",),
        "c": ("retry",),
        "d": ("prompt",),
        "e": ("script",),
        "f": ("retry ×3",),
    }


def test_a_facet_of_the_users_own_that_is_called_retry_marks_nothing() -> None:
    text = """facet Retry(max: Long)
    event facet Cook()
    workflow W() andThen { a = Cook() with Retry(max = 3) }"""
    graph = workflow_graph(afl.compile_source(text), "W")
    assert step(graph, "a").marks == ()


def test_statements_without_a_step_name_are_called_what_they_call() -> None:
    graph = graph_of('() andThen { sys.log("hello") named = sys.log(message = "x") }')
    assert [(each.label, each.target) for each in graph.nodes[1:]] == [
        ("sys.log", "sys.log"),
        ("named", "sys.log"),
    ]


def test_scripts_are_nodes() -> None:
    graph = graph_of(
        """() => (x: Long) script { result["x"] = 1 }
        andThen { a = Cook(dish = "") }
        andThen script { result["x"] = 2 }"""
    )
    assert kinds(graph)["preScript"] is kinds(graph)["andThen:1/script"] is NodeKind.SCRIPT
    assert starts(graph) == {
        ("input", "preScript"),
        ("preScript", "andThen:0/step:a"),
        ("preScript", "andThen:1/script"),
    }
    assert reads(graph) == {("andThen:1/script", "output")}


def test_a_workflow_may_be_a_script_only() -> None:
    graph = graph_of('() => (x: Long) script { result["x"] = 1 }')
    assert starts(graph) == {("input", "body")}
    assert reads(graph) == {("body", "output")}


# Ends


def test_the_input_has_the_parameters_and_the_output_the_returns() -> None:
    graph = graph_of(
        """(dish: String, guests: [String] = ["Jo"]) => (table: String, bill: Double)
        andThen { yield Dinner(table = "x") }"""
    )
    start, end = node(graph, "input"), node(graph, "output")
    assert (start.label, start.summary) == ("Dinner", "dish, guests")
    assert start.text == 'kitchen.Dinner(dish: String, guests: [String] = ["Jo"])'
    assert (end.kind, end.summary) == (NodeKind.OUTPUT, "table, bill")


def test_without_returns_there_is_no_output() -> None:
    assert "output" not in kinds(graph_of('() andThen { a = Cook(dish = "x") }'))


def test_a_workflow_without_a_body_goes_from_input_to_output() -> None:
    assert starts(graph_of("() => (x: Long)")) == {("input", "output")}


def test_the_input_starts_what_waits_for_nothing_else() -> None:
    graph = graph_of(
        """(n: Long, all: [String]) => (x: String) andThen {
            a = Cook(dish = "x")
            b = Serve(pot = a.pot)
            yield Dinner(x = "now")
        }
        andThen foreach each in $.all { c = Cook(dish = each) }
        andThen when { case $.n > 1 => { d = Cook(dish = "y") } case _ => { } }
        andThen when { case a.pot == "" => { e = Cook(dish = "y") } case _ => { } }
        catch { f = Cook(dish = "z") }"""
    )
    assert starts(graph) == {
        ("input", "andThen:0/step:a"),
        ("input", "andThen:0/yield:0"),
        ("input", "andThen:1"),
        ("input", "andThen:2"),
    }


def test_yields_of_all_blocks_of_the_workflow_reach_the_output() -> None:
    graph = graph_of(
        """(all: [String]) => (x: Json) with Serve(pot = "x")
        andThen { yield Dinner(x = "a") with Serve(table = "b") }
        andThen foreach each in $.all { yield Dinner(x = each) }
        andThen when { case _ => { yield Dinner(x = "c") } }
        catch { yield Dinner(x = "d") }"""
    )
    yields = {each.key: each.target for each in graph.nodes if each.kind is NodeKind.YIELD}
    assert yields == {
        "andThen:0/yield:0": "kitchen.Dinner",
        "andThen:0/yield:1": "kitchen.Serve",
        "andThen:1/yield:0": "kitchen.Dinner",
        "andThen:2/when/case:0/yield:0": "kitchen.Dinner",
        "catch/yield:0": "kitchen.Dinner",
    }
    assert reads(graph) == {(key, "output") for key in yields}


def test_an_unknown_workflow_is_refused() -> None:
    with pytest.raises(UnknownWorkflow):
        workflow_graph(afl.compile_source(HEAD), "Nothing")


# Edges


def test_an_edge_goes_from_what_is_read_to_who_reads_it() -> None:
    graph = graph_of(
        """(dish: String) => (table: String) andThen {
            cooked = Cook(dish = $.dish)
            served = Serve(pot = cooked.pot ++ "!")
            mixed = Cook(dish = "x") with Serve(pot = cooked.pot)
            whole = Serve(pot = served)
            yield Dinner(table = served.table ++ cooked.pot ++ cooked.pot)
        }"""
    )
    at = "andThen:0/step:"
    assert reads(graph) == {
        (f"{at}cooked", f"{at}served"),
        (f"{at}cooked", f"{at}mixed"),
        (f"{at}served", f"{at}whole"),
        (f"{at}served", "andThen:0/yield:0"),
        (f"{at}cooked", "andThen:0/yield:0"),
        ("andThen:0/yield:0", "output"),
    }
    assert starts(graph) == {("input", f"{at}cooked")}


def test_sibling_blocks_are_clusters_that_read_each_other() -> None:
    graph = graph_of(
        """() andThen { a = Cook(dish = "x") b = Serve(pot = c.pot) }
             andThen { c = Cook(dish = a.pot) }"""
    )
    assert titles(graph) == {"andThen:0": "andThen 1", "andThen:1": "andThen 2"}
    assert reads(graph) == {
        ("andThen:0/step:a", "andThen:1/step:c"),
        ("andThen:1/step:c", "andThen:0/step:b"),
    }


def test_one_block_needs_no_cluster() -> None:
    assert graph_of('() andThen { a = Cook(dish = "x") }').clusters == ()


def test_a_foreach_is_a_cluster_that_waits_for_its_list() -> None:
    graph = graph_of(
        """() andThen { menu = Cook(dish = "x") other = Cook(dish = "y") }
             andThen foreach dish in menu.pot ++ other.pot { each = Cook(dish = dish) }"""
    )
    assert titles(graph)["andThen:1"] == "foreach dish in menu.pot ++ other.pot"
    assert reads(graph) == {
        ("andThen:0/step:menu", "andThen:1"),
        ("andThen:0/step:other", "andThen:1"),
    }


def test_a_loop_variable_hides_a_step_of_its_name() -> None:
    graph = graph_of(
        """() andThen { dish = Cook(dish = "x") }
             andThen foreach dish in ["a"] { each = Cook(dish = dish) }"""
    )
    assert reads(graph) == set()


def test_cases_are_clusters_named_by_their_conditions() -> None:
    graph = graph_of(
        """(n: Long) andThen { a = Cook(dish = "x") b = Cook(dish = "y") }
        andThen when {
            case $.n > 1 && a.pot != "3" => { c = Cook(dish = "x") }
            case b.pot contains "z" => { d = Serve(pot = a.pot) }
            case _ => { }
        }"""
    )
    assert [(each.title, each.kind, each.parent) for each in graph.clusters[1:]] == [
        ("when", ClusterKind.WHEN, None),
        ('case $.n > 1 && a.pot != "3"', ClusterKind.CASE, "andThen:1"),
        ('case b.pot contains "z"', ClusterKind.CASE, "andThen:1"),
        ("otherwise", ClusterKind.CASE, "andThen:1"),
    ]
    # All conditions are evaluated first, so they start the whole and not a case.
    assert reads(graph) == {
        ("andThen:0/step:a", "andThen:1"),
        ("andThen:0/step:b", "andThen:1"),
        ("andThen:0/step:a", "andThen:1/when/case:1/step:d"),
    }


def test_the_catch_of_a_workflow_reads_the_steps_that_may_have_failed() -> None:
    graph = graph_of('() andThen { a = Cook(dish = "x") } catch { b = Serve(pot = a.pot) }')
    assert graph.clusters == (Cluster("catch", "catch", ClusterKind.CATCH),)
    assert reads(graph) == {("andThen:0/step:a", "catch/step:b")}
    assert starts(graph) == {("input", "andThen:0/step:a")}


def test_a_step_starts_its_own_catch() -> None:
    graph = graph_of(
        """() andThen {
            a = Cook(dish = "x") catch { b = Serve(pot = a.error) }
            c = Cook(dish = "x") catch when {
                case c.error_type == "Burnt" => { d = Cook(dish = "y") }
                case _ => { }
            }
        }"""
    )
    at = "andThen:0/step:"
    assert titles(graph) == {
        f"{at}a/catch": "catch a",
        f"{at}c/catch": "catch c",
        f"{at}c/catch/when/case:0": 'case c.error_type == "Burnt"',
        f"{at}c/catch/when/case:1": "otherwise",
    }
    assert (f"{at}a", f"{at}a/catch") in starts(graph)
    assert reads(graph) == {(f"{at}a", f"{at}a/catch/step:b"), (f"{at}c", f"{at}c/catch")}
    # Between two ends there is one edge; that c is read says more than that it starts.
    assert (f"{at}c", f"{at}c/catch") not in starts(graph)


# Bodies of steps


def test_the_body_of_a_step_is_a_cluster_it_owns() -> None:
    graph = graph_of(
        """() => (x: String) andThen {
            a = hotel.Cook(dish = "x") andThen {
                b = Serve(pot = $.pot)
                yield Cook(pot = b.table)
            }
            c = Serve(pot = a.pot)
            yield Dinner(x = c.table)
        }"""
    )
    at = "andThen:0/step:a"
    assert graph.clusters == (Cluster(f"{at}/body", "body of a", ClusterKind.BODY, None, owner=at),)
    assert (at, f"{at}/body") in starts(graph)
    inner = node(graph, f"{at}/andThen:0/yield:0")
    # `Cook` means the facet of the step here, though the namespace has one of that name.
    assert (inner.target, inner.cluster) == ("hotel.Cook", f"{at}/body")
    assert (inner.key, "output") not in reads(graph)
    assert (at, "andThen:0/step:c") in reads(graph)


def test_loops_and_cases_can_be_the_body_of_a_step() -> None:
    graph = graph_of(
        """() andThen {
            a = Cook(dish = "x") andThen foreach d in $.dish { b = Cook(dish = d) }
            c = Cook(dish = "x") andThen when { case _ => { } }
        }"""
    )
    at = "andThen:0/step:"
    assert {(each.title, each.owner) for each in graph.clusters if each.owner} == {
        ("foreach d in $.dish", f"{at}a"),
        ("when", f"{at}c"),
    }
    assert (f"{at}a", f"{at}a/andThen:0") in starts(graph)
    assert (f"{at}c", f"{at}c/andThen:0") in starts(graph)


def test_several_bodies_of_a_step_stand_in_one_cluster() -> None:
    graph = graph_of(
        """() andThen {
            a = Cook(dish = "x")
                andThen { b = Serve(pot = a.pot) }
                andThen { c = Serve(pot = b.table) }
                andThen script "pass"
        }"""
    )
    at = "andThen:0/step:a"
    assert [(each.key, each.parent) for each in graph.clusters] == [
        (f"{at}/body", None),
        (f"{at}/andThen:0", f"{at}/body"),
        (f"{at}/andThen:1", f"{at}/body"),
    ]
    assert node(graph, f"{at}/andThen:2/script").cluster == f"{at}/body"
    assert reads(graph) == {
        (at, f"{at}/andThen:0/step:b"),
        (f"{at}/andThen:0/step:b", f"{at}/andThen:1/step:c"),
    }


def test_inside_a_body_a_new_step_hides_the_owner_only_from_there_on() -> None:
    graph = graph_of(
        """() andThen {
            a = Cook(dish = "x") andThen { a = Cook(dish = a.pot) b = Serve(pot = a.pot) }
        }"""
    )
    at = "andThen:0/step:a"
    inner = f"{at}/andThen:0/step:"
    assert reads(graph) == {(at, f"{inner}a"), (f"{inner}a", f"{inner}b")}


def test_deep_bodies_need_no_stack() -> None:
    depth = 240
    graph = graph_of(
        "() andThen { " + 's = Cook(dish = "x") andThen { ' * depth + "}" * depth + "}"
    )
    assert len([each for each in graph.nodes if each.kind is NodeKind.EVENT]) == depth


# The graph itself


def test_clusters_come_after_those_around_them_and_every_end_exists() -> None:
    graph = graph_of(
        """(n: Long) => (x: Json) andThen {
            a = Cook(dish = "x") andThen when { case _ => { b = Cook(dish = "") catch { } } }
        } andThen { c = Serve(pot = a.pot) yield Dinner(x = c) }"""
    )
    seen: set[str | None] = {None}
    for cluster in graph.clusters:
        assert cluster.parent in seen
        seen.add(cluster.key)
    assert {each.cluster for each in graph.nodes} <= seen
    ends = {each.key for each in graph.nodes} | seen
    assert all(each.source in ends and each.target in ends for each in graph.edges)


def test_the_same_program_gives_an_equal_graph_that_cannot_change() -> None:
    body = '() andThen { a = Cook(dish = "x") b = Serve(pot = a.pot) }'
    assert graph_of(body) == graph_of(body)
    assert hash(graph_of(body)) == hash(graph_of(body))
