"""The layout of `afl fmt`, construct by construct: what is written, and what comes out."""

from __future__ import annotations

from textwrap import dedent

import pytest

from afl.lang import ast
from afl.lang.ast import frozen
from afl.lang.diagnostics import ParseError
from afl.lang.formatter import format_source, format_tree
from afl.lang.parser import parse


def check(before: str, after: str) -> None:
    """`before` becomes `after`, which means the same and stays as it is."""
    before, after = dedent(before).strip("\n"), dedent(after).lstrip("\n")
    assert format_source(before) == after
    assert format_source(after) == after
    assert parse(after) == parse(before)
    assert parse(format_tree(parse(before))) == parse(before)


# Files


@pytest.mark.parametrize("text", ["", "\n\n", " ;;\n;", "\ufeff"])
def test_an_empty_program_is_an_empty_text(text: str) -> None:
    assert format_source(text) == ""
    assert format_tree(parse(text)) == ""


def test_a_text_with_errors_is_refused_with_all_of_them() -> None:
    with pytest.raises(ParseError) as caught:
        format_source("facet F(\n\nfacet G(a Long)\nworkflow", "file://x.afl")
    assert len(caught.value.diagnostics) > 1
    assert caught.value.source_id == "file://x.afl"


def test_rules_of_the_language_are_not_the_formatters_business() -> None:
    check("schema S{a:Nowhere}", "schema S { a: Nowhere }\n")


def test_one_statement_stands_on_each_line_without_semicolons() -> None:
    check(
        "workflow W() andThen { a = F(); b = G() ; ; yield W() };facet H();",
        """
        workflow W() andThen {
            a = F()
            b = G()
            yield W()
        }

        facet H()
        """,
    )


def test_windows_line_ends_become_plain_ones_outside_strings() -> None:
    assert format_source('facet F()\r\n// c\r\nfacet G(a: S = "x\r\ny")\r\n') == (
        'facet F()\n\n// c\nfacet G(\n    a: S = "x\r\ny"\n)\n'
    )


# Blank lines


def test_blank_lines_are_kept_one_at_most_and_none_at_the_edges_of_a_block() -> None:
    check(
        """
        workflow W() andThen {

            a = F()


            b = G()
            c = H()

        }
        """,
        """
        workflow W() andThen {
            a = F()

            b = G()
            c = H()
        }
        """,
    )


def test_declarations_of_several_lines_stand_apart() -> None:
    check(
        """
        facet A()
        facet B()
        workflow W() andThen { a = A() }
        facet C()
        facet D()


        facet E()
        """,
        """
        facet A()
        facet B()

        workflow W() andThen {
            a = A()
        }

        facet C()
        facet D()

        facet E()
        """,
    )


def test_the_blank_line_goes_before_the_comments_of_the_declaration() -> None:
    check(
        """
        facet A() andThen { } // done
        // about B
        facet B() andThen { x = A() } // done
        // about C
        facet C()
        """,
        """
        facet A() andThen {}  // done

        // about B
        facet B() andThen {
            x = A()
        }  // done

        // about C
        facet C()
        """,
    )


# Namespaces


def test_namespaces_stand_apart_and_uses_becomes_use() -> None:
    check(
        "namespace a.b { uses c ; use d facet F() } namespace c {} namespace d { }",
        """
        namespace a.b {
            use c
            use d
            facet F()
        }

        namespace c {}

        namespace d {}
        """,
    )


def test_a_namespace_without_braces_keeps_its_form_and_comes_last() -> None:
    check(
        "facet A() namespace b {facet B()} namespace c use b facet C() schema S {}",
        """
        facet A()

        namespace b {
            facet B()
        }

        namespace c

        use b
        facet C()
        schema S {}
        """,
    )


def test_a_namespace_without_braces_gets_them_where_it_would_capture_others() -> None:
    first, second = parse("namespace a facet F()"), parse("namespace b facet G()")
    merged = ast.Program.merge([first, second])
    assert format_tree(merged) == dedent(
        """\
        namespace a {
            facet F()
        }

        namespace b

        facet G()
        """
    )
    assert parse(format_tree(merged)) == merged


def test_declarations_keep_the_order_of_their_source() -> None:
    text = "workflow W()\nfacet F()\nschema S {}\nevent facet E()\nimplicit i = F()\nfacet G()\n"
    assert format_source(text) == text
    assert format_tree(parse(text)) == text


def test_declarations_without_places_are_ordered_by_kind() -> None:
    sig = ast.FacetSig("f")
    tree = ast.Program(
        facets=frozen([ast.FacetDecl(sig)]),
        event_facets=frozen([ast.EventFacetDecl(sig)]),
        workflows=frozen([ast.WorkflowDecl(sig)]),
        implicits=frozen([ast.ImplicitDecl("i", ast.CallExpr("f"))]),
        schemas=frozen([ast.SchemaDecl("s")]),
    )
    assert format_tree(tree).splitlines() == [
        "schema s {}",
        "implicit i = f()",
        "facet f()",
        "event facet f()",
        "workflow f()",
    ]


# Signatures and calls


