"""Where comments go: they stay where they were, as far as lines allow."""

from __future__ import annotations

from textwrap import dedent

import pytest

from afl.lang import trivia
from afl.lang.formatter import format_source
from afl.lang.parser import parse


def check(before: str, after: str) -> None:
    """`before` becomes `after`, which means the same and stays as it is."""
    before, after = dedent(before).strip("\n"), dedent(after).lstrip("\n")
    assert format_source(before) == after
    assert format_source(after) == after
    assert parse(after) == parse(before)


def docs_of(text: str) -> list[str | None]:
    return [each.doc.description if each.doc else None for each in parse(text).facets]


def test_a_text_of_comments_only_keeps_them() -> None:
    check("\n\n  // a\n\n\n // b\n/* c */", "// a\n\n// b\n/* c */\n")


def test_comments_on_their_own_lines_are_indented_with_what_follows() -> None:
    check(
        """
        // file

        // namespace
        namespace n {

        // first

                // second
        facet F() // behind
              // last
        }
        // end
        """,
        """
        // file

        // namespace
        namespace n {
            // first

            // second
            facet F()  // behind
            // last
        }
        // end
        """,
    )


def test_comments_behind_a_line_stay_there() -> None:
    check(
        """
        workflow W() andThen { // one
            a = F() // two
            b = F(); /* three */
            c = F() /* four */ // five
        } // six
        """,
        """
        workflow W() andThen {  // one
            a = F()  // two
            b = F()  /* three */
            c = F()  /* four */  // five
        }  // six
        """,
    )


def test_comments_in_empty_blocks() -> None:
    check(
        """
        namespace n { // a
        }
        namespace m {
        // b
        }
        namespace o { /* c */ }
        """,
        """
        namespace n {  // a
        }

        namespace m {
            // b
        }

        namespace o {
            /* c */
        }
        """,
    )


def test_block_comments_before_a_statement_get_their_own_line() -> None:
    check(
        "workflow W() andThen { /* a */ a = F() /* b */ b = F() /* c */ }",
        """
        workflow W() andThen {
            /* a */
            a = F()
            /* b */
            b = F()  /* c */
        }
        """,
    )


def test_line_comments_break_the_list_they_are_in() -> None:
    check(
        """
        implicit x = F(a = 1, // one
            // two
            b = 2 // three
            , c = [1, 2 // four
            ])
        """,
        """
        implicit x = F(
            a = 1,  // one
            // two
            b = 2,  // three
            c = [
                1,
                2  // four
            ]
        )
        """,
    )


def test_block_comments_inside_a_line_stay_there() -> None:
    text = (
        "facet F(/* a */ a: /* b */ Long /* c */, /* d */ b: L = 1 + /* e */ 2) "
        "/* f */ with M(/* g */)\n"
    )
    check(text, text)


def test_a_block_comment_before_the_end_of_a_list_breaks_it() -> None:
    check("implicit x = F(a = 1 /* c */)", "implicit x = F(\n    a = 1  /* c */\n)\n")


def test_comments_where_no_line_can_end_wait_for_one_that_can() -> None:
    check(
        """
        workflow // a
        W(a: // b
            Long, b: Long) andThen {
            x // c
              = // d
              F() // e
            y = G(a = - // f
                1, b = 2)
        }
        """,
        """
        workflow W(  // a
            a: Long,  // b
            b: Long
        ) andThen {
            x = F()  // c
            // d
            // e
            y = G(
                a = -1,  // f
                b = 2
            )
        }
        """,
    )


def test_comments_around_operators() -> None:
    check(
        """
        implicit x = F(a = 1 + // one
            2 // two
            + 3)
        """,
        """
        implicit x = F(
            a = 1 +  // one
                2 +  // two
                3
        )
        """,
    )


def test_comments_between_clauses() -> None:
    check(
        """
        workflow W() // a
          with M() // b
          andThen { x = F() } // c
          // d
          andThen { x = F()
            // e
            andThen {} }
        catch { } // f
        """,
        """
        workflow W()  // a
            with M()  // b
            andThen {
                x = F()
            }  // c
            // d
            andThen {
                x = F()
                    // e
                    andThen {}
            }
            catch {}  // f
        """,
    )


