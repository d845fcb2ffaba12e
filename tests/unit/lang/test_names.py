"""Which declaration a name means: near before far, never a guess, never by accident ours."""

from __future__ import annotations

import pytest

from afl.lang.names import Declared, Names, Resolution, prelude, reserved_namespaces, similar
from afl.lang.parser import parse

TOWN = """
facet Bell(tone: Long)
facet Gate(wide: Boolean)
facet Well(deep: Long)
namespace mill {
    facet Gate(narrow: Boolean)
    facet Wheel(spokes: Long)
    schema Sack { grain: String }
}
namespace smithy {
    facet Anvil(weight: Long)
    facet Wheel(rim: String)
    schema Nail { length: Long }
}
namespace square {
    use mill
    use smithy
    facet Gate(iron: Boolean)
    schema Bell { cast: String }
}
namespace chapel {
    use mill
}
"""


def names(text: str = TOWN) -> Names:
    return Names(parse(text))


def meant(namespace: str, name: str, text: str = TOWN) -> str | None:
    found = names(text).resolve(namespace, name)
    return found.declared.qualified if found.declared else None


def meant_type(namespace: str, name: str, text: str = TOWN) -> str | None:
    found = names(text).resolve_schema(namespace, name)
    return found.declared.qualified if found.declared else None


def candidates(resolution: Resolution) -> list[str]:
    return sorted(each.qualified for each in resolution.candidates)


# The order of places


def test_the_own_namespace_comes_before_used_ones_and_the_top_level() -> None:
    assert meant("square", "Gate") == "square.Gate"


def test_the_top_level_has_names_of_its_own() -> None:
    assert meant("", "Gate") == "Gate"


def test_a_used_namespace_is_searched() -> None:
    assert meant("chapel", "Wheel") == "mill.Wheel"


def test_the_top_level_is_seen_from_every_namespace() -> None:
    assert meant("smithy", "Well") == "Well"


def test_a_name_that_one_namespace_alone_has_is_found_without_a_use() -> None:
    assert meant("chapel", "Anvil") == "smithy.Anvil"
    assert meant("", "Anvil") == "smithy.Anvil"


def test_a_dotted_name_is_the_whole_name() -> None:
    assert meant("smithy", "mill.Wheel") == "mill.Wheel"
    assert meant("square", "town.mill.Wheel") is None
    assert meant("mill", "mill.Anvil") is None


def test_a_namespace_is_no_prefix_of_others() -> None:
    text = "namespace a.b { facet F() facet G() } namespace c.b { facet F() }"
    assert meant("a", "b.F", text) is None
    assert meant("a", "a.b.F", text) == "a.b.F"


def test_an_unknown_name_means_nothing() -> None:
    found = names().resolve("square", "Tower")
    assert found.declared is None
    assert not found.is_ambiguous


# Ambiguity


def test_two_used_namespaces_with_one_name_are_ambiguous() -> None:
    found = names().resolve("square", "Wheel")
    assert found.declared is None
    assert found.is_ambiguous
    assert candidates(found) == ["mill.Wheel", "smithy.Wheel"]


def test_a_used_namespace_and_the_top_level_are_ambiguous() -> None:
    found = names().resolve("chapel", "Gate")
    assert candidates(found) == ["Gate", "mill.Gate"]


def test_two_namespaces_that_nobody_uses_are_ambiguous() -> None:
    found = names().resolve("", "Wheel")
    assert candidates(found) == ["mill.Wheel", "smithy.Wheel"]


def test_a_near_answer_hides_far_ambiguity() -> None:
    assert meant("mill", "Wheel") == "mill.Wheel"


def test_using_a_namespace_twice_is_using_it_once() -> None:
    text = "namespace a { facet F() } namespace b { use a use a }"
    assert meant("b", "F", text) == "a.F"


def test_using_what_does_not_exist_finds_nothing() -> None:
    assert meant("b", "F", "namespace b { use nowhere }") is None


# Schemas


def test_a_type_is_a_schema_even_if_a_facet_of_that_name_is_nearer() -> None:
    assert meant_type("", "Bell") == "square.Bell"
    assert meant("", "Bell") == "Bell"


def test_a_facet_is_no_type() -> None:
    assert meant_type("smithy", "Anvil") is None
    assert meant_type("", "smithy.Anvil") is None


def test_types_follow_the_same_order_of_places() -> None:
    assert meant_type("chapel", "Sack") == "mill.Sack"
    assert meant_type("", "Nail") == "smithy.Nail"
    assert meant_type("", "mill.Sack") == "mill.Sack"


def test_two_schemas_of_one_name_are_ambiguous() -> None:
    text = "namespace a { schema S { } } namespace b { schema S { } }"
    assert candidates(names(text).resolve_schema("", "S")) == ["a.S", "b.S"]


def test_a_schema_can_be_called() -> None:
    assert meant("chapel", "Sack") == "mill.Sack"


# The prelude


