"""What the grammar cannot see: raw scripts, comments, doc comments."""

from __future__ import annotations

import pytest

from afl.lang.ast import DocComment, DocEntry, FrozenList
from afl.lang.parser import parse
from afl.lang.trivia import (
    RAW_CLOSE,
    RAW_OPEN,
    OpenScript,
    code_only,
    comments,
    doc_comments,
    mask_scripts,
    parse_doc,
    script_end,
)


def masked(text: str) -> str:
    """The masked text with its two private characters made visible."""
    return mask_scripts(text).replace(RAW_OPEN, "«").replace(RAW_CLOSE, "»")


# Scripts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("facet Mix() script { a = 1 }", "facet Mix() script « a = 1 »"),
        ("facet Mix() script python {a}", "facet Mix() script python «a»"),
        ("facet Mix() script\n{\n}", "facet Mix() script\n«\n»"),
        ("script /* why */ { x } // {", "script /* why */ « x » // {"),
        ("script {a} andThen script {b}", "script «a» andThen script «b»"),
        ("script { {1: {}} }", "script « {1: {}} »"),
        ("script { '}' }", "script « '}' »"),
        ('script { "}" }', 'script « "}" »'),
        ("script { \"\\\"}\" + '\\'}' }", "script « \"\\\"}\" + '\\'}' »"),
        ('script { """ } " } """ }', 'script « """ } " } """ »'),
        ("script { ''' } ' } ''' }", "script « ''' } ' } ''' »"),
        ("script { # it's a }\n}", "script « # it's a }\n»"),
        ("script { f'{a}' }", "script « f'{a}' »"),
        ("script { '\\\n}' }", "script « '\\\n}' »"),
        ("script { '\\\r\n}' }", "script « '\\\r\n}' »"),
        ('script { "\\\r\n}" }', 'script « "\\\r\n}" »'),
    ],
)
def test_the_braces_of_a_script_are_masked(text: str, expected: str) -> None:
    assert masked(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "facet Mix() andThen { }",
        'facet Mix() script "a = {}"',
        "// script { }",
        "/* script { } */",
        'facet Mix(a: String = "script { }")',
        "schema script { a: Int }",
        "namespace script { }",
        "namespace kitchen.script { }",
        "workflow Mix() andThen foreach a in script { }",
        "workflow Mix() andThen foreach a in $.script { }",
        "workflow Mix() andThen foreach a in jobs.script { }",
        "workflow Mix() andThen foreach a in jobs[0] . script { }",
        "workflow Mix() andThen foreach a in jobs[0]. /* all */ script { }",
        "facet Mix() with Tool() as script andThen { }",
        "facet Mix() andThen { script = Mix() andThen { } }",
        "facet manuscript { }",
    ],
)
def test_other_braces_are_left_alone(text: str) -> None:
    assert mask_scripts(text) == text


def test_masking_moves_nothing() -> None:
    text = "facet Mix() script {\n  a = {1: '}'}\n}\nfacet Stir() script { b }"
    result = mask_scripts(text)
    assert len(result) == len(text)
    changed = [text[i] for i in range(len(text)) if text[i] != result[i]]
    assert changed == ["{", "}", "{", "}"]


def test_a_script_without_an_end_is_told_by_its_offset() -> None:
    with pytest.raises(OpenScript) as caught:
        mask_scripts("facet Mix() script { a = {1: 2}")
    assert caught.value.offset == len("facet Mix() ")


def test_the_end_of_a_script_is_its_own_brace() -> None:
    text = "{ a = {} } rest }"
    assert script_end(text, 1) == 9
    assert script_end("{ a = {} ", 1) is None


# Comments


def test_comments_are_found_in_order_with_their_places() -> None:
    text = 'a /* one */ "/* no */" // two\n/* three\n */'
    found = comments(text)
    assert [each.text for each in found] == ["/* one */", "// two", "/* three\n */"]
    assert all(text[each.start : each.end] == each.text for each in found)


