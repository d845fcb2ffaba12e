"""Programs to test with: syntax trees that the parser can produce, and texts that spell them.

`programs()` makes trees. `write(tree, seed)` spells one with every parenthesis, in a layout that
the seed decides: seed 0 is plain, others scatter white space, comments, `;` and the other
spellings that the language has for one meaning. It shares no code with the formatter, so the
parser and the formatter are tested apart.

Both are in one file, long as it is: what is added to the language needs a strategy and a spelling.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from hypothesis import strategies as st

from afl.lang import ast
from afl.lang.ast import FrozenList, frozen
from afl.lang.builder import BARE_CALLS, bare_name

T = TypeVar("T")

# Names

#: Words with a meaning somewhere in the grammar, and words that only begin like one.
WORDS = [
    *("prompt", "model", "system", "template", "python", "in", "event", "use", "uses", "schema"),
    *("when", "case", "catch", "facet", "workflow", "namespace", "implicit", "with", "as"),
    *("andThen", "foreach", "yield", "script", "not", "contains", "startsWith", "endsWith"),
    *("true", "false", "null", "true_x", "nullable", "Stringy", "String", "sys", "afl", "_"),
]
#: Where an expression can start, these are values.
VALUES = frozenset({"true", "false", "null"})

# Drawing is what these tests spend their time on, so what is drawn most is a pick from a list.
_NAMES = ["a", "b", "x", "Total", "_1", "__", "A9z_", "x" * 60, *WORDS]
names = st.sampled_from(_NAMES)
step_references = st.sampled_from([each for each in _NAMES if each not in VALUES])
qualified_names = st.sampled_from(
    [*_NAMES, *(f"a.{each}" for each in WORDS), *(f"{each}.x.{each}" for each in WORDS)]
)

# Text

#: Everything but halves of surrogate pairs, which no UTF-8 file can hold.
_characters = st.one_of(
    st.sampled_from("\"'\\\n\r\t\0\b\f\v\a{}()/*#;=é日😀\u0085\u2028\ufeff\x7f"),
    st.characters(exclude_categories=["Cs"]),
)
texts = st.one_of(
    st.sampled_from(["", "text", 'a "b" \\ c', "line\nline\nline\n", "{x} {{y}}", "// é 日 😀"]),
    st.text(_characters, max_size=8),
)


def lists(items: st.SearchStrategy[T], max_size: int = 2) -> st.SearchStrategy[FrozenList[T]]:
    return st.lists(items, max_size=max_size).map(frozen)


def maybe(items: st.SearchStrategy[T]) -> st.SearchStrategy[T | None]:
    return st.none() | items


# Expressions

OPERATORS = [
    *("||", "&&", "==", "!=", ">=", "<=", ">", "<", "in", "not in"),
    *("contains", "startsWith", "endsWith", "+", "-", "*", "/", "%"),
]


def literal(kind: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[ast.Literal]:
    return values.map(lambda value: ast.Literal(value, kind))


literals = st.one_of(
    literal("string", texts),
    literal("integer", st.integers(0, 9) | st.integers(0, 2**63 - 1)),
    literal("double", st.floats(min_value=0, allow_nan=False, allow_infinity=False).map(abs)),
    literal("boolean", st.booleans()),
    literal("null", st.none()),
)
references = st.one_of(
    qualified_names.map(lambda path: ast.Reference(FrozenList(path.split(".")), True)),
    qualified_names.map(lambda path: ast.Reference(FrozenList(["s", *path.split(".")]), False)),
    step_references.map(lambda name: ast.Reference(FrozenList([name]), False)),
    names.map(lambda name: ast.Reference(FrozenList([name, "x"]), False)),
)


def _compound(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    # Written `[…].name` by some; the target must then be an index itself.
    keys = names.map(lambda name: ast.Literal(name, "string"))
    return st.one_of(
        st.builds(ast.BinaryExpr, st.sampled_from(OPERATORS), inner, inner),
        st.builds(ast.UnaryExpr, st.sampled_from("-!"), inner),
        st.builds(ast.ConcatExpr, st.lists(inner, min_size=2, max_size=3).map(frozen)),
        st.builds(ast.IndexExpr, inner, inner),
        st.builds(ast.IndexExpr, st.builds(ast.IndexExpr, inner, inner), keys),
        st.builds(ast.ArrayLiteral, lists(inner, 3)),
        st.builds(ast.MapLiteral, lists(st.builds(ast.MapEntry, names | texts, inner))),
    )


expressions: st.SearchStrategy[Any] = st.recursive(literals | references, _compound, max_leaves=4)

# Calls

args = st.builds(ast.NamedArg, names, expressions)


def mixins(kind: Callable[..., T]) -> st.SearchStrategy[FrozenList[T]]:
    return lists(st.builds(kind, qualified_names, lists(args), maybe(names)))


call_names = qualified_names | st.sampled_from(sorted(BARE_CALLS))
calls = st.builds(ast.CallExpr, call_names, lists(args), mixins(ast.MixinCall))
#: Calls that need no step name.
bare_calls = st.one_of(
    st.builds(ast.CallExpr, st.sampled_from(sorted(BARE_CALLS)), lists(args)),
    st.builds(
        lambda name, value, mixed: ast.CallExpr(
            name, frozen([ast.NamedArg(BARE_CALLS[name], value)]), mixed
        ),
        st.sampled_from(sorted(BARE_CALLS)),
        expressions,
        mixins(ast.MixinCall),
    ),
)

# Scripts

#: Lines of Python whose braces balance, once strings and comments are taken out. One is a string
#: of several lines: only its first is code, which can be indented.
CODE_LINES = [
    'result["x"] = params["a"]',
    "if params:",
    'd = {"k": {1: 2}, "s": "}"}',
    't = \'{\' + "\\"}"',
    "# a comment with } and \" and '",
    'u = """{ /* " */ """',
    'url = "http://example.org"  # // no comment',
    'print(f"{x} {y!r:>{width}}")',
    "é = '日本 👍'",
    "/* no comment of Python",
    "script { nested }",
    'm = """ of \n several } lines  \n\n    """',
]
_code_line = st.builds(
    lambda indent, line: " " * indent + line, st.sampled_from([0, 4]), st.sampled_from(CODE_LINES)
)


def _as_written(lines: list[str]) -> str:
    """The lines without the indentation that all of them share."""
    full = [line for line in lines if line]
    margin = min((len(line) - len(line.lstrip()) for line in full), default=0)
    return "\n".join(line[margin:] for line in lines).strip("\n")


def _code_lines(code: str) -> list[str]:
    """The lines of code; a string of several lines is one of them."""
    for line in CODE_LINES:
        code = code.replace(line, line.replace("\n", "\0"))
    return [line.replace("\0", "\n") for line in code.split("\n")]


raw_code = st.lists(_code_line | st.just(""), max_size=4).map(_as_written)
scripts = st.builds(ast.ScriptBlock, st.just("python") | names, raw_code | texts)
prompts = st.builds(ast.PromptBlock, maybe(texts), maybe(texts), maybe(texts))

# Blocks

yields = st.builds(
    lambda name, given: ast.YieldStmt(ast.CallExpr(name, given)), qualified_names, lists(args)
)


@st.composite
def blocks(draw: st.DrawFn, depth: int) -> ast.Block:
    steps: list[ast.StepStmt] = []
    for position in range(draw(st.integers(0, 2))):
        if draw(st.integers(0, 3)) == 3:
            steps.append(ast.StepStmt(bare_name(position), draw(bare_calls)))
            continue
        name, call = draw(names), draw(calls)
        body = _one_or_list(draw(and_thens(depth - 1))) if depth else None
        catch = draw(maybe(catches(depth - 1))) if depth else None
        steps.append(ast.StepStmt(name, call, body, catch=catch))
    return ast.Block(frozen(steps), draw(lists(yields)))


def _one_or_list(found: Sequence[ast.AndThenBlock]) -> ast.StepBody:
    if len(found) > 1:
        return FrozenList(found)
    return found[0] if found else None


@st.composite
def whens(draw: st.DrawFn, depth: int) -> ast.WhenBlock:
    condition = expressions.filter(lambda each: each != ast.Reference(FrozenList(["_"]), False))
    cases = draw(st.lists(st.builds(ast.WhenCase, condition, blocks(depth)), max_size=2))
    if draw(st.booleans()):
        cases.append(ast.WhenCase(None, draw(blocks(depth))))
    return ast.WhenBlock(frozen(cases))


def and_then(depth: int) -> st.SearchStrategy[ast.AndThenBlock]:
    nothing = st.just(ast.Block())
    foreach = st.builds(ast.ForeachClause, names, expressions)
    return st.one_of(
        st.builds(ast.AndThenBlock, blocks(depth), maybe(foreach)),
        st.builds(ast.AndThenBlock, nothing, when=whens(depth)),
        st.builds(ast.AndThenBlock, nothing, script=scripts),
    )


def and_thens(depth: int) -> st.SearchStrategy[list[ast.AndThenBlock]]:
    return st.lists(and_then(depth), max_size=2)


def catches(depth: int) -> st.SearchStrategy[ast.CatchClause]:
    return st.one_of(
        st.builds(ast.CatchClause, blocks(depth)),
        st.builds(ast.CatchClause, st.just(ast.Block()), whens(depth)),
    )


# Doc comments

_doc_characters = st.one_of(
    st.sampled_from(" *@/\"'{}é日😀"), st.characters(exclude_categories=["Cs", "Cc"])
)
_doc_line = (
    st.one_of(
        st.text(_doc_characters, max_size=10),
        st.sampled_from(
            ["What it does.", "* a point", "  indented", "see @param", "// x", "facet F("]
        ),
    )
    .map(lambda line: line.replace("*/", "* /").rstrip())
    .filter(lambda line: not re.match(r"\s*@(?:param|returns?)\b", line))
)
_doc_entries = lists(st.builds(ast.DocEntry, names, _doc_line.map(lambda line: line.strip())))
docs = st.builds(
    ast.DocComment,
    st.lists(_doc_line, max_size=3).map(lambda lines: "\n".join(lines).strip()),
    _doc_entries,
    _doc_entries,
)

# Declarations

types: st.SearchStrategy[Any] = st.recursive(
    st.builds(ast.TypeRef, qualified_names),
    lambda inner: st.builds(ast.ArrayType, inner),
    max_leaves=3,
)
parameters = st.builds(ast.Parameter, names, types, maybe(expressions))
returns = maybe(
    st.builds(ast.ReturnClause, st.lists(parameters, min_size=1, max_size=2).map(frozen))
)
signatures = st.builds(ast.FacetSig, names, lists(parameters), returns, mixins(ast.MixinSig))


@st.composite
def callables(draw: st.DrawFn, kind: type[Any], depth: int) -> Any:
    sig, doc = draw(signatures), draw(maybe(docs))
    form = draw(st.sampled_from(["bare", "prompt", "script", "blocks", "script and blocks"]))
    if form == "prompt":
        return kind(sig, draw(prompts), doc=doc)
    catch = draw(maybe(catches(depth)))
    if form == "bare":
        return kind(sig, catch=catch, doc=doc)
    if form == "script":
        return kind(sig, draw(scripts), catch=catch, doc=doc)
    body = _one_or_list(draw(st.lists(and_then(depth), min_size=1, max_size=2)))
    pre_script = draw(scripts) if form == "script and blocks" else None
    return kind(sig, body, pre_script=pre_script, catch=catch, doc=doc)


implicits = st.builds(ast.ImplicitDecl, names, calls, doc=maybe(docs))
schemas = st.builds(
    ast.SchemaDecl, names, lists(st.builds(ast.SchemaField, names, types)), doc=maybe(docs)
)


def declarations(depth: int) -> st.SearchStrategy[Any]:
    """Anything but namespaces. In their blocks, the bodies of steps nest so deep."""
    return st.one_of(
        callables(ast.FacetDecl, depth),
        callables(ast.EventFacetDecl, depth),
        callables(ast.WorkflowDecl, depth),
        implicits,
        schemas,
    )


_KINDS = {
    "facets": ast.FacetDecl,
    "event_facets": ast.EventFacetDecl,
    "workflows": ast.WorkflowDecl,
    "implicits": ast.ImplicitDecl,
    "schemas": ast.SchemaDecl,
}


def by_kind(members: Iterable[Any]) -> dict[str, Any]:
    found = list(members)
    return {
        key: frozen([each for each in found if isinstance(each, kind)])
        for key, kind in _KINDS.items()
    }


@st.composite
def programs(draw: st.DrawFn) -> ast.Program:
    """A tree that the parser can produce. The names of its namespaces differ."""
    spaces = [
        ast.Namespace(
            name,
            draw(lists(st.builds(ast.UsesDecl, qualified_names))),
            **by_kind(draw(st.lists(declarations(depth=1), max_size=2))),
            doc=draw(maybe(docs)),
        )
        for name in draw(st.lists(qualified_names, max_size=2, unique=True))
    ]
    return ast.Program(frozen(spaces), **by_kind(draw(st.lists(declarations(depth=1), max_size=2))))


# Writing


class Mark(NamedTuple):
    """A place between two tokens that is no plain gap."""

    kind: str


#: Between statements: a line end, perhaps a `;`.
END = Mark("end")
#: Where a `;` cannot stand.
LINE = Mark("line")

Token = str | Mark

COMMENTS = [
    "/* c */",
    "// it's \"open\n",
    "/* } ) ] */",
    "// script {\n",
    "/* script { */",
    "/* facet F( */",
    "// namespace n {\n",
    "/**/",
    "/* *** two\nlines **/",
    "// 日本 😀\n",
]
GAPS = ["\n", "  ", "\t", "\r\n", "\n\n\n", " \f ", *(f" {each} " for each in COMMENTS)]


def write(tree: ast.Program, seed: int = 0) -> str:
    """A text of the program. Seed 0 is the plain one."""
    return Writer(seed).text(tree)


def program_texts() -> st.SearchStrategy[str]:
    return st.builds(write, programs(), st.integers(0, 2**32))


class Writer:
    """Spells trees as tokens and puts gaps between them."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._plain = seed == 0

    def text(self, tree: ast.Program) -> str:
        return self.join(self.program(tree))

    def _chance(self, odds: float = 0.5) -> bool:
        return not self._plain and self._random.random() < odds

    def _shuffled(self, *sequences: Sequence[T]) -> Iterator[T]:
        """All items; those of one sequence keep their order."""
        pending = [list(each) for each in sequences if each]
        while pending:
            source = pending[0] if self._plain else self._random.choice(pending)
            yield source.pop(0)
            pending = [each for each in pending if each]

    # Layout

    def join(self, tokens: Iterable[Token]) -> str:
        parts: list[str] = []
        before = ""
        for token in tokens:
            if isinstance(token, Mark):
                parts.append(self._end(token))
                before = ""
                continue
            if before:
                parts.append(self._gap(before, token))
            parts.append(token)
            before = token
        return "".join(parts)

    def _end(self, mark: Mark) -> str:
        if self._plain:
            return "\n"
        comment = self._random.choice(COMMENTS) if self._chance(0.2) else ""
        line_ends = ["\n", "\r\n", "\n\n"]
        choices = line_ends if mark is LINE else [*line_ends, " ", ";", " ;\n", ";;\n\n"]
        return self._random.choice(choices) + comment

    def _gap(self, before: str, after: str) -> str:
        if self._chance(0.08):
            return self._random.choice(GAPS)
        if self._chance(0.05):
            # No doc comment: no declaration follows.
            return " /** not a doc */ "
        tight = before[-1] in "()[]{},:" or after[0] in "()[]{},:"
        return "" if tight and self._chance(0.3) else " "

    def _comma_separated(self, items: Iterable[list[Token]]) -> list[Token]:
        found: list[Token] = []
        for item in items:
            found += [",", *item] if found else item
        return [*found, ","] if found and self._chance(0.2) else found

    # Declarations

    def program(self, node: ast.Program) -> list[Token]:
        spaces = list(node.namespaces)
        last = spaces.pop() if spaces and self._chance() else None
        found: list[Token] = [END]
        for each in self._shuffled(*self._kinds(node), spaces):
            found += [*self.declaration(each), END]
        if last is not None:
            found += [*self._doc(last.doc), "namespace", last.name, END, *self._members(last)]
        return found

    def _kinds(self, node: ast.Program | ast.Namespace) -> list[Sequence[Any]]:
        return [node.facets, node.event_facets, node.workflows, node.implicits, node.schemas]

    def _members(self, node: ast.Namespace) -> list[Token]:
        found: list[Token] = []
        for each in self._shuffled(node.uses, *self._kinds(node)):
            found += [*self.declaration(each), END]
        return found

    def declaration(self, node: Any) -> list[Token]:
        if isinstance(node, ast.UsesDecl):
            return ["uses" if self._chance() else "use", node.name]
        doc = self._doc(node.doc)
        if isinstance(node, ast.Namespace):
            return [*doc, "namespace", node.name, "{", END, *self._members(node), "}"]
        if isinstance(node, ast.ImplicitDecl):
            return [*doc, "implicit", node.name, "=", *self.call(node.call)]
        if isinstance(node, ast.SchemaDecl):
            fields = [[each.name, ":", *self.type(each.type)] for each in node.fields]
            return [*doc, "schema", node.name, "{", *self._comma_separated(fields), "}"]
        event = ["event"] if isinstance(node, ast.EventFacetDecl) else []
        keyword = "workflow" if isinstance(node, ast.WorkflowDecl) else "facet"
        return [*doc, *event, keyword, *self._signature(node.sig), *self._body(node)]

    def _doc(self, doc: ast.DocComment | None) -> list[Token]:
        if doc is None:
            return []
        entries = [("param", each) for each in doc.params]
        answers = [("returns" if self._chance() else "return", each) for each in doc.returns]
        lines = doc.description.split("\n")
        for tag, entry in self._shuffled(entries, answers):
            lines.append(f"@{tag} {entry.name} {entry.description}")
        return ["/**\n" + "".join(f" * {line}\n" for line in lines) + " */", LINE]

    def _signature(self, node: ast.FacetSig) -> list[Token]:
        found: list[Token] = [node.name, "(", *self._params(node.params), ")"]
        if node.returns is not None:
            found += ["=>", "(", *self._params(node.returns.params), ")"]
        elif self._chance(0.1):
            found += ["=>", "(", ")"]
        return [*found, *self._mixins(node.mixins)]

    def _params(self, params: Iterable[ast.Parameter]) -> list[Token]:
        return self._comma_separated(
            [
                *(each.name, ":", *self.type(each.type)),
                *(["=", *self.expression(each.default)] if each.default is not None else []),
            ]
            for each in params
        )

    def type(self, node: ast.TypeExpr) -> list[Token]:
        if isinstance(node, ast.ArrayType):
            return ["[", *self.type(node.element_type), "]"]
        return [node.name]

    def _body(self, node: Any) -> list[Token]:
        found: list[Token] = []
        if node.pre_script is not None:
            found += self._script(node.pre_script)
        if isinstance(node.body, ast.ScriptBlock):
            found += self._script(node.body)
        elif isinstance(node.body, ast.PromptBlock):
            found += self._prompt(node.body)
        return found + self._blocks(node)

    def _prompt(self, node: ast.PromptBlock) -> list[Token]:
        entries = [
            [key, self.string(value)]
            for key in ("system", "template", "model")
            if (value := getattr(node, key)) is not None
        ]
        if not self._plain:
            self._random.shuffle(entries)
        return ["prompt", "{", *(token for entry in entries for token in entry), "}"]

    def _script(self, node: ast.ScriptBlock) -> list[Token]:
        found: list[Token] = ["script"]
        if node.language != "python" or self._chance():
            found.append(node.language)
        lines = _code_lines(node.code)
        raw = all(line.lstrip(" ") in (*CODE_LINES, "") for line in lines)
        if not raw or node.code != _as_written(lines):
            return [*found, self.string(node.code)]
        if len(lines) == 1 and "#" not in node.code and self._chance():
            return [*found, f"{{ {node.code} }}"]
        indent = self._random.choice(["", "  ", "\t"])
        return [*found, "{\n" + "".join(f"{indent}{line}\n" for line in lines) + indent + "}"]

    # Blocks

    def _blocks(self, node: Any) -> list[Token]:
        found: list[Token] = []
        for each in node.bodies:
            found += self._and_then(each)
        if node.catch is not None:
            found += ["catch", *self._when_or_block(node.catch)]
        return found

    def _and_then(self, node: ast.AndThenBlock) -> list[Token]:
        if node.script is not None:
            return ["andThen", *self._script(node.script)]
        if node.foreach is None:
            return ["andThen", *self._when_or_block(node)]
        head: list[Token] = ["andThen", "foreach", node.foreach.variable, "in"]
        return [*head, *self.expression(node.foreach.iterable), *self._block(node.block)]

    def _when_or_block(self, node: ast.AndThenBlock | ast.CatchClause) -> list[Token]:
        if node.when is None:
            return self._block(node.block)
        found: list[Token] = ["when", "{", LINE]
        for case in node.when.cases:
            condition: list[Token] = (
                ["_"] if case.condition is None else self.expression(case.condition)
            )
            found += ["case", *condition, "=>", *self._block(case.block), LINE]
        return [*found, "}"]

    def _block(self, node: ast.Block) -> list[Token]:
        found: list[Token] = ["{", END]
        for position, step in enumerate(node.steps):
            found += [*self._step(step, position), END]
        chained = False
        for each in node.yield_stmts:
            call = self.call(each.call)
            if chained and self._chance():
                found.pop()
                found += ["with", *call, END]
            else:
                found += ["yield", *call, END]
            chained = True
        return [*found, "}"]

    def _step(self, node: ast.StepStmt, position: int) -> list[Token]:
        call = node.call
        bare = call.name in BARE_CALLS and node.name == bare_name(position) and not node.bodies
        if not bare or node.catch is not None or self._chance(0.3):
            return [node.name, "=", *self.call(call), *self._blocks(node)]
        if len(call.args) == 1 and call.args[0].name == BARE_CALLS[call.name] and self._chance():
            value = self.expression(call.args[0].value)
            return [call.name, "(", *value, ")", *self._mixins(call.mixins)]
        return self.call(call)

    # Calls

    def call(self, node: ast.CallExpr) -> list[Token]:
        return [node.name, "(", *self._args(node.args), ")", *self._mixins(node.mixins)]

    def _args(self, found: Iterable[ast.NamedArg]) -> list[Token]:
        return self._comma_separated(
            [each.name, "=", *self.expression(each.value)] for each in found
        )

    def _mixins(self, found: Iterable[ast.MixinSig | ast.MixinCall]) -> list[Token]:
        tokens: list[Token] = []
        for each in found:
            tokens += ["with", each.name, "(", *self._args(each.args), ")"]
            if each.alias is not None:
                tokens += ["as", each.alias]
        return tokens

    # Expressions

    def expression(self, node: ast.Expr) -> list[Token]:
        """Every operator in parentheses."""
        match node:
            case ast.Literal():
                return [self._literal(node)]
            case ast.Reference():
                return [("$." if node.is_input else "") + ".".join(node.path)]
            case ast.ArrayLiteral():
                items = [self.expression(each) for each in node.elements]
                return ["[", *self._comma_separated(items), "]"]
            case ast.MapLiteral():
                entries = [
                    [self._key(each.key), ":", *self.expression(each.value)]
                    for each in node.entries
                ]
                return ["#{", *self._comma_separated(entries), "}"]
            case ast.IndexExpr():
                return self._index(node)
            case ast.UnaryExpr():
                return ["(", node.operator, *self.expression(node.operand), ")"]
            case ast.BinaryExpr():
                left, right = self.expression(node.left), self.expression(node.right)
                plus: list[Token] = ["+"] if self._chance(0.1) else []
                return ["(", *left, *node.operator.split(), *plus, *right, ")"]
            case ast.ConcatExpr():
                found = self.expression(node.operands[0])
                for each in node.operands[1:]:
                    found += ["++", *self.expression(each)]
                return ["(", *found, ")"]

    def _index(self, node: ast.IndexExpr) -> list[Token]:
        target, key = self.expression(node.target), node.index
        if (
            isinstance(node.target, ast.IndexExpr)
            and isinstance(key, ast.Literal)
            and _is_name(key.value)
            and self._chance()
        ):
            return [*target, ".", str(key.value)]
        return [*target, "[", *self.expression(key), "]"]

    def _key(self, key: str) -> str:
        return key if _is_name(key) and (self._plain or self._chance()) else self.string(key)

    def _literal(self, node: ast.Literal) -> str:
        value = node.value
        if node.kind == "string":
            return self.string(str(value))
        if node.kind == "integer":
            return str(value)
        if node.kind != "double":
            return "null" if value is None else str(value).lower()
        short = repr(value)
        if re.fullmatch(r"[0-9]+\.[0-9]+(e[+-]?[0-9]+)?", short) and not self._chance():
            return short
        return f"{value:.17{self._random.choice('eE')}}"

    def string(self, value: str) -> str:
        return '"' + "".join(self._spell(each) for each in value) + '"'

    def _spell(self, char: str) -> str:
        if self._chance(0.05):
            return "\\\n" + self._spell(char)
        code = ord(char)
        wide = f"\\U{code:08x}"
        if code > 0xFFFF and self._chance(0.3):
            pair = char.encode("utf-16-be").hex()
            return f"\\u{pair[:4]}\\u{pair[4:]}"
        if char == "\0" or self._chance(0.1):
            return wide if code > 0xFFFF else f"\\u{code:04X}"
        if char in '"\\':
            return "\\" + char
        short = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "/": "\\/"}
        return short[char] if char in short and self._chance() else char


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value))
