"""Texts to a program: together, with what they use, and with every problem when it fails."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import afl
from afl.errors import AflError, LanguageError
from afl.lang.codes import Severity
from afl.lang.compiler import Compilation, compile_input, compile_source, compile_sources
from afl.lang.diagnostics import InvalidProgram, ParseError
from afl.lang.sources import CompilerInput, FileOrigin, SourceEntry, TextOrigin


class Shelf:
    """A library in memory, which remembers what it was asked for."""

    def __init__(self, *texts: str) -> None:
        self.asked: list[str] = []
        self._texts = texts

    def find_namespace(self, name: str) -> Sequence[SourceEntry]:
        self.asked.append(name)
        return [
            SourceEntry(text, TextOrigin(f"shelf:{number}"), is_library=True)
            for number, text in enumerate(self._texts)
            if f"namespace {name} " in text
        ]


def source(text: str, name: str = "main.afl") -> SourceEntry:
    return SourceEntry(text, TextOrigin(name))


def compiled(*sources: SourceEntry, libraries: Sequence[Shelf] = ()) -> Compilation:
    return compile_input(CompilerInput(sources), libraries)


# One text


def test_a_text_becomes_a_program() -> None:
    program = compile_source("namespace a { workflow W() andThen { } }")
    assert list(program.workflows) == ["a.W"]
    assert program.warnings == ()


def test_the_names_that_others_know_are_there() -> None:
    assert afl.compile_source is compile_source
    assert afl.compile_sources is compile_sources


def test_an_empty_text_is_an_empty_program() -> None:
    assert list(compile_source("")) == []


def test_warnings_stay_with_the_program() -> None:
    program = compile_source("workflow W() andThen { s = Gone() }", "shop.afl")
    (warning,) = program.warnings
    assert warning.code == "AFL213"
    assert warning.source_id == "shop.afl"


def test_what_is_noted_while_reading_stays_with_the_program_too() -> None:
    (warning,) = compile_source('facet F(x: String = "\\q")').warnings
    assert warning.code == "AFL130"


def test_a_text_without_a_name_has_no_source() -> None:
    with pytest.raises(InvalidProgram) as caught:
        compile_source("schema S { }")
    assert caught.value.diagnostics[0].source_id is None


# Failure


def test_a_text_that_cannot_be_read_raises_every_problem() -> None:
    with pytest.raises(ParseError) as caught:
        compile_source("facet A(\nfacet B()\nfacet (\n", "broken.afl")
    error = caught.value
    assert len(error.diagnostics) >= 2
    assert {each.source_id for each in error.diagnostics} == {"broken.afl"}
    assert error.source_id == "broken.afl"
    assert "more)" in str(error)


def test_a_program_that_breaks_rules_raises_every_problem() -> None:
    with pytest.raises(InvalidProgram) as caught:
        compile_source("facet A()\nfacet A()\nschema S { }\nworkflow W() andThen { yield X() }")
    codes = [each.code for each in caught.value.diagnostics]
    assert codes == ["AFL201", "AFL322", "AFL301"]
    for each in caught.value.diagnostics:
        assert str(each) in str(caught.value)


def test_both_failures_are_errors_of_the_language() -> None:
    for error in (ParseError, InvalidProgram):
        assert issubclass(error, LanguageError)
        assert issubclass(error, AflError)


def test_strict_raises_for_a_warning() -> None:
    text = "workflow W() andThen { s = Gone() }"
    with pytest.raises(InvalidProgram) as caught:
        compile_source(text, strict=True)
    assert [each.severity for each in caught.value.diagnostics] == [Severity.ERROR]


def test_strict_raises_for_what_is_noted_while_reading() -> None:
    with pytest.raises(ParseError):
        compile_source('facet F(x: String = "\\q")', strict=True)


def test_a_compilation_shows_problems_instead_of_raising_them() -> None:
    result = compiled(source("schema S { }\nworkflow W() andThen { s = Gone() }"))
    assert result.program is None
    assert not result.is_unreadable
    assert [each.code for each in result.errors] == ["AFL322"]
    assert [each.code for each in result.warnings] == ["AFL213"]
    with pytest.raises(InvalidProgram):
        result.require()


def test_a_compilation_of_an_unreadable_text_says_so() -> None:
    result = compiled(source("facet ("))
    assert result.program is None
    assert result.is_unreadable
    with pytest.raises(ParseError):
        result.require()


def test_a_compilation_gives_its_program() -> None:
    result = compiled(source("facet F()"))
    assert result.require() is result.program
    assert list(result.registry.sources) == ["main.afl"]


# Several texts


def test_texts_are_one_program() -> None:
    program = compile_sources(
        [
            source("namespace a { use b workflow W() andThen { s = F() } }", "a.afl"),
            source("namespace b { facet F() }", "b.afl"),
        ]
    )
    assert list(program.declarations) == ["a.W", "b.F"]
    assert program.warnings == ()


def test_a_namespace_may_be_spread_over_texts() -> None:
    program = compile_sources(
        [
            source("namespace a\nworkflow W() andThen { s = F() }", "one.afl"),
            source("namespace a\nfacet F()", "two.afl"),
        ]
    )
    assert set(program.declarations) == {"a.W", "a.F"}


def test_problems_of_all_texts_come_together_each_with_its_own_place() -> None:
    with pytest.raises(InvalidProgram) as caught:
        compile_sources(
            [
                source("\nworkflow W() andThen { yield X() }", "b.afl"),
                source("namespace n { use gone }", "a.afl"),
            ]
        )
    found = [(each.source_id, each.line, each.code) for each in caught.value.diagnostics]
    assert found == [("a.afl", 1, "AFL210"), ("b.afl", 2, "AFL301")]


def test_texts_that_cannot_be_read_are_all_reported() -> None:
    with pytest.raises(ParseError) as caught:
        compile_sources([source("facet (", "a.afl"), source("facet )", "b.afl")])
    assert {each.source_id for each in caught.value.diagnostics} == {"a.afl", "b.afl"}


def test_a_duplicate_in_two_texts_is_reported_in_the_later_one() -> None:
    with pytest.raises(InvalidProgram) as caught:
        compile_sources([source("facet A()", "a.afl"), source("\nfacet A()", "b.afl")])
    (error,) = caught.value.diagnostics
    assert (error.code, error.source_id, error.line) == ("AFL201", "b.afl", 2)
    assert "at line 1 of a.afl" in error.message


def test_a_file_is_called_by_its_path_in_messages() -> None:
    entries = [SourceEntry("facet A()", FileOrigin(f"{name}.afl")) for name in "ab"]
    with pytest.raises(InvalidProgram) as caught:
        compile_sources(entries)
    assert "of a.afl)" in caught.value.diagnostics[0].message


def test_namespaces_of_two_texts_that_use_each_other_are_a_circle() -> None:
    result = compiled(
        source("namespace b { use a facet B() }", "one.afl"),
        source("\n\nnamespace a { use b facet A() }", "two.afl"),
    )
    (warning,) = result.warnings
    assert (warning.code, warning.source_id, warning.line) == ("AFL370", "two.afl", 3)
    assert warning.message.endswith(": a → b → a")


def test_a_source_given_twice_is_read_once() -> None:
    entry = source("facet A()")
    assert list(compile_sources([entry, entry]).declarations) == ["A"]


def test_given_library_sources_are_part_of_the_program() -> None:
    given = CompilerInput(
        [source("workflow W() andThen { s = lib.F() }")],
        [SourceEntry("namespace lib { facet F() }", TextOrigin("lib.afl"), is_library=True)],
    )
    assert set(compile_sources(given).declarations) == {"W", "lib.F"}


# Libraries


def test_a_used_namespace_is_found_in_a_library() -> None:
    shelf = Shelf("namespace lib { facet F() }")
    program = compile_source("namespace a { use lib facet G() }", libraries=[shelf])
    assert set(program.declarations) == {"a.G", "lib.F"}


@pytest.mark.parametrize(
    "text",
    [
        "workflow W() andThen { s = lib.x.F() }",
        "facet G() with lib.x.F()",
        "workflow W() andThen { s = G() with lib.x.F() } facet G()",
        "implicit i = lib.x.F()",
        "facet G(s: lib.x.S)",
        "facet G() => (s: [[lib.x.S]])",
        "namespace n { schema T { s: lib.x.S } }",
        "workflow W() andThen { s = G() andThen { t = lib.x.F() } } facet G()",
        "workflow W() andThen when { case _ => { t = lib.x.F() } }",
        "workflow W() andThen { } catch { t = lib.x.F() }",
    ],
)
def test_a_dotted_name_asks_for_its_namespace(text: str) -> None:
    shelf = Shelf("namespace lib.x { facet F() schema S { } }", "namespace lib { facet F() }")
    program = compile_source(text, libraries=[shelf])
    assert program.names.find("lib.x.F") is not None
    assert program.names.find("lib.F") is None


def test_libraries_lean_on_libraries() -> None:
    shelf = Shelf(
        "namespace a { use b facet A() }",
        "namespace b { facet B() with c.C() }",
        "namespace c { facet C(d: d.D) }",
        "namespace d { schema D { } }",
        "namespace e { facet E() }",
    )
    program = compile_source("namespace main { use a }", libraries=[shelf])
    assert set(program.declarations) == {"a.A", "b.B", "c.C", "d.D"}


def test_only_what_is_needed_is_asked_for_and_each_once() -> None:
    shelf = Shelf("namespace a { facet A() with b.B() with b.C() }", "namespace b { facet B() }")
    compiled(
        source(
            "namespace own { facet F() } "
            "namespace main { use a use own workflow W() andThen { s = own.F() t = a.A() } }"
        ),
        libraries=[shelf],
    )
    assert shelf.asked == ["a", "b"]


def test_the_namespaces_of_the_language_are_never_asked_for() -> None:
    shelf = Shelf()
    compiled(
        source("namespace n { use afl facet F() with afl.Retry() with sys.log(message = 1) }"),
        libraries=[shelf],
    )
    assert shelf.asked == []


def test_what_a_later_source_declares_is_not_asked_for() -> None:
    shelf = Shelf("namespace b { facet Wrong() }")
    compiled(
        source("namespace a { use b }", "a.afl"), source("namespace b { }", "b.afl"),
        libraries=[shelf],
    )  # fmt: skip
    assert shelf.asked == []


def test_every_library_source_of_a_namespace_is_read() -> None:
    shelf = Shelf("namespace lib { facet F() }", "namespace lib { facet G() }")
    program = compile_source("namespace a { use lib }", libraries=[shelf])
    assert set(program.declarations) == {"lib.F", "lib.G"}


def test_the_first_library_that_knows_a_namespace_gives_it() -> None:
    first = Shelf("namespace lib { facet F(first: Long) }")
    second = Shelf("namespace lib { facet F(second: Long) }")
    program = compile_source("namespace a { use lib }", libraries=[first, second])
    assert list(program.declarations["lib.F"].params) == ["first"]
    assert second.asked == []


def test_what_no_library_has_is_an_error_of_who_uses_it() -> None:
    result = compiled(source("namespace a { use gone }"), libraries=[Shelf(), Shelf()])
    assert [each.code for each in result.errors] == ["AFL210"]


def test_warnings_about_a_library_are_not_shown() -> None:
    shelf = Shelf('namespace lib { workflow W(x: String = "\\q") andThen { s = Gone() } }')
    result = compiled(source("namespace a { use lib }"), libraries=[shelf])
    assert result.diagnostics == []
    assert result.program is not None


def test_warnings_about_a_library_are_not_shown_in_strict_mode_either() -> None:
    shelf = Shelf("namespace lib { workflow W() andThen { s = Gone() } }")
    program = compile_source("namespace a { use lib }", libraries=[shelf], strict=True)
    assert "lib.W" in program.workflows


def test_errors_of_a_library_are_shown_with_its_name() -> None:
    shelf = Shelf("namespace lib { workflow W() andThen { yield X() } }")
    result = compiled(source("namespace a { use lib }"), libraries=[shelf])
    (error,) = result.errors
    assert error.source_id == "shelf:0"


def test_an_unreadable_library_is_shown_with_its_name() -> None:
    shelf = Shelf("namespace lib { facet ( }")
    result = compiled(source("namespace a { use lib }"), libraries=[shelf])
    assert result.is_unreadable
    assert {each.source_id for each in result.errors} == {"shelf:0"}


def test_libraries_that_use_each_other_are_read_to_an_end() -> None:
    shelf = Shelf("namespace a { use b facet A() }", "namespace b { use a facet B() }")
    result = compiled(source("namespace main { use a }"), libraries=[shelf])
    assert result.program is not None
    assert set(result.program.declarations) == {"a.A", "b.B"}
    assert result.diagnostics == []


def test_all_sources_are_registered_for_drawing() -> None:
    shelf = Shelf("namespace lib { facet F() }")
    result = compiled(source("namespace a { use lib }"), libraries=[shelf])
    assert list(result.registry.texts()) == ["main.afl", "shelf:0"]
