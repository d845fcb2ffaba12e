"""Whatever the text, reading it ends soon, without an exception, and says what is wrong where."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.language.strategies import Mark, Writer, declarations, program_texts

from afl.lang import ast, codes
from afl.lang.decoder import decode_program
from afl.lang.diagnostics import Diagnostic
from afl.lang.emitter import emit_json
from afl.lang.parser import Parsed, parse_text

#: Every construct once, on few characters: it is cut at every one of them.
RICH = """\
/** Shop. @see docs */
namespace shop.core {
  use lib.util
  schema Item { id: Long, tags: [[String]] }
  implicit user = User(name = "J\\u00e9 \\"x\\"") with Auth() as auth
  /** Buys.
   * @param n how many
   * @return ok whether */
  workflow Buy(n: Long = 1, m: Json = #{a: [1.5e3, -2], "b c": null}) => (ok: Boolean)
      with Retry(max = 3) as retry script python { d = {"k": "}"}  # }
  } andThen {
    s = Pay(v = $.n ++ "é" ++ (1 + 2) * 3, w = !true || x.y[0].z in [1]) catch when {
      case s.error == "no" => { sys.log("😀") } case _ => { }
    }
    yield Buy(ok = s.ok && s.n not in $.m["k"]) with Retry(max = 1)
  } andThen foreach i in $.m { t = F() andThen when { case _ => { } } }
    andThen script "x = 1" // done
  catch { sys.assert(condition = 1 >= 2) }
  event facet Ask(q: String) prompt { system "s" template "Q: {q}" model "m" }
};
/* last */ facet Bare()
"""


def check(text: str) -> Parsed:
    """Read the text; every problem is well-formed and lies inside it."""
    parsed = parse_text(text)
    if parsed.tree is None:
        assert parsed.errors
    for each in parsed.problems:
        check_problem(each, text)
    return parsed


def check_problem(problem: Diagnostic, text: str) -> None:
    assert codes.ALL_CODES[problem.code].severity == problem.severity
    assert problem.message
    place = problem.location
    assert place is not None
    assert place.end_line is not None
    assert place.end_column is not None
    lines = text.split("\n")
    start, end = (place.line, place.column), (place.end_line, place.end_column)
    assert (1, 1) <= start <= end
    for line, column in (start, end):
        assert line <= len(lines)
        assert column <= len(lines[line - 1]) + 1


def codes_of(text: str) -> list[str]:
    return [each.code for each in check(text).problems]


# Any text


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    check(data.decode("latin-1"))


@given(st.text(max_size=100))
def test_any_text_is_read_or_refused(text: str) -> None:
    check(text)


FRAGMENTS = [
    *("facet", "event", "workflow", "namespace", "use", "schema", "implicit", "andThen", "foreach"),
    *("in", "when", "case", "catch", "yield", "with", "as", "prompt", "system", "script", "not"),
    *("{", "}", "(", ")", "[", "]", "#{", "=", "=>", "==", "+", "++", "-", "!", ",", ":", ";"),
    *(".", "$", "$.x", '"', '"s"', "\\", "/*", "*/", "//", "/**", "\n", "a", "a.b", "1", "1.5"),
    *("\ufdd0", "\ufdd1", "\r\n", "\ufeff", "'", "#", "|", "&", "@", "é"),
]


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=40), st.sampled_from(["", " "]))
def test_any_mix_of_tokens_is_read_or_refused(fragments: list[str], between: str) -> None:
    check(between.join(fragments))


def test_the_rich_program_has_every_construct() -> None:
    parsed = check(RICH)
    assert parsed.problems == []
    assert parsed.tree is not None
    found = {type(node) for node in ast.walk(parsed.tree)}
    nodes = {each for each in vars(ast).values() if isinstance(each, type)}
    assert found == {
        each for each in nodes if issubclass(each, ast.ASTNode) and not each.__subclasses__()
    }


def test_a_program_cut_anywhere_is_read_or_refused() -> None:
    for offset in range(len(RICH)):
        check(RICH[:offset])


def test_a_program_without_its_beginning_is_read_or_refused() -> None:
    for offset in range(0, len(RICH), 7):
        check(RICH[offset:])


# Damaged programs


@given(program_texts(), st.integers(0, 2**32))
def test_a_damaged_program_is_read_or_refused(text: str, seed: int) -> None:
    check(_damaged(text, random.Random(seed)))


def _damaged(text: str, chance: random.Random) -> str:
    """The text with a few characters or words deleted, inserted, replaced, doubled or swapped."""
    glue = chance.choice(["", " "])
    pieces = text.split(glue) if glue else list(text)
    for _ in range(chance.randint(1, 4)):
        here, there = chance.randrange(len(pieces)), chance.randrange(len(pieces))
        match chance.choice(["delete", "insert", "replace", "double", "swap"]):
            case "delete":
                pieces[here] = ""
            case "insert":
                pieces.insert(here, chance.choice(FRAGMENTS))
            case "replace":
                pieces[here] = chance.choice(FRAGMENTS)
            case "double":
                pieces.insert(here, pieces[here])
            case "swap":
                pieces[here], pieces[there] = pieces[there], pieces[here]
    return glue.join(pieces)


#: Behind a declaration keyword, these look like an operator between two operands.
OPERATOR_WORDS = {"in", "not", "contains", "startsWith", "endsWith"}


def _broken(tokens: list[str | Mark], name: str, chance: random.Random) -> list[str | Mark]:
    """The declaration, somewhere behind its name with a foreign sign or without a closing bracket.

