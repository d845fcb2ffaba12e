"""What holds for every program: same tree, same comments, and nothing left to change."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from afl.lang import ast, trivia
from afl.lang.ast import FrozenList, frozen
from afl.lang.builder import bare_name
from afl.lang.formatter import format_source, format_tree
from afl.lang.parser import parse

#: Now and then most of the trees that are drawn are too large, and are drawn again.
pytestmark = pytest.mark.timeout(300)

# Trees

NAMES = ["a", "b2", "_c", "longer_name_of_something", "in", "script", "prompt", "model", "facet"]
#: Words that are keywords after a step, and names elsewhere.
STEP_NAMES = [*NAMES, "catch", "with", "andThen", "as", "when", "case"]

names = st.sampled_from(NAMES)
dotted = st.lists(names, min_size=1, max_size=3).map(".".join)
texts = st.one_of(
    st.sampled_from(["", "plain", 'say "hi"', "a\nb\nc\n", "\\", "\t{x}", "ü → 😀", "// no", "/*"]),
    st.text(max_size=8),
)


def lists(items: st.SearchStrategy[Any], most: int = 3) -> st.SearchStrategy[FrozenList[Any]]:
    return st.lists(items, max_size=most).map(frozen)


literals = st.one_of(
    st.builds(ast.Literal, texts, st.just("string")),
    st.builds(ast.Literal, st.integers(0, 2**63 - 1), st.just("integer")),
    st.builds(
        ast.Literal,
        st.floats(min_value=0, allow_nan=False, allow_infinity=False).map(abs),
        st.just("double"),
    ),
    st.builds(ast.Literal, st.booleans(), st.just("boolean")),
    st.just(ast.Literal(None, "null")),
)
references = st.builds(
    ast.Reference, st.lists(names, min_size=1, max_size=3).map(FrozenList), st.booleans()
)
COMPARISONS = ["==", "!=", ">=", "<=", ">", "<", "contains", "startsWith", "endsWith"]
OPERATORS = ["||", "&&", *COMPARISONS, "in", "not in", "+", "-", "*", "/", "%"]


def _larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    operands = st.lists(inner, min_size=2, max_size=4).map(FrozenList)
    return st.one_of(
        st.builds(ast.BinaryExpr, st.sampled_from(OPERATORS), inner, inner),
        st.builds(ast.UnaryExpr, st.sampled_from("-!"), inner),
        st.builds(ast.ConcatExpr, operands),
        st.builds(ast.ArrayLiteral, lists(inner)),
        st.builds(ast.MapLiteral, lists(st.builds(ast.MapEntry, st.one_of(names, texts), inner))),
        st.builds(ast.IndexExpr, inner, inner),
    )


expressions = st.recursive(st.one_of(literals, references), _larger, max_leaves=8)
arguments = lists(st.builds(ast.NamedArg, names, expressions))
aliases = st.one_of(st.none(), st.sampled_from(["m", "in", "script", "namespace"]))
calls = st.builds(
    ast.CallExpr, dotted, arguments, lists(st.builds(ast.MixinCall, dotted, arguments, aliases), 2)
)
scripts = st.builds(
    ast.ScriptBlock,
    st.sampled_from(["python", "lua"]),
    st.one_of(
        texts,
        st.sampled_from(
            [
                "x = 1",
                'result["a"] = 1',
                "if x:\n    y = '{'\nz = {}",
                "  indented\n  alike",
                'a = """\n  text\n"""\nb = 2',
                "x = 1 // 2\ny = 3",
                "}\n{",
                "'''\n}",
                'x = "\\\n}',
                "# }\nx",
                "trailing  \nblank\n\n",
            ]
        ),
    ),
)


def _blocks(statements: st.SearchStrategy[Any]) -> st.SearchStrategy[ast.Block]:
    plain = st.builds(ast.CallExpr, dotted, arguments)
    return st.builds(ast.Block, lists(statements), lists(st.builds(ast.YieldStmt, plain), 2))


def _whens(blocks: st.SearchStrategy[ast.Block]) -> st.SearchStrategy[ast.WhenBlock]:
    conditions = st.one_of(st.none(), expressions)
    return st.builds(ast.WhenBlock, lists(st.builds(ast.WhenCase, conditions, blocks), 2))


def _and_thens(blocks: st.SearchStrategy[ast.Block]) -> st.SearchStrategy[Any]:
    nothing = st.just(ast.Block())
    foreach = st.builds(ast.ForeachClause, names, expressions)
    return st.one_of(
        st.builds(ast.AndThenBlock, blocks, st.one_of(st.none(), foreach)),
        st.builds(ast.AndThenBlock, nothing, when=_whens(blocks)),
        st.builds(ast.AndThenBlock, nothing, script=scripts),
    )


def _catches(blocks: st.SearchStrategy[ast.Block]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.none(),
        st.builds(ast.CatchClause, blocks),
        st.builds(ast.CatchClause, st.just(ast.Block()), _whens(blocks)),
    )


def _bodies(blocks: st.SearchStrategy[ast.Block]) -> st.SearchStrategy[Any]:
    several = st.lists(_and_thens(blocks), min_size=2, max_size=3).map(FrozenList)
    return st.one_of(st.none(), _and_thens(blocks), several)


def _steps(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    blocks = _blocks(inner)
    return st.builds(
        ast.StepStmt,
        st.sampled_from(STEP_NAMES),
        calls,
        _bodies(blocks),
        catch=_catches(blocks),
    )


bare_steps = st.builds(
    ast.StepStmt,
    st.integers(0, 2).map(bare_name),
    st.builds(
        ast.CallExpr,
        st.sampled_from(["sys.log", "sys.assert"]),
        lists(st.builds(ast.NamedArg, st.sampled_from(["message", "condition"]), expressions), 2),
    ),
)
steps = st.recursive(
    st.one_of(bare_steps, st.builds(ast.StepStmt, st.sampled_from(STEP_NAMES), calls)),
    _steps,
    max_leaves=4,
)
blocks = _blocks(steps)

types: st.SearchStrategy[Any] = st.recursive(
    st.builds(ast.TypeRef, dotted), lambda inner: st.builds(ast.ArrayType, inner), max_leaves=2
)
parameters = lists(
    st.builds(ast.Parameter, names, types, st.one_of(st.none(), expressions)),
)
signatures = st.builds(
    ast.FacetSig,
    names,
    parameters,
    st.one_of(
        st.none(),
        st.lists(st.builds(ast.Parameter, names, types), min_size=1, max_size=3)
        .map(FrozenList)
        .map(ast.ReturnClause),
    ),
    lists(st.builds(ast.MixinSig, dotted, arguments, aliases), 2),
)
words = st.text("abc *@{}é", max_size=12).map(lambda text: " ".join(text.split()))
prose = (
    st.lists(words, max_size=3)
    .map(lambda lines: "\n".join(lines).strip())
    .filter(lambda text: not re.search(r"(?m)^\s*@|\*/", text))
)
entries = lists(st.builds(ast.DocEntry, names, words), 2)
docs = st.one_of(st.none(), st.builds(ast.DocComment, prose, entries, entries))
prompts = st.builds(ast.PromptBlock, *[st.one_of(st.none(), texts)] * 3)


def _callables(kind: type) -> st.SearchStrategy[Any]:
    with_blocks = st.builds(
        kind,
        signatures,
        st.one_of(
            _and_thens(blocks),
            st.lists(_and_thens(blocks), min_size=2, max_size=2).map(FrozenList),
        ),
        pre_script=st.one_of(st.none(), scripts),
        catch=_catches(blocks),
        doc=docs,
    )
    return st.one_of(
        st.builds(kind, signatures, doc=docs),
        st.builds(kind, signatures, prompts, doc=docs),
        st.builds(kind, signatures, scripts, catch=_catches(blocks), doc=docs),
        with_blocks,
    )


schemas = st.builds(
    ast.SchemaDecl, names, lists(st.builds(ast.SchemaField, names, types)), doc=docs
)
implicits = st.builds(ast.ImplicitDecl, names, calls, doc=docs)
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "facets": lists(_callables(ast.FacetDecl), 2),
    "event_facets": lists(_callables(ast.EventFacetDecl), 1),
    "workflows": lists(_callables(ast.WorkflowDecl), 1),
    "implicits": lists(implicits, 1),
    "schemas": lists(schemas, 2),
}
namespaces = st.builds(
    ast.Namespace,
    dotted,
    lists(st.builds(ast.UsesDecl, dotted), 2),
    doc=docs,
    file_scoped=st.booleans(),
    **KINDS,
)
programs = st.builds(ast.Program, lists(namespaces, 2), **KINDS)

# Trivia

_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*"'
    r"|\ufdd0[^\ufdd1]*\ufdd1"
    r"|//[^\n]*|/\*.*?\*/"
    r"|\$?[A-Za-z_.][\w.]*|[0-9]+(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?)?"
    r"|\$(?:\.\w+)+|\+\+|=>|[=!<>]=|&&|\|\||\#\{|\S",
    re.DOTALL,
)
GAPS = [
    "", "", "", "", " ", "\n", "\n\n", "\n\n\n", "\t",
    " // N\n", "\n// N\n", "//N  \n\n", "\n\n// N\n// N\n",
    " /* N */ ", "/*N*/", "\n/* N */\n", "\n/* N */ ", " /* N */\n", " /* N */ // N\n",
    " /* N\n   more */ ", "\n    /* N\n       more\n  */\n", "\n/* N\n     * more\n  */ /* N */",
    " /** N */ ", "\n/** N */\n", "\n  /** N\n * @param a b\n*/\n", "/**/",
]  # fmt: skip


def sprinkled(text: str, choose: Callable[[], str]) -> str:
    """The tokens of `text` with other things between them."""
    masked = trivia.mask_scripts(text)
    out = [choose()]
    for number, match in enumerate(_TOKEN.finditer(masked)):
        token = text[match.start() : match.end()]
        gap = choose().replace("N", f"c{number}")
        # `/` and a comment make another comment.
        out += [token, "\n" if token.startswith("//") else " " if token == "/" else "", gap or " "]
    return "".join(out)


# Laws


def comments_of(text: str) -> list[list[str]]:
    return [
        [line.strip() for line in each.text.split("\n")]
        for each in trivia.comments(trivia.mask_scripts(text))
    ]


def check_laws(text: str) -> str:
    formatted = format_source(text)
    assert parse(formatted) == parse(text)
    assert comments_of(formatted) == comments_of(text)
    assert format_source(formatted) == formatted
    assert all(line == line.rstrip() for line in _code_lines(formatted))
    assert formatted == "" or (formatted.endswith("\n") and not formatted.endswith("\n\n"))
    return formatted


def _code_lines(text: str) -> list[str]:
    """The lines without those of strings, which may end as they like."""
    return re.sub(r'"(?:[^"\\]|\\.)*"', '""', text, flags=re.DOTALL).split("\n")


relaxed = settings(
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@given(programs)
@relaxed
def test_a_tree_is_printed_as_a_text_that_reads_back_as_it(tree: ast.Program) -> None:
    text = format_tree(tree)
    assert parse(text) == tree
    assert parse(format_source(text)) == tree


@given(programs, st.randoms(use_true_random=False), st.sampled_from([0.1, 0.6, 0.95]))
@relaxed
def test_comments_between_any_tokens_survive(
    tree: ast.Program, random: Random, calm: float
) -> None:
    def choose() -> str:
        return " " if random.random() < calm else random.choice(GAPS)

    check_laws(sprinkled(format_tree(tree), choose))


SNIPPETS = [
    "/** doc */ namespace a.b { use c; implicit x = F(a = 1); facet G() }",
    "event facet F(a: [Long] = (1), b: T,) => (c: Long) with M(x = 1,) as m; /** d */ facet G()",
    "facet F() => () ; schema S { a: Long, b: [T], } schema E {} namespace n use a facet G()",
    'event facet F() prompt { template "a" system "b" } facet G() script python "x" catch {}',
    'facet F() script { a\n b } andThen script "x" andThen { } catch when { case _ => { } }',
    "workflow W() andThen foreach x in (a) { s = F() with M() as m andThen {} catch {} }",
    "workflow W() andThen { sys.log(message = 1); x = F(); with = G(); yield W() with M(a = 1) }",
    'facet F(a: T = (-(1) + +2) * 3 ++ [#{a: 1, "b": c[0].d.e}] not in !(b[1]) || (c && d))',
]


@pytest.mark.parametrize("snippet", SNIPPETS)
@pytest.mark.parametrize(
    "gap", ["//N\n", "\n\n// N\n", " /*N*/ ", "\n/*N\n*/\n", "/** N */", "\n\n"]
)
def test_one_comment_between_each_two_tokens_survives(snippet: str, gap: str) -> None:
    count = len(_TOKEN.findall(trivia.mask_scripts(snippet)))
    for place in range(count + 1):
        gaps = iter([" "] * place + [gap] + [" "] * (count - place))
        check_laws(sprinkled(snippet, lambda gaps=gaps: next(gaps)))  # type: ignore[misc]


# Size


@pytest.mark.parametrize(
    "text",
    [
        "facet F(a: T = " + "[" * 249 + "]" * 249 + ")",
        "facet F(a: T = " + "(1 + " * 248 + "1" + ")" * 248 + ")",
        "facet F(a: T = " + "-" * 249 + "1)",
        "facet F(a: T = a" + "[0]" * 249 + ")",
        "facet F(a: " + "[" * 249 + "T" + "]" * 249 + ")",
        "facet F() " + "andThen { x = F() " * 240 + "}" * 240,
        "facet F() " + "andThen when { case _ => { x = F() " * 124 + "}}" * 124,
        "facet F() " + "andThen { x = F() " * 120 + f"yield F(a = {'-' * 120}1)" + "}" * 120,
    ],
)  # fmt: skip
def test_the_deepest_programs_are_formatted_without_recursion(text: str) -> None:
    formatted = format_source(text)
    assert format_source(formatted) == formatted
    assert format_tree(parse(text)) == formatted