def test_a_comment_in_a_script_belongs_to_the_script() -> None:
    assert comments(mask_scripts("script { a // b\n /* c */ } // d")) == [
        (len("script { a // b\n /* c */ } "), len("script { a // b\n /* c */ } // d"), "// d")
    ]


@pytest.mark.parametrize("text", ["/** doc */", "/**doc*/", "/**\n * doc\n */", "/** */"])
def test_a_comment_with_two_stars_is_a_doc_comment(text: str) -> None:
    assert comments(text)[0].is_doc


@pytest.mark.parametrize("text", ["/* a */", "// a", "/**/", "/***/", "/*** a ***/", "//** a */"])
def test_other_comments_are_none(text: str) -> None:
    assert not comments(text)[0].is_doc


def test_only_code_is_left() -> None:
    text = 'a "b" // c\n/* d\n */ script { e\n } f'
    assert code_only(text) == "a         \n    \n    script    \n   f"
    assert len(code_only(text)) == len(text)


def test_code_ends_where_a_script_has_no_end() -> None:
    assert code_only("facet Mix() script { a") == "facet Mix() "


# Doc comments


def doc(
    description: str = "",
    params: list[tuple[str, str]] | None = None,
    returns: list[tuple[str, str]] | None = None,
) -> DocComment:
    return DocComment(
        description,
        FrozenList([DocEntry(*each) for each in params or []]),
        FrozenList([DocEntry(*each) for each in returns or []]),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/** Bakes bread. */", doc("Bakes bread.")),
        ("/** */", doc()),
        ("/**Bakes.**/", doc("Bakes.")),
        ("/**\n * Bakes bread.\n *\n * Slowly.\n */", doc("Bakes bread.\n\nSlowly.")),
        ("/**\n   Bakes bread.\n   Slowly.\n */", doc("Bakes bread.\nSlowly.")),
        ("/**\r\n * Bakes.\r\n * @param a one\r\n */", doc("Bakes.", [("a", "one")])),
        ("/** @param a one\n * @param b\n * two\n */", doc("", [("a", "one"), ("b", "two")])),
        ("/** @return x it\n @returns y that */", doc("", [], [("x", "it"), ("y", "that")])),
        ("/** See @param in text. */", doc("See @param in text.")),
        ("/** Bakes.\n * @param\n */", doc("Bakes.")),
        ("/** Bakes.\n * - one\n *   - two\n */", doc("Bakes.\n- one\n  - two")),
        ("/** 2 * 3 */", doc("2 * 3")),
    ],
)
def test_a_doc_comment_is_taken_apart(text: str, expected: DocComment) -> None:
    assert parse_doc(text) == expected


def test_a_doc_comment_belongs_to_the_word_that_follows() -> None:
    text = "/** Bread. */\n// crusty\n/* warm */ facet Loaf()"
    assert doc_comments(text) == {text.index("facet"): doc("Bread.")}


def test_the_last_of_several_doc_comments_counts() -> None:
    text = "/** Old. */ /** New. */ facet Loaf()"
    assert doc_comments(text) == {text.index("facet"): doc("New.")}


def test_text_in_a_string_is_no_doc_comment() -> None:
    assert doc_comments('"/** no */" facet Loaf()') == {}


def test_a_doc_comment_on_a_statement_means_nothing() -> None:
    text = "workflow Bake() andThen { /** Kneads. */ a = Knead() }"
    assert parse(text) == parse(text.replace("/** Kneads. */", ""))


@pytest.mark.parametrize("name", ["in", "schema", "namespace", "foreach", "as"])
def test_a_keyword_at_the_end_of_a_qualified_name_is_a_part_of_that_name(name: str) -> None:
    text = f"namespace a {{ use b.{name} schema script {{ x: Long }} }}"
    assert mask_scripts(text) == text
