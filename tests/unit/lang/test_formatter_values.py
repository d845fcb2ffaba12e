"""How `afl fmt` writes prompts, scripts, expressions and docs."""

from __future__ import annotations

from textwrap import dedent

import pytest

from afl.lang import ast
from afl.lang.ast import FrozenList, frozen
from afl.lang.formatter import format_source, format_tree
from afl.lang.parser import parse


def check(before: str, after: str) -> None:
    """`before` becomes `after`, which means the same and stays as it is."""
    before, after = dedent(before).strip("\n"), dedent(after).lstrip("\n")
    assert format_source(before) == after
    assert format_source(after) == after
    assert parse(after) == parse(before)
    assert parse(format_tree(parse(before))) == parse(before)


def check_expression(before: str, after: str | None = None) -> None:
    check(f"facet F(a: Json = {before})", f"facet F(a: Json = {after or before})\n")


# Prompts and scripts


def test_prompt_directives_are_ordered() -> None:
    check(
        'event facet E(q: String) prompt { model "m" template "a\\n{q}" system "s" }',
        """
        event facet E(q: String) prompt {
            system "s"
            template "a\\n{q}"
            model "m"
        }
        """,
    )


def test_a_script_of_one_line_is_a_string() -> None:
    check("facet F() script { x = 1 }", 'facet F() script "x = 1"\n')
    check('facet F() script lua "x"', 'facet F() script lua "x"\n')
    check('facet F() script python "x"', 'facet F() script "x"\n')


def test_a_script_that_would_need_escapes_has_braces() -> None:
    check(
        r'facet F() script "result[\"o\"] = 1" andThen {}',
        """
        facet F() script {
            result["o"] = 1
        } andThen {}
        """,
    )


def test_a_script_of_several_lines_has_braces_and_its_own_indentation() -> None:
    check(
        """
        namespace n {
          facet F() script { if x:
                y = "}"

                z = {} } catch { s = F() }
          workflow W() andThen script "a\\nb"
        }
        """,
        """
        namespace n {
            facet F() script {
                if x:
                    y = "}"

                    z = {}
            } catch {
                s = F()
            }

            workflow W() andThen script {
                a
                b
            }
        }
        """,
    )


def test_the_strings_of_a_script_keep_their_blanks() -> None:
    string = '"""b  \n\n   \nc\n      """'
    before = f"namespace n {{ facet F() script {{\n  if x:\n      a = {string}\n  d = 1 }} }}"
    after = (
        "namespace n {\n"
        "    facet F() script {\n"
        "        if x:\n"
        f"            a = {string}\n"
        "        d = 1\n"
        "    }\n"
        "}\n"
    )
    assert format_source(before) == after
    assert format_source(after) == after
    assert parse(after) == parse(before)


@pytest.mark.parametrize(
    "code",
    [
        'a = """\n text\n"""',
        'a = """ \ntext  \n\n   \n"""\nif b:\n    c = """\n"""',
        "a = 'b\\\n  c'\nd = 1",
        "a = '''\n}{\n'''\nb",
        "# '''\n  b\n# '''",
        "  all\n  indented",
        "}\n{",
        "{\n",
        "'''\n}",
        'x = "\\\n',
        "tail  \nblanks",
        "\n\nedges\n\n",
        "a\r\nb",
        "\ufdd0\n\ufdd1",
    ],
)
def test_a_script_reads_back_as_the_same_code(code: str) -> None:
    script = ast.ScriptBlock(code=code)
    tree = ast.Program(facets=frozen([ast.FacetDecl(ast.FacetSig("F"), script)] * 2))
    text = format_tree(tree)
    assert parse(text) == tree
    assert format_source(text) == text


