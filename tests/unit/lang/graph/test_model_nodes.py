"""Which nodes the picture of a workflow has, and how they begin and end."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.lang.graph.kitchen import HEAD, graph_of, kinds, node, reads, starts, step

import afl
from afl.ids import stable_id
from afl.lang.graph import NodeKind, workflow_graph
from afl.lang.program import UnknownWorkflow


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