def test_comments_between_the_blocks_of_a_short_header() -> None:
    check(
        """
        workflow W() andThen { x = F() } // a
        // b
        catch {}
        """,
        """
        workflow W() andThen {
            x = F()
        }  // a
        // b
        catch {}
        """,
    )


def test_comments_in_parts_that_are_dropped() -> None:
    check(
        """
        facet F() => ( // a
        ) // b
        ; // c
        facet G(a: Long = ( // d
            (1) /* e */ ), // f
        )
        """,
        """
        facet F()  // a

        // b
        // c
        facet G(
            a: Long = 1  // d
            /* e */  // f
        )
        """,
    )


def test_a_comment_keeps_the_directives_of_a_prompt_in_place() -> None:
    check(
        """
        event facet E() prompt {
            model "m" // cheap
            template "t"
        }
        """,
        """
        event facet E() prompt {
            model "m"  // cheap
            template "t"
        }
        """,
    )


def test_comments_in_the_head_of_a_script_come_before_it() -> None:
    check('facet F() script /* c */ "x"', 'facet F() /* c */ script "x"\n')
    check(
        "facet F() script // c\n python { x\n y }",
        """
        facet F()  // c
            script {
                x
                y
            }
        """,
    )


def test_comment_signs_in_strings_and_scripts_are_none() -> None:
    check(
        'facet F(a: S = "// no") script { x = 1 // 2\n y = "/*" }',
        """
        facet F(a: S = "// no") script {
            x = 1 // 2
            y = "/*"
        }
        """,
    )


# Comments of several lines


def test_starred_lines_are_aligned() -> None:
    check(
        """
        namespace n {
        /**
             * Doc.
          *   more
        */
        facet F()
        }
        """,
        """
        namespace n {
            /**
             * Doc.
             *   more
             */
            facet F()
        }
        """,
    )


def test_other_lines_move_with_their_comment() -> None:
    check(
        """
        namespace n {
        /* one
           two
             three

         */
        facet F() /* a
        b */
        }
        """,
        """
        namespace n {
            /* one
               two
                 three

             */
            facet F()  /* a
        b */
        }
        """,
    )


def test_blanks_at_line_ends_go() -> None:
    check("// a  \n/* b  \n   c */\nfacet F()", "// a\n/* b\n   c */\nfacet F()\n")


# Docs


def test_a_doc_comment_stays_before_its_declaration() -> None:
    check(
        """
        facet F() /** of G */
        facet G() /** of H */ facet H()
        /** of I */ // note
        facet I()
        """,
        """
        facet F()
        /** of G */
        facet G()
        /** of H */
        facet H()
        /** of I */  // note
        facet I()
        """,
    )


@pytest.mark.parametrize(
    "text",
    [
        "/** no doc */ ; facet G()",
        "facet F() /** no doc */ ; facet G()",
        "facet F() /** no doc */\n; facet G()",
        "facet F() => (/** no doc */) facet G()",
        "facet F() => (/** no\ndoc */) facet G()",
        "facet /** no doc */ F() facet G()",
        "facet /** no\n doc */ F() facet G()",
        "facet F() /** no doc */ ; /** doc */ facet G()",
        "namespace /** no doc */ n facet G()",
        "namespace /** no\n doc */ n facet G()",
        "/** no doc */ namespace n facet G()",
        "namespace n { use /** no\ndoc */ x; facet G() }",
        "event /** no doc */ facet F()",
        "schema /** no\ndoc */ S {} facet G()",
    ],
)
def test_a_comment_never_becomes_the_doc_of_something_else(text: str) -> None:
    formatted = format_source(text)
    assert parse(formatted) == parse(text)
    assert format_source(formatted) == formatted
    before, after = (trivia.comments(trivia.mask_scripts(each)) for each in (text, formatted))
    assert [each.text.split() for each in after] == [each.text.split() for each in before]


def test_what_documents_nothing_is_fenced_off() -> None:
    check("facet F() /** of nothing */; facet G()", "facet F()\n/** of nothing */;\nfacet G()\n")
    assert docs_of("facet F()\n/** of nothing */;\nfacet G()\n") == [None, None]
