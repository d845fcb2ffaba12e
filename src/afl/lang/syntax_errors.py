"""From "the parser stopped here" to a sentence that helps.

`explain` gets what the parser knew (the token, what it could have taken, which brackets were
open) and makes one Diagnostic. The tables below are the whole knowledge of common mistakes; the
first entry that fits gives the hint.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lark import Token
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from lark.parsers.lalr_analysis import Shift

from afl.lang import codes, trivia
from afl.lang.ast import SourceLocation
from afl.lang.diagnostics import Diagnostic, suggest

#: How terminals are called in messages, in the order in which they are named. Absent ones are
#: not worth mentioning.
_READABLE = {
    "an expression": "an expression",
    "IDENT": "a name",
    "DOTTED": "a name",
    "STRING": "a string",
    "RSQB": "`]`",
    "EQUAL": "`=`",
    "COLON": "`:`",
    "COMMA": "`,`",
    "ARROW": "`=>`",
    "LPAR": "`(`",
    "RPAR": "`)`",
    "LSQB": "`[`",
    "FOREACH": "`foreach`",
    "WHEN": "`when`",
    "IN": "`in`",
    "AS": "`as`",
    "WITH": "`with`",
    "PROMPT": "`prompt`",
    "SCRIPT": "`script`",
    "SYSTEM": "`system`",
    "TEMPLATE": "`template`",
    "MODEL": "`model`",
    "ANDTHEN": "`andThen`",
    "CASE": "`case`",
    "CATCH": "`catch`",
    "RAW": "`{`",
    "LBRACE": "`{`",
    "FACET": "`facet`",
    "an operator": "an operator",
    "a type": "a type",
    "a step": "a step",
    "YIELD": "`yield`",
    "a declaration": "a declaration",
    "RBRACE": "`}`",
}
_WORD_OPERATORS = {"IN": "in", "NOT": "not in", "CONTAINS": "contains",
                   "STARTS_WITH": "startsWith", "ENDS_WITH": "endsWith"}  # fmt: skip
_VALUES = {"STRING", "INTEGER", "FLOAT", "INPUT", "MAP_OPEN", "TRUE", "FALSE", "NULL"}
_NAMES = {"IDENT", "DOTTED"}
#: Where all of the first stand, the second are called by one name; naming them helps nobody.
_GROUPS = [
    (_VALUES, _VALUES | _NAMES | {"LSQB", "LPAR", "PLUS", "MINUS", "BANG"}, "an expression"),
    ({"OR"}, {"LSQB", *_WORD_OPERATORS}, "an operator"),
    ({"LSQB", "IDENT"}, _NAMES | {"LSQB"}, "a type"),
    ({"YIELD", "IDENT"}, _NAMES, "a step"),
    ({"FACET", "WORKFLOW"}, {"FACET"}, "a declaration"),
]

_CLOSER = {"(": ")", "[": "]", "{": "}", "#{": "}"}

_DOUBLE_QUOTES = 'strings are written with double quotes: "…"'
_STEP = "steps are written `name = Facet(…)`"
_WHEN = "write `andThen when { case … => { … } case _ => { … } }`"
_FOREACH = "write `andThen foreach x in … { … }`"

_CATCH = "write `catch { … }` after the step or declaration"
_CASE = "write `case condition => { … }`"
_JSON = "the type of maps is `Json`"

#: Words that other languages put before something. To the parser they are names, so it stops at
#: what follows them.
_PREFIXES = {
    "not": "write `!`",
    "if": _WHEN,
    "switch": _WHEN,
    "match": _WHEN,
    "for": _FOREACH,
    "while": _FOREACH,
    "else": "write `case _ => { … }` in a `when`",
    "elif": "write another `case` in the `when`",
    "default": "write `case _ => { … }`",
    "try": _CATCH,
    "except": _CATCH,
    "return": "write `yield`",
    "let": _STEP,
    "var": _STEP,
    "const": _STEP,
    "await": "leave it out: a step waits for what it reads",
    "new": "leave it out: a call makes a value",
}
#: Words and signs of other languages, and what AFL says instead.
_HABITS = {
    **_PREFIXES,
    "and": "write `&&`",
    "or": "write `||`",
    "is": "write `==`",
    "extends": "write `with Facet()`",
    "def": "write `facet`",
    "function": "write `facet`",
    "class": "write `schema` for data, `facet` for something to call",
    "struct": "write `schema`",
    "type": "write `schema`",
    "import": "write `use` inside a namespace",
    "package": "write `namespace`",
    "module": "write `namespace`",
    "'": _DOUBLE_QUOTES,
    "`": _DOUBLE_QUOTES,
    "“": _DOUBLE_QUOTES,
    "”": _DOUBLE_QUOTES,
    "‘": _DOUBLE_QUOTES,
    "#": "comments start with `//`, maps with `#{`",
    "$": "inputs are written `$.name`",
    "&": "write `&&`",
    "|": "write `||`",
    "?": "give a parameter a default, or choose with `andThen when`",
    "→": "write `=>`",
    "⇒": "write `=>`",
}
#: Signs that fall apart into several tokens.
_SIGNS = {
    "->": "write `=>`",
    "==>": "write `=>`",
    ":=": "write `=`",
    "+=": "a step never changes; give the new value a name of its own",
    "===": "write `==`",
    "!==": "write `!=`",
    "<>": "write `!=`",
    "=<": "write `<=`",
    "**": "there is no power operator; multiply",
}
#: How constructs are written, by the word that begins them.
_FORMS = {
    "namespace": "`namespace name { … }`",
    "use": "`use name`",
    "uses": "`use name`",
    "facet": "`facet Name(parameter: Type)`",
    "event": "`event facet Name(parameter: Type)`",
    "workflow": "`workflow Name(parameter: Type) andThen { … }`",
    "implicit": "`implicit name = Facet(…)`",
    "schema": "`schema Name { field: Type }`",
    "prompt": '`prompt { template "…" }`',
    "system": '`system "…"`',
    "template": '`template "…"`',
    "model": '`model "…"`',
    "script": '`script { … }` or `script "…"`',
    "andThen": "`andThen { … }`",
    "foreach": "`andThen foreach x in … { … }`",
    "when": "`andThen when { case … => { … } case _ => { … } }`",
    "case": "`case condition => { … }`",
    "catch": "`catch { … }` or `catch when { … }`",
    "yield": "`yield Facet(name = value)`",
    "with": "`with Facet(…)`",
    "as": "`with Facet(…) as name`",
}
#: Words that a statement can begin or go on with; the others belong behind `andThen`.
_STATEMENT_WORDS = ("yield", "andThen", "catch", "with")
_BODY_WORDS = ("foreach", "when")

#: More of a word than this is not worth showing.
_LONGEST = 100


def _ending(run: str, text: str) -> str:
    """What a run of like characters matches at the end of `text`, or nothing.

    Read backwards: a search would try every place in a long text, and be slow in long words.
    """
    match = re.match(run, text[: -_LONGEST - 1 : -1])
    return match[0][::-1] if match else ""


class _Failure(NamedTuple):
    """Where the parser stopped, and what it could have taken instead."""

    token: Token
    expected: set[str]
    text: str
    #: Innermost open bracket, or nothing.
    inside: str

    @property
    def found(self) -> str:
        return str(self.token)

    @property
    def kind(self) -> str:
        return self.token.type

    @property
    def before(self) -> str:
        return self.text[: self.token.start_pos].rstrip()

    @property
    def after(self) -> str:
        """The character that follows the token, white space aside."""
        return self.text[self.token.end_pos :].lstrip()[:1]

    @property
    def word(self) -> str:
        """The word before the token, if there is one."""
        return _ending(r"[\w$.]*", self.before)

    @property
    def sign(self) -> str:
        """The run of signs that the token is part of."""
        start = self.token.start_pos or 0
        right = re.match(r"[=<>!:+*-]*", self.text[start:])
        return _ending(r"[=<>!:+*-]*", self.text[:start]) + (right[0] if right else "")

    @property
    def starts_line(self) -> bool:
        return "\n" in self.text[len(self.before) : self.token.start_pos]

    @property
    def starts_statement(self) -> bool:
        """The token follows the first name of a statement."""
        return self.expected == {"LPAR", "EQUAL"}

    @property
    def follows_expression(self) -> bool:
        return "OR" in self.expected

    @property
    def follows_type(self) -> bool:
        return re.search(r":\s*[\w.]+$", self.before) is not None


#: Situations and their hints.
_RULES: list[tuple[Callable[[_Failure], bool], str | Callable[[_Failure], str]]] = [
    # Signatures and bodies
    (lambda f: f.expected == {"LPAR"} and f.word != "" and f.found != "=",
     lambda f: f"write `{f.word}(…)`"),
    (lambda f: f.found in ("-", ":", "=>") and "ANDTHEN" in f.expected and f.inside == "",
     "returns are written `=> (name: Type)`, right after the parameters"),
    (lambda f: f.before.endswith("=>") and f.expected == {"LPAR"},
     "returns are written `=> (name: Type)`"),
    (lambda f: f.found == "with" and "ANDTHEN" in f.expected, "mixins come before the body"),
    (lambda f: f.found == "andThen" and "FACET" in f.expected, "`catch` comes last"),
    (lambda f: f.found == "{" and "ANDTHEN" in f.expected, "a block starts with `andThen {`"),
    (lambda f: "CASE" in f.expected and f.kind in _VALUES | _NAMES - {"IDENT"}, _CASE),
    (lambda f: f.found == "{" and _asks(f, "if|switch|match"), _WHEN),
    (lambda f: f.found == "{" and _asks(f, "for|while"), _FOREACH),
    # Words and signs of other languages
    (lambda f: f.sign in _SIGNS, lambda f: _SIGNS[f.sign]),
    (lambda f: f.found in _HABITS, lambda f: _HABITS[f.found]),
    # Types
    (lambda f: f.found in ("{", "#{") and f.expected == {"LSQB", *_NAMES}, _JSON),
    (lambda f: f.found == "<" and f.word.lower() in ("map", "dict"), _JSON),
    (lambda f: f.found in ("[", "<") and f.follows_type, "an array type is written `[Type]`"),
    (lambda f: f.found == "=" and f.follows_type, "fields have no defaults"),
    # Expressions
    (lambda f: f.kind == "COMPARE" and f.follows_expression,
     "comparisons do not chain; join two with `&&`"),
    (lambda f: f.found == "=" and f.follows_expression, "compare with `==`"),
    (lambda f: f.found == "{" and "MAP_OPEN" in f.expected, "a map starts with `#{`"),
    (lambda f: f.word.isdigit() and re.fullmatch(r"[eE]\d*", f.found) is not None,
     "write a fraction before an exponent: `1.0e5`"),
    (lambda f: f.found == "." and (f.word.isdigit() or (not f.word and f.after.isdigit())),
     "numbers have digits on both sides of the point: `0.5`"),
    (lambda f: f.found == "." and f.after.isdigit(), "an index is written `[0]`"),
    (lambda f: f.found == "." and f.follows_expression, "a name follows each `.`"),
    (lambda f: f.found == ".", "read the result by the name of the step: `step.result`"),
    (lambda f: f.found == "(" and f.follows_expression and f.word != "",
     lambda f: f"calls do not nest: make `{f.word}(…)` a step and use its result"),
    (lambda f: f.kind == "STRING" and f.before.endswith('"'), "join texts with `++`"),
    # Names and the signs between them
    (lambda f: f.expected == _NAMES and f.before.endswith("="), "a call comes here: `Facet(…)`"),
    (lambda f: f.found == "-" and f.word.isidentifier(), "names use letters, digits and `_`"),
    (lambda f: f.kind == "INTEGER" and f.expected <= _NAMES,
     "names start with a letter or `_`"),
    (lambda f: f.expected == {"COLON"} and f.inside == "#{", "entries are written `key: value`"),
    (lambda f: f.expected == {"COLON"}, "parameters and fields are written `name: Type`"),
    (lambda f: "EQUAL" in f.expected and f.follows_expression,
     "arguments are written `name = value`"),
    (lambda f: f.found == "," and "YIELD" in f.expected, "steps are separated by new lines or `;`"),
    (lambda f: f.starts_statement, _STEP),
]  # fmt: skip


def _asks(failure: _Failure, words: str) -> bool:
    """Whether `if (…)` or the like, which reads as a call, stands before the token."""
    return re.search(rf"(?<![\w.$])(?:{words})\s*\([^{{}}]*\)$", failure.before) is not None


def explain(
    problem: UnexpectedInput, text: str, brackets: Sequence[Token], source_id: str | None
) -> Diagnostic:
    """The problem as a Diagnostic whose place is inside `text`.

    `brackets` are those that were open when the parser stopped.
    """
    if isinstance(problem, UnexpectedCharacters):
        return _explain_character(problem, text, source_id)
    assert isinstance(problem, UnexpectedToken)
    token = problem.token
    expected = _acceptable(problem.state) or set(problem.expected)
    if token.type == "$END":
        return _explain_end(text, brackets, expected, source_id)
    failure = _Failure(token, expected, text, str(brackets[-1]) if brackets else "")
    return _explain_token(failure, brackets, source_id)


def _acceptable(state: Any) -> set[str]:
    """The terminals that could really come next.

    LALR tables merge the look-aheads of many places, so the list that lark gives names tokens
    that would fail one step later. Each is tried here on a copy of the stack.
    """
    table = state.parse_conf.states
    # The tables hold rules as well, in lower case.
    known = [each for each in table[state.state_stack[-1]] if each.isupper()]
    return {each for each in known if _shifts(table, state, each)}


def _shifts(table: Any, state: Any, terminal: str) -> bool:
    stack = list(state.state_stack)
    while True:
        action = table[stack[-1]].get(terminal)
        if action is None:
            return False
        kind, target = action
        if kind is Shift:
            return True
        if target.expansion:
            del stack[-len(target.expansion) :]
        stack.append(table[stack[-1]][target.origin.name][1])


def _explain_character(
    problem: UnexpectedCharacters, text: str, source_id: str | None
) -> Diagnostic:
    offset = problem.pos_in_stream or 0
    place = _place(text, offset, 1, source_id)
    char = text[offset : offset + 1]
    if char == '"':
        hint = 'end it with `"`; write `\\"` for a quote inside it'
        return Diagnostic.of(codes.OPEN_STRING, "This string is not closed", place, hint)
    if text.startswith("/*", offset):
        return _open_comment(place)
    shown = char if char.isprintable() else f"\\u{ord(char):04x}"
    quoted = f"'{shown}'" if shown != "'" else f'"{shown}"'
    foreign = "names use ASCII letters, digits and `_`; text belongs in double quotes"
    habit = _HABITS.get(char, foreign if char.isalpha() else None)
    return Diagnostic.of(codes.CHARACTER, f"Unexpected character {quoted}", place, habit)


def _open_comment(place: SourceLocation) -> Diagnostic:
    message = "This comment is not closed"
    return Diagnostic.of(codes.OPEN_COMMENT, message, place, "end it with `*/`")


def _explain_end(
    text: str, brackets: Sequence[Token], expected: set[str], source_id: str | None
) -> Diagnostic:
    if brackets:
        return _unclosed(brackets[-1], "is missing", source_id)
    code = trivia.code_only(text).rstrip()
    last = _ending(r"[\w$.]+|[=><]+|.", code)
    start, width = max(0, len(code) - len(last)), len(last) or 1
    message = f"Something is missing after '{last}': expected {_readable(expected)}"
    return Diagnostic.of(codes.SYNTAX, message, _place(text, start, width, source_id), _form(code))


def _unclosed(opener: Token, what: str, source_id: str | None) -> Diagnostic:
    message = f"'{opener}' is not closed: its '{_CLOSER[str(opener)]}' {what}"
    return Diagnostic.of(codes.OPEN_BRACKET, message, _place_of(opener, source_id))


def _explain_token(
    failure: _Failure, brackets: Sequence[Token], source_id: str | None
) -> Diagnostic:
    token = failure.token
    place = _place_of(token, source_id)
    if failure.text.startswith("/*", token.start_pos or 0):
        return _open_comment(place)
    if token in (")", "]", "}") and not brackets:
        message = f"Unexpected '{token}': no bracket is open here"
        return Diagnostic.of(codes.OPEN_BRACKET, message, place)
    if token in (")", "]", "}") and _CLOSER[failure.inside] != token:
        return _unclosed(brackets[-1], f"is missing before the next '{token}'", source_id)
    hint = _hint_for_word_before(failure)
    if hint:
        place = _place(failure.text, len(failure.before) - len(failure.word), len(failure.word),
                       source_id)  # fmt: skip
        return Diagnostic.of(codes.SYNTAX, f"Unexpected '{failure.word}'", place, hint)
    message = f"Unexpected {_found(token)}: expected {_readable(failure.expected)}"
    return Diagnostic.of(codes.SYNTAX, message, place, _hint(failure))


def _place_of(token: Token, source_id: str | None) -> SourceLocation:
    return SourceLocation(
        token.line or 1, token.column or 1, token.end_line, token.end_column, source_id
    )


def _place(text: str, offset: int, width: int, source_id: str | None) -> SourceLocation:
    line = text.count("\n", 0, offset) + 1
    column = offset - text.rfind("\n", 0, offset)
    return SourceLocation(line, column, line, column + width, source_id)


def _found(token: Token) -> str:
    if token.type == "STRING":
        return "string"
    if token.type == "RAW":
        return "'{'"
    return f"'{token}'" if len(token) <= 40 else f"'{token[:40]}…'"


def _readable(expected: set[str]) -> str:
    names = set(expected)
    for marks, members, name in _GROUPS:
        if names >= marks:
            names = (names - members) | {name}
    words = list(dict.fromkeys(spelled for key, spelled in _READABLE.items() if key in names))
    if not words:
        return "something else"
    if words[0] == "a declaration":
        words[0] += " such as `facet` or `workflow`"
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " or " + words[-1]


def _hint_for_word_before(failure: _Failure) -> str | None:
    """A hint if the word before the token is the one that is wrong."""
    word, kind = failure.word, failure.kind
    if word in _PREFIXES and kind not in {"EQUAL", "LPAR", "COMMA", "RPAR"}:
        return _PREFIXES[word]
    if failure.starts_statement and kind not in {"RBRACE", "RPAR"}:
        return _form(word) if word in _BODY_WORDS else suggest(word, _STATEMENT_WORDS)
    return None


def _hint(failure: _Failure) -> str | None:
    for fits, hint in _RULES:
        if fits(failure):
            return hint if isinstance(hint, str) else hint(failure)
    keywords = _keywords(failure.expected) if failure.after not in ("=", ":") else []
    if spelled := suggest(failure.found, keywords):
        return spelled
    if "COMMA" in failure.expected and failure.kind in _VALUES | _NAMES:
        closer = f" or `{_CLOSER[failure.inside]}`" if failure.starts_line else ""
        return f"a `,`{closer} is missing before it"
    return _form(failure.before) if failure.inside in ("", "{") else None


def _keywords(expected: set[str]) -> list[str]:
    """The words among the expected terminals."""
    spelled = {"ANDTHEN": "andThen", **_WORD_OPERATORS}
    words = [spelled.get(each, each.lower()) for each in expected if each not in _NAMES]
    return [each for each in words if each in _FORMS or each in _WORD_OPERATORS.values()]


def _form(before: str) -> str | None:
    """How the construct is written whose first words `before` ends with."""
    begun = re.split(r"[{}()]", trivia.code_only(before))[-1]
    words = [each for each in re.findall(r"(?<![\w.$])[A-Za-z]+\b(?!\.)", begun) if each in _FORMS]
    return f"write {_FORMS[words[-1]]}" if words else None
