"""Workflows in a small kitchen, and questions about their graphs."""

from __future__ import annotations

import afl
from afl.lang.graph import EdgeKind, Graph, Node, NodeKind, workflow_graph

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