    A closing bracket too many may belong to an earlier problem, so it is not told apart.
    """
    closers = [index for index, token in enumerate(tokens) if token in (")", "]", "}")]
    if closers and chance.random() < 0.5:
        gone = chance.choice(closers)
        return [*tokens[:gone], *tokens[gone + 1 :]]
    # Not between `script` and its code, which would then be read as AFL.
    places = [
        index
        for index in range(tokens.index(name) + 1, len(tokens) + 1)
        if not any(str(token).startswith("{\n") for token in tokens[index : index + 2])
    ]
    here = chance.choice(places)
    return [*tokens[:here], chance.choice(["@", "~", "?"]), *tokens[here:]]


@given(
    st.lists(
        st.tuples(
            declarations(0).filter(lambda each: each.name not in OPERATOR_WORDS), st.booleans()
        ),
        min_size=1,
        max_size=5,
    ),
    st.integers(0, 2**32),
)
def test_every_broken_declaration_is_reported_and_no_other(
    given: list[tuple[Any, bool]], seed: int
) -> None:
    chance = random.Random(seed)
    text = ""
    owners: dict[int, int] = {}
    for index, (node, is_broken) in enumerate(given):
        tokens = Writer().declaration(node)
        part = Writer().join(_broken(tokens, node.name, chance) if is_broken else tokens) + "\n"
        first = text.count("\n") + 1
        owners |= dict.fromkeys(range(first, first + part.count("\n")), index)
        text += part
    reported = {owners[each.location.line] for each in check(text).errors if each.location}
    assert reported == {index for index, (_, is_broken) in enumerate(given) if is_broken}


def test_names_that_look_like_keywords_hide_no_problem() -> None:
    text = "workflow W() andThen { s = F(x = use in $.xs, y = schema contains 1) }\nfacet F(~)"
    assert [(each.code, each.line) for each in check(text).problems] == [("AFL102", 2)]


def test_an_argument_without_a_name_is_reported_where_it_stands() -> None:
    text = "workflow W() andThen {\n s = F(1)\n sys.log(1)\n}"
    assert [(each.code, each.line) for each in check(text).problems] == [("AFL110", 2)]


@pytest.mark.parametrize("text", ["facetF()", "workflow W() andThenforeach x in y { }", "used a"])
def test_keywords_are_whole_words(text: str) -> None:
    assert codes_of(text) == ["AFL101"]


# Depth

#: A text with so many levels of something. All but unary and chains cost a bracket per level.
Nest = Callable[[int], str]


def _value(opening: str, inner: str, closing: str) -> Nest:
    return lambda levels: f"facet F(x: Json = {opening * levels}{inner}{closing * levels})"


def _statement(opening: str, closing: str = "}") -> Nest:
    return lambda levels: "workflow W() andThen {" + opening * levels + closing * levels + "}"


NESTS = {
    "parentheses": _value("(", "1", ")"),
    "arrays": _value("[", "1", "]"),
    "maps": _value("#{a: ", "1", "}"),
    "an index in an index": _value("a[", "1", "]"),
    "an index of an index": _value("", "a", "[1]"),
    "a member of a member": _value("", "a[0]", ".b"),
    "minus": _value("-", "1", ""),
    "not": _value("! ", "a", ""),
    "a sum to the left": _value("", "1", " + 1"),
    "a sum to the right": _value("1 + (", "1", ")"),
    "a condition to the left": _value("", "a", " && b"),
    "a comparison to the right": _value("a == (", "1", ")"),
    "concatenation to the right": _value("a ++ (", "1", ")"),
    "array types": lambda levels: f"facet F(x: {'[' * levels}T{']' * levels})",
    "blocks": _statement("s = F() andThen {"),
    "foreach": _statement("s = F() andThen foreach x in $.xs {"),
    "catch": _statement("s = F() catch {"),
}
#: These cost two brackets per level.
DOUBLE_NESTS = {
    "when": _statement("s = F() andThen when { case true => {", "} case _ => { } }"),
    "catch when": _statement("s = F() catch when { case _ => {", "} }"),
    "a block in a sum": _statement("s = F(x = 1) andThen when { case a + 1 == 2 => {", "} }"),
}


@pytest.mark.parametrize(
    "text",
    [
        *(pytest.param(nest(200), id=name) for name, nest in NESTS.items()),
        *(pytest.param(nest(100), id=name) for name, nest in DOUBLE_NESTS.items()),
    ],
)
def test_two_hundred_levels_are_compiled(text: str) -> None:
    parsed = parse_text(text)
    assert parsed.problems == []
    assert parsed.tree is not None
    check_compiles(parsed.tree)


def check_compiles(tree: ast.Program) -> None:
    # Not compared as trees: equality of nodes recurses, which compiling must not.
    compiled = emit_json(tree)
    assert emit_json(decode_program(json.loads(compiled))) == compiled


@pytest.mark.parametrize(
    ("opening", "closing"),
    [("-", ""), ("[", "]"), ("#{a: ", "}"), ("a[", "]"), ("a ++ (", ")"), ("a + (", ")")],
)
def test_the_deepest_program_that_is_read_is_compiled_too(opening: str, closing: str) -> None:
    for blocks in range(0, 241, 40):
        value = opening * (245 - blocks) + "1" + closing * (245 - blocks)
        parsed = parse_text(_deep_blocks(blocks, f"s = F(x = {value})"))
        assert parsed.problems == []
        assert parsed.tree is not None
        check_compiles(parsed.tree)


def test_blocks_and_expressions_share_the_depth() -> None:
    assert codes_of(_deep_blocks(200, f"s = F(x = {'-' * 200}1)")) == ["AFL107"]


def _deep_blocks(levels: int, statement: str) -> str:
    opening = "s = F() andThen {" * levels
    return "workflow W() andThen {" + opening + statement + "}" * levels + "}"


@pytest.mark.timeout(5)
@pytest.mark.parametrize(
    "text", [pytest.param(nest(10_000), id=name) for name, nest in (NESTS | DOUBLE_NESTS).items()]
)
def test_ten_thousand_levels_are_refused(text: str) -> None:
    assert codes_of(text) == ["AFL107"]


@pytest.mark.timeout(5)
@pytest.mark.parametrize("opening", ["(", "[", "#{a: ", "a[", "1 + ("])
def test_ten_thousand_open_brackets_are_refused(opening: str) -> None:
    assert codes_of("facet F(x: Json = " + opening * 10_000) == ["AFL107"]


def test_what_is_written_side_by_side_has_no_depth() -> None:
    items = "1 ++ " * 10_000 + "1"
    blocks = "andThen { s = F() } " * 1_000
    assert codes_of(f"facet F(x: Json = {items}) {blocks}") == []


def test_nesting_beside_a_syntax_error_is_reported_too() -> None:
    text = "facet (\n" + "facet F(x: Json = " + "(" * 1_000
    assert codes_of(text)[-1] == "AFL107"


# Places


def _starts(tree: ast.Program | None) -> list[Any]:
    assert tree is not None
    return [node.location for node in ast.walk(tree)]


def test_line_ends_of_windows_change_no_place() -> None:
    unix, windows = parse_text(RICH), parse_text(RICH.replace("\n", "\r\n"))
    assert windows == unix
    assert _starts(windows.tree) == _starts(unix.tree)


def test_line_ends_of_windows_change_no_place_of_a_problem() -> None:
    for offset in range(0, len(RICH), 11):
        unix = RICH[:offset] + " ~ "
        assert check(unix.replace("\n", "\r\n")).problems == check(unix).problems


def test_a_byte_order_mark_is_white_space() -> None:
    assert parse_text("\ufeff" + RICH) == parse_text(RICH)


# Texts that are no text


@pytest.mark.parametrize(
    "text",
    [
        "facet F()\n\0",
        'facet F(a: String = "\0")',
        "// \0",
        'facet F(a: String = "\ud83d")',
        "// \udc80",
        "facet F\udfff()",
        "facet F() script { x = '\ud800' }",
    ],
)
def test_what_no_file_can_hold_is_no_text(text: str) -> None:
    assert codes_of(text) == ["AFL120"]


def test_the_place_of_what_is_no_text_is_its_character() -> None:
    place = parse_text("facet F()\n  \udc80").problems[0].location
    assert place is not None
    assert place[:4] == (2, 3, 2, 4)


# Size

LONG = 300_000


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"facet {'a' * LONG}()", id="a name"),
        pytest.param(f"use {'a.' * (LONG // 2)}a", id="a qualified name"),
        pytest.param(f'facet F(a: String = "{"é" * LONG}")', id="a string"),
        pytest.param(f'facet F(a: String = "{chr(92) * 2 * LONG}")', id="escapes"),
        pytest.param(f"// {'x' * LONG}", id="a line comment"),
        pytest.param(f"/* {'*' * LONG} */", id="a block comment"),
        pytest.param(f"/** {'* @param x y' * (LONG // 10)} */ facet F()", id="a doc comment"),
        pytest.param(f"facet F() script {{ {'{}' * (LONG // 2)} }}", id="a script"),
        pytest.param(f"facet F(a: Json = [{'1, ' * (LONG // 30)}])", id="a line"),
        pytest.param(f"facet F(a: Double = 0.{'1' * LONG})", id="a fraction"),
        pytest.param(" " * LONG + "\n" * LONG, id="white space"),
    ],
)
@pytest.mark.parametrize("broken", [False, True])
def test_long_texts_are_read_soon(text: str, broken: bool) -> None:
    is_use = text.startswith("use")
    expected = ["AFL114"] if is_use and not broken else ["AFL101"] if broken else []
    assert codes_of(text + "\n1" if broken else text) == expected


@pytest.mark.parametrize("digits", [20, 1_000, 5_000, 50_000])
def test_numbers_that_do_not_fit_are_refused(digits: int) -> None:
    assert codes_of(f"facet F(a: Long = {'9' * digits})") == ["AFL109"]
    assert codes_of(f"facet F(a: Double = 1.0e{'9' * digits})") == ["AFL109"]


def test_the_largest_numbers_fit() -> None:
    text = f"facet F(a: Long = {2**63 - 1}, b: Double = 1.7976931348623157e308, c: Long = 000)"
    assert codes_of(text) == []
    assert codes_of(f"facet F(a: Long = {2**63})") == ["AFL109"]
    assert codes_of("facet F(a: Double = 1.8e308)") == ["AFL109"]


# Things that never end


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('facet F(a: String = "x', "AFL103"),
        ('facet F(a: String = "x\\"', "AFL103"),
        ('facet F() prompt { system "', "AFL103"),
        ("facet F() /* x", "AFL105"),
        ("/** x *", "AFL105"),
        ("facet F() script {", "AFL106"),
        ("facet F() script { x = '}'", "AFL106"),
        ('facet F() script { """ } """ {}', "AFL106"),
        ("facet F() script { # }", "AFL106"),
        ("facet F(", "AFL104"),
        ("facet F(a: [Long", "AFL104"),
        ("facet F(a: Json = #{", "AFL104"),
        ("facet F(a: Json = b[", "AFL104"),
        ("workflow W() andThen {", "AFL104"),
        ("workflow W() andThen when {", "AFL104"),
        ("namespace a {", "AFL104"),
        ("schema S {", "AFL104"),
        ("facet F() prompt {", "AFL104"),
        ("facet", "AFL101"),
        ("facet F() =>", "AFL101"),
        ("implicit x =", "AFL101"),
    ],
)
def test_what_never_ends_is_named(text: str, code: str) -> None:
    assert codes_of(text) == [code]
    assert codes_of(text + "\n\n") == [code]