@pytest.mark.parametrize("name", ["Retry", "Timeout", "log", "assert"])
def test_a_bare_name_never_means_the_prelude(name: str) -> None:
    assert meant("", name) is None
    assert meant("square", name) is None


def test_the_prelude_is_there_by_its_full_names() -> None:
    assert meant("square", "afl.Retry") == "afl.Retry"
    assert meant("", "sys.log") == "sys.log"


def test_a_facet_of_the_program_is_never_taken_for_one_of_the_prelude() -> None:
    text = "namespace own { facet Retry(knob: Long) } namespace far { }"
    assert meant("own", "Retry", text) == "own.Retry"
    assert meant("far", "Retry", text) == "own.Retry"
    assert meant("own", "afl.Retry", text) == "afl.Retry"


def test_who_uses_the_prelude_may_call_it_by_short_names() -> None:
    assert meant("hall", "Retry", "namespace hall { use afl }") == "afl.Retry"


def test_the_prelude_is_no_part_of_the_program() -> None:
    assert [each.qualified for each in names("facet F()").all()] == ["F"]
    assert names().find("afl.Retry") is not None


def test_the_prelude_is_read_once() -> None:
    assert prelude() is prelude()
    assert reserved_namespaces() == {"afl", "sys"}


# Questions about the whole program


def test_all_declarations_come_with_their_qualified_names() -> None:
    found = {each.qualified: each.kind for each in names().all()}
    assert len(found) == 11
    assert found["Bell"] == "facet"
    assert found["mill.Sack"] == "schema"


def test_a_declaration_is_found_by_its_qualified_name_only() -> None:
    found = names().find("mill.Wheel")
    assert found is not None
    assert found.name == "Wheel"
    assert found.namespace == "mill"
    assert names().find("Wheel") is None


def test_namespaces_are_those_of_the_program_and_of_the_language() -> None:
    assert set(names().namespaces()) == {"afl", "sys", "mill", "smithy", "square", "chapel"}


def test_parts_of_a_namespace_belong_together() -> None:
    text = "namespace a { facet F() use b } namespace b { facet H() } namespace a { facet G() }"
    assert meant("a", "F", text) == "a.F"
    assert meant("a", "G", text) == "a.G"
    assert meant("a", "H", text) == "b.H"


def test_of_two_declarations_with_one_name_the_first_counts() -> None:
    found = names("facet F(a: Long) facet F(b: Long)").resolve("", "F").declared
    assert found is not None
    assert list(found.params) == ["a"]


def test_an_implicit_holds_in_its_namespace_and_one_of_the_top_level_everywhere() -> None:
    text = """
        implicit clerk = Person()
        namespace bank { implicit vault = Person() }
        namespace shop { }
    """
    found = names(text)
    assert found.has_implicit("bank", "vault")
    assert found.has_implicit("bank", "clerk")
    assert found.has_implicit("", "clerk")
    assert not found.has_implicit("shop", "vault")
    assert not found.has_implicit("", "vault")


def test_the_same_question_has_the_same_answer() -> None:
    index = names()
    assert index.resolve("square", "Gate") is index.resolve("square", "Gate")


# What somebody may have meant


def test_similar_names_of_a_bare_name_are_the_bare_names_there_are() -> None:
    assert "Wheel" in names().similar_to("Weel")
    assert "Retry" not in names().similar_to("Rety")


def test_similar_names_of_a_dotted_name_share_its_last_part_or_its_namespace() -> None:
    assert names().similar_to("town.Anvil") == ["smithy.Anvil"]
    assert names().similar_to("smithy.Anvl") == ["smithy.Anvil"]
    assert names().similar_to("smithy.Tower") == []
    assert names().similar_to("afl.Rety") == ["afl.Retry"]


def test_a_long_namespace_alone_makes_no_two_names_similar() -> None:
    text = "namespace a.very.long.namespace { facet Bread() facet Butter() }"
    index = names(text)
    assert similar("a.very.long.namespace.Jam", index.all()) == []


# Declarations


def declared(text: str, name: str) -> Declared:
    found = Names(parse(text)).find(name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("facet X()", "facet"),
        ("event facet X()", "event facet"),
        ("workflow X()", "workflow"),
        ("schema X { }", "schema"),
    ],
)
def test_a_declaration_knows_its_kind(text: str, kind: str) -> None:
    found = declared(text, "X")
    assert found.kind == kind
    assert found.is_schema == (kind == "schema")
    assert found.is_event == (kind == "event facet")
    assert repr(found) == f"<{kind} X>"


def test_a_facet_lists_its_parameters_returns_and_mixins() -> None:
    found = declared("facet X(a: Long, b: String) => (c: Long) with Y() with Z() as z", "X")
    assert list(found.params) == ["a", "b"]
    assert list(found.returns) == ["c"]
    assert [each.name for each in found.mixins] == ["Y", "Z"]


def test_the_parameters_of_a_schema_are_its_fields() -> None:
    found = declared("namespace n { schema X { a: Long, b: String } }", "n.X")
    assert list(found.params) == ["a", "b"]
    assert found.returns == {}
    assert found.mixins == []
