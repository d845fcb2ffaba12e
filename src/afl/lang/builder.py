"""From grammar rules to syntax tree: one method per rule of grammar.lark, called by the parser.

The parser calls these while it reads, so no parse tree is ever made. Children arrive as lists
in grammar order; optional parts that are absent arrive as None. What the grammar lets pass but
the language does not (`F(1)`, a step after a yield) is noted in `problems`, so that one reading
of the text finds all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from lark import Token, Transformer

from afl.lang import ast, codes, strings, trivia
from afl.lang.ast import EMPTY, FrozenList, SourceLocation, frozen
from afl.lang.codes import Code
from afl.lang.diagnostics import Diagnostic
from afl.lang.limits import MAX_DEPTH
from afl.lang.scripts import CodeLine, code_lines

#: Statements that need no name; their first argument may go without one, too.
BARE_CALLS = {"sys.log": "message", "sys.assert": "condition"}

_MAX_LONG = 2**63 - 1

Children = list[Any]


class Builder(Transformer[Token, Any]):
    """Builds one tree at a time; `begin` makes it ready for the next text.

    `brackets` holds, at any time, the brackets that are open where the parser is.
    """

    def __init__(self, brackets: Sequence[Token]) -> None:
        super().__init__()
        self._brackets = brackets
        self.begin("", None)

    def begin(self, masked: str, source_id: str | None) -> None:
        self.source_id = source_id
        self.docs = trivia.doc_comments(masked)
        self.problems: list[Diagnostic] = []
        self._unnamed: list[ast.NamedArg] = []
        self._depths: dict[int, int] = {}
        self._too_deep = False

    # Places

    # Tokens are Any here: lark types their places as optional, but a lexed token has them all.

    def _span(self, first: Any, last: Any) -> SourceLocation:
        return SourceLocation(
            first.line, first.column, last.end_line, last.end_column, self.source_id
        )

    def _from(self, first: Any, last: ast.ASTNode) -> SourceLocation:
        end = last.location
        assert end is not None
        return SourceLocation(
            first.line, first.column, end.end_line, end.end_column, self.source_id
        )

    def _join(self, first: ast.ASTNode, last: ast.ASTNode) -> SourceLocation:
        start, end = first.location, last.location
        assert start is not None
        assert end is not None
        return SourceLocation(
            start.line, start.column, end.end_line, end.end_column, self.source_id
        )

    def _report(
        self, code: Code, message: str, place: SourceLocation | None, hint: str | None = None
    ) -> None:
        self.problems.append(Diagnostic.of(code, message, place, hint))

    # Program and namespaces

    def program(self, items: Children) -> ast.Program:
        scopes: list[tuple[_Header, Children]] = []
        top: Children = []
        namespaces: list[ast.Namespace] = []
        current = top
        for item in items:
            if isinstance(item, _Header):
                current = []
                scopes.append((item, current))
            elif isinstance(item, ast.Namespace):
                namespaces.append(item)
            else:
                current.append(item)
        self._check_headers([header for header, _ in scopes], namespaces)
        namespaces += [self._file_scope(header, members) for header, members in scopes]
        self._check_uses(top)
        self._check_unnamed()
        return ast.Program(frozen(namespaces), **_by_kind(top))

    def namespace(self, items: Children) -> ast.Namespace:
        keyword, name, members, close = items[0], items[1], items[2:-1], items[-1]
        for inner in members:
            if isinstance(inner, ast.Namespace):
                message = f"Namespace '{inner.name}' cannot be inside namespace '{name}'"
                hint = f"write `namespace {name}.{inner.name} {{ … }}` beside it"
                self._report(codes.MISPLACED_NAMESPACE, message, inner.location, hint)
        return ast.Namespace(
            str(name),
            frozen([each for each in members if isinstance(each, ast.UsesDecl)]),
            **_by_kind(members),
            doc=self.docs.get(keyword.start_pos),
            location=self._span(keyword, close),
        )

    def file_namespace(self, items: Children) -> _Header:
        return _Header(items[0], items[1])

    def _file_scope(self, header: _Header, members: Children) -> ast.Namespace:
        return ast.Namespace(
            str(header.name),
            frozen([each for each in members if isinstance(each, ast.UsesDecl)]),
            **_by_kind(members),
            doc=self.docs.get(header.keyword.start_pos or 0),
            location=self._span(header.keyword, header.name),
            file_scoped=True,
        )

    def _check_headers(self, headers: list[_Header], braced: list[ast.Namespace]) -> None:
        if not headers:
            return
        first = headers[0]
        for other in headers[1:]:
            message = (
                f"Namespace '{other.name}' cannot start here: namespace '{first.name}' "
                "without braces holds to the end of the file"
            )
            place = self._span(other.keyword, other.name)
            self._report(codes.MISPLACED_NAMESPACE, message, place, "give both of them braces")
        for each in braced:
            if each.location and each.location[:2] > (first.keyword.line, first.keyword.column):
                message = f"Namespace '{each.name}' cannot be inside namespace '{first.name}'"
                hint = f"give namespace '{first.name}' braces, or move this one above it"
                self._report(codes.MISPLACED_NAMESPACE, message, each.location, hint)

    def _check_uses(self, top: Children) -> None:
        for each in top:
            if isinstance(each, ast.UsesDecl):
                message = f"'use {each.name}' stands outside a namespace"
                hint = "put it inside the namespace, after its opening brace"
                self._report(codes.MISPLACED_USE, message, each.location, hint)

    def use(self, items: Children) -> ast.UsesDecl:
        return ast.UsesDecl(str(items[1]), location=self._span(items[0], items[1]))

    def qname(self, items: Children) -> Token:
        token: Token = items[0]
        return token

    # Declarations

    def facet(self, items: Children) -> ast.FacetDecl:
        return ast.FacetDecl(**self._callable(*items))

    def event_facet(self, items: Children) -> ast.EventFacetDecl:
        return ast.EventFacetDecl(**self._callable(*items))

    def workflow(self, items: Children) -> ast.WorkflowDecl:
        return ast.WorkflowDecl(**self._callable(*items))

    def _callable(self, keyword: Token, sig: ast.FacetSig, tail: _Tail) -> dict[str, Any]:
        last = tail.last or sig
        return {
            "sig": sig,
            "body": tail.body,
            "pre_script": tail.pre_script,
            "catch": tail.catch,
            "doc": self.docs.get(keyword.start_pos or 0),
            "location": self._from(keyword, last),
        }

    def body(self, items: Children) -> _Tail:
        head, *blocks, catch = items
        last = catch or (blocks[-1] if blocks else head)
        if isinstance(head, ast.PromptBlock) and (blocks or catch):
            message = "A prompt cannot be followed by 'andThen' or 'catch'"
            self._report(codes.PROMPT_AND_BLOCKS, message, head.location)
        if not blocks:
            return _Tail(head, None, catch, last)
        pre_script = head if isinstance(head, ast.ScriptBlock) else None
        return _Tail(_one_or_list(blocks), pre_script, catch, last)

    def sig(self, items: Children) -> ast.FacetSig:
        name, params, close, returns, *mixins = items
        location = (
            self._from(name, mixins[-1] if mixins else returns)
            if (mixins or returns)
            else self._span(name, close)
        )
        return ast.FacetSig(str(name), params or EMPTY, returns, frozen(mixins), location=location)

    def returns(self, items: Children) -> ast.ReturnClause | None:
        """`=> ()` declares nothing, like no clause at all."""
        arrow, params, close = items
        return ast.ReturnClause(params, location=self._span(arrow, close)) if params else None

    def params(self, items: Children) -> FrozenList[ast.Parameter]:
        return FrozenList(items)

    def param(self, items: Children) -> ast.Parameter:
        name, type_, default = items
        return ast.Parameter(str(name), type_, default, location=self._from(name, default or type_))

    def type_name(self, items: Children) -> ast.TypeRef:
        return ast.TypeRef(str(items[0]), location=self._span(items[0], items[0]))

    def array_type(self, items: Children) -> ast.ArrayType:
        first, element, close = items
        return ast.ArrayType(element, location=self._span(first, close))

    def schema(self, items: Children) -> ast.SchemaDecl:
        keyword, name, *fields, close = items
        return ast.SchemaDecl(
            str(name),
            frozen([each for each in fields if each is not None]),
            doc=self.docs.get(keyword.start_pos),
            location=self._span(keyword, close),
        )

    def field(self, items: Children) -> ast.SchemaField:
        name, type_ = items
        return ast.SchemaField(str(name), type_, location=self._from(name, type_))

    def implicit(self, items: Children) -> ast.ImplicitDecl:
        keyword, name, call = items
        return ast.ImplicitDecl(
            str(name),
            call,
            doc=self.docs.get(keyword.start_pos),
            location=self._from(keyword, call),
        )

    # Bodies

    def prompt(self, items: Children) -> ast.PromptBlock:
        keyword, *entries, close = items
        values: dict[str, str] = {}
        for key, value in entries:
            if key in values:
                message = f"Prompt directive '{key}' is given twice"
                self._report(codes.REPEATED_DIRECTIVE, message, self._span(key, key))
            values[str(key)] = value
        return ast.PromptBlock(**values, location=self._span(keyword, close))

    def prompt_entry(self, items: Children) -> tuple[Token, str]:
        key, text = items
        return key, self._decode(text)

    def script(self, items: Children) -> ast.ScriptBlock:
        keyword, language, text = items
        place = self._span(keyword, text)
        name = str(language or "python")
        if text.type != "RAW":
            return ast.ScriptBlock(name, self._decode(text), location=place)
        lines = code_lines(text[1:-1])
        script = ast.ScriptBlock(name, "\n".join(each.text for each in lines), location=place)
        # No argument of the node: who makes one without a text has no places to give.
        object.__setattr__(script, "places", tuple(_code_place(text, each) for each in lines))
        return script

    def and_then_block(self, items: Children) -> ast.AndThenBlock:
        keyword, foreach, block = items
        return ast.AndThenBlock(block, foreach, location=self._from(keyword, block))

    def and_then_when(self, items: Children) -> ast.AndThenBlock:
        keyword, when = items
        return ast.AndThenBlock(_NOTHING, when=when, location=self._from(keyword, when))

    def and_then_script(self, items: Children) -> ast.AndThenBlock:
        keyword, script = items
        return ast.AndThenBlock(_NOTHING, script=script, location=self._from(keyword, script))

    def foreach(self, items: Children) -> ast.ForeachClause:
        keyword, variable, iterable = items
        return ast.ForeachClause(str(variable), iterable, location=self._from(keyword, iterable))

    def when(self, items: Children) -> ast.WhenBlock:
        keyword, *cases, close = items
        return ast.WhenBlock(frozen(cases), location=self._span(keyword, close))

    def case(self, items: Children) -> ast.WhenCase:
        keyword, condition, _arrow, block = items
        is_default = isinstance(condition, ast.Reference) and condition == _UNDERSCORE
        return ast.WhenCase(
            None if is_default else condition, block, location=self._from(keyword, block)
        )

    def catch_block(self, items: Children) -> ast.CatchClause:
        keyword, block = items
        return ast.CatchClause(block, location=self._from(keyword, block))

    def catch_when(self, items: Children) -> ast.CatchClause:
        keyword, when = items
        return ast.CatchClause(_NOTHING, when, location=self._from(keyword, when))

    # Statements

    def block(self, items: Children) -> ast.Block:
        steps: list[ast.StepStmt] = []
        yields: list[ast.YieldStmt] = []
        for item in items[1:-1]:
            if isinstance(item, list):
                yields += item
                continue
            if isinstance(item, ast.CallExpr):
                item = ast.StepStmt(bare_name(len(steps)), item, location=item.location)
            if yields:
                message = f"Step '{item.name}' stands after a yield"
                self._report(codes.STEP_AFTER_YIELD, message, item.location)
            steps.append(item)
        return ast.Block(frozen(steps), frozen(yields), location=self._span(items[0], items[-1]))

    def step(self, items: Children) -> ast.StepStmt:
        name, call, *blocks, catch = items
        last = catch or (blocks[-1] if blocks else call)
        return ast.StepStmt(
            str(name), call, _one_or_list(blocks), catch=catch, location=self._from(name, last)
        )

    def yield_stmt(self, items: Children) -> list[ast.YieldStmt]:
        """A yield `with` mixins is several yields, one for each target."""
        keyword, call = items
        location = self._from(keyword, call)
        first = ast.CallExpr(call.name, call.args, location=call.location)
        yields = [ast.YieldStmt(first, location=location)]
        for mixin in call.mixins:
            if mixin.alias:
                message = f"A yield has no alias, but this one says 'as {mixin.alias}'"
                self._report(codes.MISPLACED_ALIAS, message, mixin.location)
            part = ast.CallExpr(mixin.name, mixin.args, location=mixin.location)
            yields.append(ast.YieldStmt(part, location=mixin.location))
        return yields

    def bare_call(self, items: Children) -> ast.CallExpr:
        call: ast.CallExpr = items[0]
        if call.name not in BARE_CALLS:
            message = f"The call of '{call.name}' has no step name"
            hint = f"write `name = {call.name}(…)`"
            self._report(codes.UNNAMED_STEP, message, call.location, hint)
            return call
        if not call.args or call.args[0].name:
            return call
        first, *others = call.args
        # By identity: an equal argument elsewhere is a problem of its own.
        self._unnamed = [each for each in self._unnamed if each is not first]
        named = ast.NamedArg(BARE_CALLS[call.name], first.value, location=first.location)
        return ast.CallExpr(
            call.name, frozen([named, *others]), call.mixins, location=call.location
        )

    # Calls

    def call(self, items: Children) -> ast.CallExpr:
        name, args, close, *mixins = items
        location = self._from(name, mixins[-1]) if mixins else self._span(name, close)
        return ast.CallExpr(str(name), args or EMPTY, frozen(mixins), location=location)

    def mixin_sig(self, items: Children) -> ast.MixinSig:
        return ast.MixinSig(*self._mixin_parts(*items), location=self._span(items[0], _last(items)))

    def mixin_call(self, items: Children) -> ast.MixinCall:
        return ast.MixinCall(
            *self._mixin_parts(*items), location=self._span(items[0], _last(items))
        )

    def _mixin_parts(
        self, _with: Token, name: Token, args: Any, _close: Token, alias: Token | None
    ) -> tuple[str, FrozenList[ast.NamedArg], str | None]:
        return str(name), args or EMPTY, str(alias) if alias else None

    def args(self, items: Children) -> FrozenList[ast.NamedArg]:
        return FrozenList(items)

    def named_arg(self, items: Children) -> ast.NamedArg:
        name, value = items
        return ast.NamedArg(str(name), value, location=self._from(name, value))

    def positional_arg(self, items: Children) -> ast.NamedArg:
        arg = ast.NamedArg("", items[0], location=items[0].location)
        self._unnamed.append(arg)
        return arg

    def _check_unnamed(self) -> None:
        for arg in self._unnamed:
            message = "This argument has no name"
            self._report(codes.POSITIONAL, message, arg.location, "write `name = value`")

    # Expressions

    def _nested(self, node: Any, *children: Any) -> Any:
        """Remember how deep `node` is; refuse it when later passes could not follow."""
        depths = self._depths
        depth = 1 + max([depths.get(id(each), 0) for each in children], default=0)
        if depth + len(self._brackets) > MAX_DEPTH:
            if not self._too_deep:
                self._too_deep = True
                self._report(codes.NESTING, "This expression is nested too deeply", node.location)
            # Cut here, so that the tree stays shallow enough for whoever gets it.
            return ast.Literal(None, "null", location=node.location)
        depths[id(node)] = depth
        return node

    def binary(self, items: Children) -> Any:
        left, operator, right = items
        node = ast.BinaryExpr(str(operator), left, right, location=self._join(left, right))
        return self._nested(node, left, right)

    def not_in(self, items: Children) -> Any:
        left, _not, _in, right = items
        node = ast.BinaryExpr("not in", left, right, location=self._join(left, right))
        return self._nested(node, left, right)

    def concat(self, items: Children) -> Any:
        node = ast.ConcatExpr(FrozenList(items), location=self._join(items[0], items[-1]))
        return self._nested(node, *items)

    def unary(self, items: Children) -> Any:
        operator, operand = items
        if operator == "+":
            return operand
        node = ast.UnaryExpr(str(operator), operand, location=self._from(operator, operand))
        return self._nested(node, operand)

    def index(self, items: Children) -> Any:
        target, index, close = items
        start = target.location
        location = SourceLocation(
            start.line, start.column, close.end_line, close.end_column, self.source_id
        )
        return self._nested(ast.IndexExpr(target, index, location=location), target, index)

    def member(self, items: Children) -> Any:
        """`xs[0].name` is `xs[0]["name"]`."""
        target, name = items
        for part in str(name).split("."):
            key = ast.Literal(part, "string", location=self._span(name, name))
            node = ast.IndexExpr(target, key, location=self._join(target, key))
            target = self._nested(node, target)
        return target

    def array(self, items: Children) -> Any:
        elements = frozen([each for each in items[1:-1] if each is not None])
        node = ast.ArrayLiteral(elements, location=self._span(items[0], items[-1]))
        return self._nested(node, *elements)

    def map(self, items: Children) -> Any:
        entries = frozen([each for each in items[1:-1] if each is not None])
        node = ast.MapLiteral(entries, location=self._span(items[0], items[-1]))
        return self._nested(node, *[each.value for each in entries])

    def entry(self, items: Children) -> ast.MapEntry:
        key, value = items
        name = self._decode(key) if key.type == "STRING" else str(key)
        return ast.MapEntry(name, value, location=self._from(key, value))

    # Atoms

    def input(self, items: Children) -> ast.Reference:
        token = items[0]
        path = FrozenList(token[2:].split("."))
        return ast.Reference(path, True, location=self._span(token, token))

    def step_reference(self, items: Children) -> ast.Reference:
        token = items[0]
        return ast.Reference(FrozenList(token.split(".")), False, location=self._span(token, token))

    def string(self, items: Children) -> ast.Literal:
        token = items[0]
        return ast.Literal(self._decode(token), "string", location=self._span(token, token))

    def integer(self, items: Children) -> ast.Literal:
        token = items[0]
        place = self._span(token, token)
        # The length comes first: Python refuses to convert thousands of digits.
        value = int(token) if len(token) < 1000 else _MAX_LONG + 1
        if value > _MAX_LONG:
            self._report(codes.NUMBER, "This integer does not fit in 64 bits", place)
            value = 0
        return ast.Literal(value, "integer", location=place)

    def float(self, items: Children) -> ast.Literal:
        token = items[0]
        place = self._span(token, token)
        value = float(token)
        if math.isinf(value):
            self._report(codes.NUMBER, "This number is too large for a Double", place)
            value = 0.0
        return ast.Literal(value, "double", location=place)

    def true(self, items: Children) -> ast.Literal:
        return ast.Literal(True, "boolean", location=self._span(items[0], items[0]))

    def false(self, items: Children) -> ast.Literal:
        return ast.Literal(False, "boolean", location=self._span(items[0], items[0]))

    def null(self, items: Children) -> ast.Literal:
        return ast.Literal(None, "null", location=self._span(items[0], items[0]))

    def _decode(self, token: Token) -> str:
        def report(code: Code, message: str, offset: int) -> None:
            self._report(code, message, self._inside(token, offset))

        return strings.decode(token, report)

    def _inside(self, token: Token, offset: int) -> SourceLocation:
        """The place of the character at `offset` of a token that may span lines."""
        before = token[:offset]
        line = (token.line or 1) + before.count("\n")
        newline = before.rfind("\n")
        column = offset - newline if newline >= 0 else (token.column or 1) + offset
        return SourceLocation(line, column, line, column + 1, self.source_id)


class _Header:
    """`namespace a.b` without braces, met on the way."""

    def __init__(self, keyword: Token, name: Token) -> None:
        self.keyword = keyword
        self.name = name


class _Tail:
    """What follows a signature, and the node it ends with."""

    def __init__(
        self,
        body: Any,
        pre_script: ast.ScriptBlock | None,
        catch: ast.CatchClause | None,
        last: ast.ASTNode | None,
    ) -> None:
        self.body = body
        self.pre_script = pre_script
        self.catch = catch
        self.last = last


_NOTHING = ast.Block()
_UNDERSCORE = ast.Reference(FrozenList(["_"]), False)


def bare_name(position: int) -> str:
    """The step name of a statement such as `sys.log(…)`, which is written without one."""
    return f"_sys_{position}"


def _code_place(raw: Any, line: CodeLine) -> tuple[int, int]:
    """Where a line of a script stands in the text; the first one follows the brace."""
    before = raw.column if line.line == 0 else 0
    return raw.line + line.line, before + line.column + 1


def _one_or_list(blocks: list[ast.AndThenBlock]) -> ast.StepBody:
    if not blocks:
        return None
    return blocks[0] if len(blocks) == 1 else FrozenList(blocks)


def _last(items: Children) -> Token:
    token: Token = items[-1] or items[-2]
    return token


_KINDS: list[tuple[str, Callable[[Any], bool]]] = [
    ("facets", lambda each: isinstance(each, ast.FacetDecl)),
    ("event_facets", lambda each: isinstance(each, ast.EventFacetDecl)),
    ("workflows", lambda each: isinstance(each, ast.WorkflowDecl)),
    ("implicits", lambda each: isinstance(each, ast.ImplicitDecl)),
    ("schemas", lambda each: isinstance(each, ast.SchemaDecl)),
]


def _by_kind(members: Children) -> dict[str, Any]:
    return {name: frozen([each for each in members if is_kind(each)]) for name, is_kind in _KINDS}
