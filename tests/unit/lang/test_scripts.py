"""The Python between the braces of a script: its lines, its strings, and where they stand."""

from __future__ import annotations

from typing import Any

import pytest

from afl.lang.ast import ScriptBlock
from afl.lang.parser import parse
from afl.lang.scripts import code_lines, indented, lines_in_strings, script_code


def script_of(text: str) -> ScriptBlock:
    (facet,) = parse(text).facets
    assert isinstance(facet.body, ScriptBlock)
    return facet.body


def left_by(script: ScriptBlock) -> dict[str, Any]:
    """What the script leaves in `result`."""
    names: dict[str, Any] = {"params": {"name": "Ada"}, "result": {}}
    exec(script.code, names)
    result: dict[str, Any] = names["result"]
    return result


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        ("", ""),
        ("  \n  ", ""),
        (" a = 1 ", "a = 1"),
        ("\n    a = 1\n    b = 2\n", "a = 1\nb = 2"),
        ("\n    if a:\n        b = 2\n\n    c = 3\n    ", "if a:\n    b = 2\n\nc = 3"),
        (" a = 1\n    b = 2\n", "a = 1\nb = 2"),
        (" if a:\n        b = 2\n", "if a:\n    b = 2"),
        (" if a:\n        b = 2\n    c = 3\n", "if a:\n    b = 2\nc = 3"),
        (" if a:  # why\n        b = 2\n", "if a:  # why\n    b = 2"),
        (" # note:\n    a = 1\n", "# note:\na = 1"),
        ("\r\n  a = 1\r\n  b = 2\r\n", "a = 1\nb = 2"),
        ("\n\ta = 1\n\tb = 2\n", "a = 1\nb = 2"),
        ("\n  a = 1   \n", "a = 1"),
        (" if a:\n        b = 'x\u2028y'\n", "if a:\n    b = 'x\u2028y'"),
    ],
)
def test_code_loses_its_indentation_and_blank_edges(raw: str, code: str) -> None:
    assert script_code(raw) == code


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        # A line of the string without indentation says nothing about that of the code.
        ('\n    a = """\nb\n"""\n    c = 1\n', 'a = """\nb\n"""\nc = 1'),
        # Blanks at the ends of its lines, and empty lines.
        ('\n    a = """b  \n\n   \n  c  \n"""  \n', 'a = """b  \n\n   \n  c  \n"""'),
        # Indentation, more and less than that of the code.
        ("\n  a = '''\n      b\n c'''\n  d = 1", "a = '''\n      b\n c'''\nd = 1"),
        # A string behind the brace, whose first line looks as if it opened a block.
        (' a = """b:  \n  c"""\n  d = 1', 'a = """b:  \n  c"""\nd = 1'),
        # A string of one line that goes on behind a backslash.
        ("\n    a = 'b\\\n  c'\n    d = 1\n", "a = 'b\\\n  c'\nd = 1"),
        # Behind a block that is opened on the line of the brace.
        (' if a:\n  b = """\nc\n"""\n  d = 1', 'if a:\n    b = """\nc\n"""\n    d = 1'),
        # What looks like a string in a comment, and a string that never ends.
        ("\n    a = 1  # it's\n    b = 'c'\n", "a = 1  # it's\nb = 'c'"),
        ('\n    a = """ \n    b\n', 'a = """\nb'),
    ],
)
def test_what_a_string_of_several_lines_holds_is_not_touched(raw: str, code: str) -> None:
    assert script_code(raw) == code
    assert script_code(f"\n{indented(code, 8)}\n") == code
    assert script_code(raw.replace("\n", "\r\n")) == code


def test_code_that_starts_behind_the_brace_runs() -> None:
    script = script_of("facet Sum() script { for n in (1, 2):\n        result[str(n)] = n\n}")
    assert left_by(script) == {"1": 1, "2": 2}


def test_a_string_of_several_lines_arrives_as_written() -> None:
    script = script_of(
        "facet Letter(name: String) => (text: String) script {\n"
        '    template = """\n'
        "Dear {name},\n"
        "  hello.   \n"
        '    """\n'
        '    result["text"] = template.replace("{name}", params["name"])\n'
        "}\n"
    )
    assert left_by(script) == {"text": "\nDear Ada,\n  hello.   \n    "}


def test_the_lines_that_begin_in_strings_are_known() -> None:
    code = 'a = \'\'\'\nb\n\'\'\'\nc = \'x\\\ny\' # """\nd = """\n"""\ne'
    assert lines_in_strings(code) == {1, 2, 4, 6}
    assert lines_in_strings("a = 1\nb = 2") == set()
    assert lines_in_strings("a = ''' \nb") == set()


def test_code_is_indented_outside_of_strings() -> None:
    assert indented("a\n\nb = '''\n c'''\nd", 2) == "  a\n\n  b = '''\n c'''\n  d"


def test_a_line_of_code_knows_where_it_stood() -> None:
    lines = code_lines(" a = 1\n\n      b = '''\n  c'''\n        d\n")
    assert lines == [
        ("a = 1", 0, 1),
        ("", 1, 0),
        ("b = '''", 2, 6),
        ("  c'''", 3, 0),
        ("  d", 4, 6),
    ]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_the_places_of_code_are_those_of_the_text(line_end: str) -> None:
    rows = ["facet F()", "  script {", "", "    a = '''", "b'''", "    if a:", "      c", "}"]
    assert script_of(line_end.join(rows)).places == ((4, 5), (5, 1), (6, 5), (7, 5))
    assert script_of("facet F() script { a }").places == ((1, 20),)
    assert script_of('facet F() script "a\nb"').places == ()
