"""The parts of calls, statements and bodies: one node at a time, children left as nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from afl.lang import ast, strings
from afl.lang.builder import BARE_CALLS, bare_name
from afl.lang.formatter import spelling
from afl.lang.formatter.expressions import Expressions
from afl.lang.formatter.parts import Break, Open, Pieces, Raw, Sign, Word, braces, listing
from afl.lang.formatter.source import Places

#: After a step these words continue it, so a step of that name needs a `;` before it.
_CONTINUATIONS = {"with", "as", "andThen", "catch"}


class Statements(Expressions):
    """Calls, blocks, and the clauses that hang on calls and signatures."""

    def __init__(self, places: Places) -> None:
        super().__init__(places)
        self.table |= {
            ast.CallExpr: self.call,
            ast.MixinCall: self.mixin,
            ast.MixinSig: self.mixin,
            ast.StepStmt: self.step,
            ast.Block: self.block,
            ast.AndThenBlock: self.and_then,
            ast.CatchClause: self.catch,
            ast.ForeachClause: self.foreach,
            ast.WhenBlock: self.when,
            ast.WhenCase: self.case,
            ast.ScriptBlock: self.script,
            ast.PromptBlock: self.prompt,
        }

    # Calls

    def call(self, node: ast.CallExpr) -> Pieces:
        return [*self._call_head(node), *clauses(node.mixins)]

    def _call_head(self, node: ast.CallExpr, positional: bool = False) -> Pieces:
        # The location of a call includes its mixins.
        closer = ")" if node.mixins else self.closer(")", node)
        values: list[Pieces] = [[each.value if positional else each] for each in node.args]
        return [self.word(node.name, node), *listing("(", values, closer)]

    def mixin(self, node: ast.MixinCall | ast.MixinSig) -> Pieces:
        head = [self.word("with", node), " ", node.name]
        if node.alias is None:
            return [*head, *self.arguments(node.args, self.closer(")", node))]
        return [*head, *self.arguments(node.args, ")"), " as ", node.alias]

    # Statements

    def step(self, node: ast.StepStmt) -> Pieces:
        hung = clauses([*node.call.mixins, *node.bodies, *some(node.catch)])
        return [self.word(node.name, node), " = ", *self._call_head(node.call), *hung]

    def _bare(self, call: ast.CallExpr) -> Pieces:
        """A call that needs no step name, and no name for its usual argument."""
        positional = len(call.args) == 1 and call.args[0].name == BARE_CALLS[call.name]
        return [*self._call_head(call, positional), *clauses(call.mixins)]

    def block(self, node: ast.Block) -> Pieces:
        lines: list[Pieces] = []
        for position, step in enumerate(node.steps):
            if lines and step.name in _CONTINUATIONS:
                lines[-1].append(";")
            lines.append(self._bare(step.call) if _is_bare(step, position) else [step])
        lines += [self._yields(group) for group in _yield_groups(node.yield_stmts)]
        return braces(self.word("{", node), lines, self.closer("}", node))

    def _yields(self, group: list[ast.YieldStmt]) -> Pieces:
        """One `yield`, with the others of its group hung on by `with`."""
        first, *others = group
        if not others:
            return [self.word("yield", first), " ", first.call]
        # The location of the first call spans all of them.
        head = [self.word(first.call.name, first.call), *self.arguments(first.call.args, ")")]
        return [self.word("yield", first), " ", *head, *_hang([self._more(x) for x in others])]

    def _more(self, node: ast.YieldStmt) -> Pieces:
        closer = self.closer(")", node.call)
        return [
            self.word("with", node),
            " ",
            node.call.name,
            *self.arguments(node.call.args, closer),
        ]

    # Bodies

    def and_then(self, node: ast.AndThenBlock) -> Pieces:
        head = [self.word("andThen", node), " "]
        if node.foreach is not None:
            return [*head, node.foreach, " ", node.block]
        return [*head, node.when or node.script or node.block]

    def catch(self, node: ast.CatchClause) -> Pieces:
        return [self.word("catch", node), " ", node.when or node.block]

    def foreach(self, node: ast.ForeachClause) -> Pieces:
        head = [self.word("foreach", node), " ", node.variable, " in "]
        if not isinstance(node.iterable, ast.Reference) and _ends_in_script(node.iterable):
            # `script {` would be read as a script.
            return [*head, "(", node.iterable, ")"]
        return [*head, node.iterable]

    def when(self, node: ast.WhenBlock) -> Pieces:
        lines: list[Pieces] = [[each] for each in node.cases]
        return [self.word("when", node), " ", *braces("{", lines, self.closer("}", node))]

    def case(self, node: ast.WhenCase) -> Pieces:
        condition = "_" if node.condition is None else node.condition
        return [self.word("case", node), " ", condition, " => ", node.block]

    def script(self, node: ast.ScriptBlock) -> Pieces:
        # Placed at its end, so that comments inside its head come out before it.
        place = self.places.last(node)
        head = spelling.script_head(node)
        if spelling.has_braces(node.code):
            return [Word(f"{head} {{", place), Sign.HEADER_END, Raw(node.code)]
        return [Word(f"{head} {strings.quote(node.code)}", place)]

    def prompt(self, node: ast.PromptBlock) -> Pieces:
        lines = self._prompt_lines(node)
        return [self.word("prompt", node), " ", *braces("{", lines, self.closer("}", node))]

    def _prompt_lines(self, node: ast.PromptBlock) -> list[Pieces]:
        keys = [key for key in ("system", "template", "model") if getattr(node, key) is not None]
        source = self.places.source
        if source is None or node.location is None:
            return [[f"{key} {strings.quote(getattr(node, key))}"] for key in keys]
        lexemes = source.within(node)
        words = [each for each in lexemes if not each.is_comment][2:-1]
        pairs = list(zip(words[::2], words[1::2], strict=True))
        if len(words) == len(lexemes) - 3:
            # A comment speaks of its neighbours; only without one may directives move.
            pairs.sort(key=lambda pair: keys.index(pair[0].text))
            return [[Word(f"{key.text} {value.text}")] for key, value in pairs]
        return [
            [Word(key.text, key.start), " ", Word(value.text, value.start)] for key, value in pairs
        ]


def clauses(nodes: Sequence[Any]) -> Pieces:
    return _hang([[each] for each in nodes])


def _hang(clauses: list[Pieces]) -> Pieces:
    """`with`, `andThen`, `catch`: all behind each other, or each on a line of its own."""
    if not clauses:
        return []
    pieces: Pieces = [Open()]
    for clause in clauses:
        pieces += [Break(), *clause]
    return [*pieces, Sign.CLOSE]


def some(node: Any) -> list[Any]:
    return [] if node is None else [node]


def _is_bare(step: ast.StepStmt, position: int) -> bool:
    """Whether the parser would give the step this name if it had none."""
    named = step.name != bare_name(position) or step.call.name not in BARE_CALLS
    return not (named or step.bodies or step.catch)


def _yield_groups(yields: Sequence[ast.YieldStmt]) -> list[list[ast.YieldStmt]]:
    """Yields that were written as one, `yield A() with B()`: the first spans the others."""
    groups: list[list[ast.YieldStmt]] = []
    for each in yields:
        if groups and _spans(groups[-1][0], each):
            groups[-1].append(each)
        else:
            groups.append([each])
    return groups


def _spans(outer: ast.ASTNode, inner: ast.ASTNode) -> bool:
    if outer.location is None or inner.location is None:
        return False
    begin, end = inner.location[:2], outer.location[2:4]
    return outer.location[:2] < begin < end and outer.location[4] == inner.location[4]


def _ends_in_script(node: Any) -> bool:
    while not isinstance(node, ast.Reference):
        if isinstance(node, ast.BinaryExpr):
            node = node.right
        elif isinstance(node, ast.ConcatExpr):
            node = node.operands[-1]
        elif isinstance(node, ast.UnaryExpr):
            node = node.operand
        else:
            # `xs[0]. script`: a comment may part the dot from the name.
            return isinstance(node, ast.IndexExpr) and node.index == ast.Literal("script", "string")
    return not node.is_input and list(node.path) == ["script"]
