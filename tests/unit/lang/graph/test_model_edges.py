"""What reads what in a workflow, and which clusters stand around it."""

from __future__ import annotations

from tests.unit.lang.graph.kitchen import graph_of, node, reads, starts, titles

from afl.lang.graph import Cluster, ClusterKind, NodeKind


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


def test_steps_of_a_loop_are_not_seen_from_outside_of_it() -> None:
    graph = graph_of(
        """() andThen { a = Cook(dish = "x") }
             andThen foreach d in ["y"] { a = Cook(dish = d) }
             andThen { b = Serve(pot = a.pot) }"""
    )
    assert reads(graph) == {("andThen:0/step:a", "andThen:2/step:b")}


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