# Expressions


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("((1))", "1"),
        ("(1+2)*3", "(1 + 2) * 3"),
        ("1+(2*3)", "1 + 2 * 3"),
        ("(1-2)-3", "1 - 2 - 3"),
        ("1-(2-3)", "1 - (2 - 3)"),
        ("(a||b)&&(c||(d&&e))", "(a || b) && (c || d && e)"),
        ("(a&&b)||c", "a && b || c"),
        ("(a==b)==c", "(a == b) == c"),
        ("a==(b in c)", "a == (b in c)"),
        ("(a++b)==(c+d)", "a ++ b == c + d"),
        ("a not  in b", "a not in b"),
        ("a++(b++c)++(d+e)", "a ++ (b ++ c) ++ d + e"),
        ("(a == b) ++ c", "(a == b) ++ c"),
        ("- -1", "- -1"),
        ("-(-1)", "- -1"),
        ("!(!a)", "!!a"),
        ("!(-a)", "!-a"),
        ("-(a+b)", "-(a + b)"),
        ("(-a)*b", "-a * b"),
        ("1 - -2", "1 - -2"),
        ("1 + +2", "1 + 2"),
        ("(a+b)[0]", "(a + b)[0]"),
        ("(-a)[0]", "(-a)[0]"),
        ("-(a[0])", "-a[0]"),
        ("(a.b)[(0)]", "a.b[0]"),
        ("$.a[0] . b.c [ 1 ]", "$.a[0].b.c[1]"),
        ('$.a["b"]["c"]', '$.a["b"]["c"]'),
        ("[1,2,][0]", "[1, 2][0]"),
        ('#{"a":1,"b c":2,in:3,"true":4,}', '#{a: 1, "b c": 2, in: 3, true: 4}'),
        ("#{ }", "#{}"),
    ],
)
def test_parentheses_and_spaces_are_the_fewest(before: str, after: str) -> None:
    check_expression(before, after)


@pytest.mark.parametrize("spelling", [r'"a\u0041\n"', "1.50", "1.0E5", "007", r'"\d"'])
def test_literals_stay_as_they_were_spelled(spelling: str) -> None:
    check_expression(spelling)


@pytest.mark.parametrize(
    ("value", "text"),
    [(1e22, "1.0e+22"), (1.5e-7, "1.5e-07"), (0.1, "0.1"), (3.0, "3.0"), (5e-324, "5.0e-324")],
)
def test_doubles_without_a_spelling_always_have_a_fraction(value: float, text: str) -> None:
    default = ast.Literal(value, "double")
    parameter = ast.Parameter("a", ast.TypeRef("Double"), default)
    tree = ast.Program(facets=frozen([ast.FacetDecl(ast.FacetSig("F", FrozenList([parameter])))]))
    assert format_tree(tree) == f"facet F(a: Double = {text})\n"
    assert parse(format_tree(tree)) == tree


def test_long_operator_chains_break_after_their_operators() -> None:
    check(
        f'implicit x = F(a = "{"a" * 50}" ++ (b ++ 1) ++ "{"c" * 50}", d = 1 + 2 || {"e" * 90})',
        f"""
        implicit x = F(
            a = "{"a" * 50}" ++
                (b ++ 1) ++
                "{"c" * 50}",
            d = 1 + 2 ||
                {"e" * 90}
        )
        """,
    )


def test_a_text_of_several_lines_breaks_what_is_around_it() -> None:
    check(
        'implicit x = F(a = "one\n  two\n", b = 1)',
        'implicit x = F(\n    a = "one\n  two\n",\n    b = 1\n)\n',
    )


# Docs of trees without a source


@pytest.mark.parametrize(
    "doc",
    [
        ast.DocComment(""),
        ast.DocComment("One line."),
        ast.DocComment("* starred"),
        ast.DocComment("Two\n\n  lines *"),
        ast.DocComment("", frozen([ast.DocEntry("a", "what it is"), ast.DocEntry("b", "")])),
        ast.DocComment("Text.", frozen(), frozen([ast.DocEntry("r", "the result")])),
    ],
)
def test_docs_are_written_from_the_tree(doc: ast.DocComment) -> None:
    sig = ast.FacetSig("F")
    space = ast.Namespace("n", facets=frozen([ast.FacetDecl(sig, doc=doc)] * 2), doc=doc)
    tree = ast.Program(frozen([space]), schemas=frozen([ast.SchemaDecl("S", doc=doc)]))
    text = format_tree(tree)
    assert parse(text) == tree
    assert format_source(text) == text


def test_a_member_called_script_keeps_its_parentheses_before_a_block() -> None:
    text = "facet F() andThen foreach w in (a[0]. /* c */ script) { b = G() }"
    assert parse(format_source(text)) == parse(text)