def test_spacing_of_signatures() -> None:
    check(
        "event  facet F( a:Long,b :[[ a.B ]]=[ ] , )=>( c:Long )with M( x=1,)as m with N()",
        "event facet F(a: Long, b: [[a.B]] = []) => (c: Long) with M(x = 1) as m with N()\n",
    )


def test_empty_returns_say_nothing() -> None:
    check("facet F() => ()", "facet F()\n")


def test_parameters_that_do_not_fit_stand_on_their_own_lines() -> None:
    check(
        f"facet F({'a' * 40}: Long, {'b' * 40}: Long, c: Long) => (d: Long) with M() andThen {{}}",
        f"""
        facet F(
            {"a" * 40}: Long,
            {"b" * 40}: Long,
            c: Long
        ) => (d: Long) with M() andThen {{}}
        """,
    )


def test_returns_break_after_the_parameters_did() -> None:
    check(
        f"facet F(a: Long) => ({'b' * 50}: Long, {'c' * 50}: Long)",
        f"""
        facet F(
            a: Long
        ) => (
            {"b" * 50}: Long,
            {"c" * 50}: Long
        )
        """,
    )


def test_a_line_may_be_a_hundred_wide_and_no_wider() -> None:
    head, tail = "facet F(a: Long, ", ": Long)"
    name = "b" * (100 - len(head + tail))
    check(head + name + tail, f"{head}{name}{tail}\n")
    check(f"{head}b{name}{tail}", f"facet F(\n    a: Long,\n    b{name}: Long\n)\n")


def test_clauses_that_do_not_fit_stand_on_their_own_lines() -> None:
    check(
        f"""
        workflow W(a: Long) => (b: Long) with {"M" * 30}() with {"N" * 30}(x = 1) andThen {{
            s = F(a = 1) with {"M" * 40}() with {"N" * 40}() as n catch {{ t = G() }}
            yield W(b = 1) with {"M" * 40}() with {"N" * 40}(c = 2)
        }} andThen {{ }}
        """,
        f"""
        workflow W(a: Long) => (b: Long)
            with {"M" * 30}()
            with {"N" * 30}(x = 1)
            andThen {{
                s = F(a = 1)
                    with {"M" * 40}()
                    with {"N" * 40}() as n
                    catch {{
                        t = G()
                    }}
                yield W(b = 1)
                    with {"M" * 40}()
                    with {"N" * 40}(c = 2)
            }}
            andThen {{}}
        """,
    )


def test_arguments_arrays_and_maps_break_from_the_outside() -> None:
    check(
        f"""
        implicit x = F(a = [1, 2], b = #{{k: ["{"x" * 40}", "{"y" * 40}"], l: [1, 2]}}, c = 1)
        """,
        f"""
        implicit x = F(
            a = [1, 2],
            b = #{{
                k: ["{"x" * 40}", "{"y" * 40}"],
                l: [1, 2]
            }},
            c = 1
        )
        """,
    )


def test_schemas_break_like_lists() -> None:
    check("schema S{a:Long,b:[c.T],}", "schema S { a: Long, b: [c.T] }\n")
    check(
        f"schema S {{ {'a' * 50}: Long, {'b' * 50}: Long }}",
        f"schema S {{\n    {'a' * 50}: Long,\n    {'b' * 50}: Long\n}}\n",
    )


# Blocks


def test_blocks_of_all_kinds() -> None:
    check(
        """
        workflow W(xs: [Long]) andThen foreach x in $.xs { s = F(x = $.x) andThen { t = G() }
          andThen {} } andThen when { case $.xs == [] => { a = F() } case _ => {} }
        catch when { case _ => { yield W() } }
        """,
        """
        workflow W(xs: [Long]) andThen foreach x in $.xs {
            s = F(x = $.x) andThen {
                t = G()
            } andThen {}
        } andThen when {
            case $.xs == [] => {
                a = F()
            }
            case _ => {}
        } catch when {
            case _ => {
                yield W()
            }
        }
        """,
    )


def test_bare_calls_are_written_without_names() -> None:
    check(
        """
        workflow W() andThen {
            _sys_0 = sys.log(message = "a")
            sys.assert(condition = a == b)
            sys.log(message = "a", level = 1)
            named = sys.log(message = "a")
            _sys_0 = sys.log(message = "a")
            _sys_5 = sys.log(message = "a") andThen {}
        }
        """,
        """
        workflow W() andThen {
            sys.log("a")
            sys.assert(a == b)
            sys.log(message = "a", level = 1)
            named = sys.log(message = "a")
            _sys_0 = sys.log(message = "a")
            _sys_5 = sys.log(message = "a") andThen {}
        }
        """,
    )


def test_steps_named_like_clauses_keep_their_semicolon() -> None:
    check(
        "workflow W() andThen { with = F(); catch = F(); andThen = F() with M(); as = G() }",
        """
        workflow W() andThen {
            with = F();
            catch = F();
            andThen = F() with M();
            as = G()
        }
        """,
    )


def test_an_iterable_that_ends_in_script_is_kept_from_its_brace() -> None:
    check(
        "workflow W() andThen foreach x in [1] ++ (script) {} andThen foreach x in (script) {}",
        """
        workflow W() andThen foreach x in ([1] ++ script) {} andThen foreach x in script {}
        """,
    )
