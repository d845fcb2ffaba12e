"""What people read when a text is not AFL: the sentence, its place and its hint, word by word.

A message is part of the language. When one changes here, ask whether a newcomer understands it:
one sentence, the right place, and what to write instead.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from afl.lang import codes
from afl.lang.ast import SourceLocation
from afl.lang.diagnostics import DRAWN_WIDTH, Diagnostic, render
from afl.lang.parser import parse_text


class Wrong(NamedTuple):
    """A wrong text and the one problem that is found in it."""

    text: str
    #: Code and span: "AFL101 at line:column-endLine:endColumn".
    place: str
    message: str
    hint: str | None = None


# fmt: off
DECLARATIONS = {
    "a misspelled keyword": Wrong(
        "worklow Bake()",
        "AFL101 at 1:1-1:8",
        "Unexpected 'worklow': expected a declaration such as `facet` or `workflow`",
        "did you mean 'workflow'?",
    ),
    "a keyword with a capital": Wrong(
        "Facet Loaf()",
        "AFL101 at 1:1-1:6",
        "Unexpected 'Facet': expected a declaration such as `facet` or `workflow`",
        "did you mean 'facet'?",
    ),
    "a word that means nothing": Wrong(
        "hello world",
        "AFL101 at 1:1-1:6",
        "Unexpected 'hello': expected a declaration such as `facet` or `workflow`",
    ),
    "a facet without parentheses": Wrong(
        "facet Loaf",
        "AFL101 at 1:7-1:11",
        "Something is missing after 'Loaf': expected `(`",
        "write `facet Name(parameter: Type)`",
    ),
    "a facet without a name": Wrong(
        "facet (grams: Int)",
        "AFL101 at 1:7-1:8",
        "Unexpected '(': expected a name",
        "write `facet Name(parameter: Type)`",
    ),
    "a name that starts with a digit": Wrong(
        "facet 1stLoaf()",
        "AFL101 at 1:7-1:8",
        "Unexpected '1': expected a name",
        "names start with a letter or `_`",
    ),
    "a name with a hyphen": Wrong(
        "namespace corner-shop { }",
        "AFL101 at 1:17-1:18",
        "Unexpected '-': expected `{` or a declaration",
        "names use letters, digits and `_`",
    ),
    "an event without facet": Wrong(
        "event Ring()",
        "AFL101 at 1:7-1:11",
        "Unexpected 'Ring': expected `facet`",
        "write `event facet Name(parameter: Type)`",
    ),
    "a namespace without a name": Wrong(
        "namespace { facet Loaf() }",
        "AFL101 at 1:11-1:12",
        "Unexpected '{': expected a name",
        "write `namespace name { … }`",
    ),
    "a use without a name": Wrong(
        "namespace shop { facet Loaf() use }",
        "AFL101 at 1:31-1:34",
        "Something is missing after 'use': expected a name",
        "write `use name`",
    ),
    "a parameter without a colon": Wrong(
        "facet Loaf(grams Int)",
        "AFL101 at 1:18-1:21",
        "Unexpected 'Int': expected `:`",
        "parameters and fields are written `name: Type`",
    ),
    "a parameter with an equals sign": Wrong(
        "facet Loaf(grams = Int)",
        "AFL101 at 1:18-1:19",
        "Unexpected '=': expected `:`",
        "parameters and fields are written `name: Type`",
    ),
    "parameters without a comma": Wrong(
        "facet Loaf(grams: Int crust: String)",
        "AFL101 at 1:23-1:28",
        "Unexpected 'crust': expected `=`, `,` or `)`",
        "a `,` is missing before it",
    ),
    "two commas between parameters": Wrong(
        "facet Loaf(grams: Int,, crust: String)",
        "AFL101 at 1:23-1:24",
        "Unexpected ',': expected a name or `)`",
    ),
    "an array type with brackets behind": Wrong(
        "facet Loaf(seeds: String[])",
        "AFL101 at 1:25-1:26",
        "Unexpected '[': expected `=`, `,` or `)`",
        "an array type is written `[Type]`",
    ),
    "a generic array type": Wrong(
        "facet Loaf(seeds: List<String>)",
        "AFL101 at 1:23-1:24",
        "Unexpected '<': expected `=`, `,` or `)`",
        "an array type is written `[Type]`",
    ),
    "a generic map type": Wrong(
        "facet Loaf(seeds: Map<String, Int>)",
        "AFL101 at 1:22-1:23",
        "Unexpected '<': expected `=`, `,` or `)`",
        "the type of maps is `Json`",
    ),
    "a map type": Wrong(
        "facet Loaf(seeds: #{name: Int})",
        "AFL101 at 1:19-1:21",
        "Unexpected '#{': expected a type",
        "the type of maps is `Json`",
    ),
    "an optional type": Wrong(
        "facet Loaf(seeds: Int?)",
        "AFL102 at 1:22-1:23",
        "Unexpected character '?'",
        "give a parameter a default, or choose with `andThen when`",
    ),
    "returns behind a thin arrow": Wrong(
        "facet Weigh() -> (grams: Int)",
        "AFL101 at 1:15-1:16",
        "Unexpected '-': expected `=>`, `with`, `prompt`, `script`, `andThen`, "
        "`catch` or a declaration",
        "returns are written `=> (name: Type)`, right after the parameters",
    ),
    "returns behind a colon": Wrong(
        "facet Weigh(): Int",
        "AFL101 at 1:14-1:15",
        "Unexpected ':': expected `=>`, `with`, `prompt`, `script`, `andThen`, "
        "`catch` or a declaration",
        "returns are written `=> (name: Type)`, right after the parameters",
    ),
    "returns without parentheses": Wrong(
        "facet Weigh() => Int",
        "AFL101 at 1:18-1:21",
        "Unexpected 'Int': expected `(`",
        "returns are written `=> (name: Type)`",
    ),
    "returns after mixins": Wrong(
        "facet Weigh() with Timed() => (grams: Int)",
        "AFL101 at 1:28-1:30",
        "Unexpected '=>': expected `as`, `with`, `prompt`, `script`, "
        "`andThen`, `catch` or a declaration",
        "returns are written `=> (name: Type)`, right after the parameters",
    ),
    "mixins after the body": Wrong(
        "facet Weigh() andThen { } with Timed()",
        "AFL101 at 1:27-1:31",
        "Unexpected 'with': expected `andThen`, `catch` or a declaration",
        "mixins come before the body",
    ),
    "an unfinished mixin": Wrong(
        "facet Weigh() with",
        "AFL101 at 1:15-1:19",
        "Something is missing after 'with': expected a name",
        "write `with Facet(…)`",
    ),
    "a mixin without parentheses": Wrong(
        "facet Weigh() with Timed with Logged()",
        "AFL101 at 1:26-1:30",
        "Unexpected 'with': expected `(`",
        "write `Timed(…)`",
    ),
    "an unfinished alias": Wrong(
        "facet Weigh() with Timed() as",
        "AFL101 at 1:28-1:30",
        "Something is missing after 'as': expected a name",
        "write `with Facet(…) as name`",
    ),
    "unfinished returns": Wrong(
        "facet Weigh() =>  // grams",
        "AFL101 at 1:15-1:17",
        "Something is missing after '=>': expected `(`",
    ),
    "an unfinished body before a declaration": Wrong(
        "workflow Bake() andThen\nfacet Loaf()",
        "AFL101 at 1:17-1:24",
        "Something is missing after 'andThen': expected `foreach`, `when`, `script` or `{`",
        "write `andThen { … }`",
    ),
    "a schema with parentheses": Wrong(
        "schema Loaf (grams: Int)",
        "AFL101 at 1:13-1:14",
        "Unexpected '(': expected `{`",
        "write `schema Name { field: Type }`",
    ),
    "a schema field with a default": Wrong(
        "schema Loaf { grams: Int = 500 }",
        "AFL101 at 1:26-1:27",
        "Unexpected '=': expected `,` or `}`",
        "fields have no defaults",
    ),
    "schema fields without a comma": Wrong(
        "schema Loaf {\n    grams: Int\n    crust: String\n}",
        "AFL101 at 3:5-3:10",
        "Unexpected 'crust': expected `,` or `}`",
        "a `,` or `}` is missing before it",
    ),
    "an implicit without an equals sign": Wrong(
        "implicit baker Person()",
        "AFL101 at 1:16-1:22",
        "Unexpected 'Person': expected `=`",
        "write `implicit name = Facet(…)`",
    ),
    "an implicit that is no call": Wrong(
        "implicit baker = 3",
        "AFL101 at 1:18-1:19",
        "Unexpected '3': expected a name",
        "a call comes here: `Facet(…)`",
    ),
}
BODIES = {
    "a block without andThen": Wrong(
        "workflow Bake() { a = Knead() }",
        "AFL101 at 1:17-1:18",
        "Unexpected '{': expected `=>`, `with`, `prompt`, `script`, `andThen`, "
        "`catch` or a declaration",
        "a block starts with `andThen {`",
    ),
    "a misspelled andThen": Wrong(
        "workflow Bake() andthen { }",
        "AFL101 at 1:17-1:24",
        "Unexpected 'andthen': expected `=>`, `with`, `prompt`, `script`, "
        "`andThen`, `catch` or a declaration",
        "did you mean 'andThen'?",
    ),
    "andThen without a block": Wrong(
        "workflow Bake() andThen a = Knead()",
        "AFL101 at 1:25-1:26",
        "Unexpected 'a': expected `foreach`, `when`, `script` or `{`",
        "write `andThen { … }`",
    ),
    "andThen after catch": Wrong(
        "workflow Bake() catch { } andThen { }",
        "AFL101 at 1:27-1:34",
        "Unexpected 'andThen': expected a declaration such as `facet` or `workflow`",
        "`catch` comes last",
    ),
    "foreach with of": Wrong(
        "workflow Bake() andThen foreach loaf of $.loaves { }",
        "AFL101 at 1:38-1:40",
        "Unexpected 'of': expected `in`",
        "write `andThen foreach x in … { … }`",
    ),
    "foreach in parentheses": Wrong(
        "workflow Bake() andThen foreach (loaf in $.loaves) { }",
        "AFL101 at 1:33-1:34",
        "Unexpected '(': expected a name",
        "write `andThen foreach x in … { … }`",
    ),
    "foreach inside a block": Wrong(
        "workflow Bake() andThen { foreach loaf in $.loaves { } }",
        "AFL101 at 1:27-1:34",
        "Unexpected 'foreach'",
        "write `andThen foreach x in … { … }`",
    ),
    "a case without an arrow": Wrong(
        "workflow Bake() andThen when { case $.hot { } }",
        "AFL101 at 1:43-1:44",
        "Unexpected '{': expected `=>` or an operator",
        "write `case condition => { … }`",
    ),
    "a case with a thin arrow": Wrong(
        "workflow Bake() andThen when { case _ -> { } }",
        "AFL101 at 1:40-1:41",
        "Unexpected '>': expected an expression",
        "write `=>`",
    ),
    "a case without a block": Wrong(
        "workflow Bake() andThen when { case $.hot => Knead() }",
        "AFL101 at 1:46-1:51",
        "Unexpected 'Knead': expected `{`",
        "write `case condition => { … }`",
    ),
    "a case without case": Wrong(
        "workflow Bake() andThen when { $.hot => { } }",
        "AFL101 at 1:32-1:37",
        "Unexpected '$.hot': expected `case` or `}`",
        "write `case condition => { … }`",
    ),
    "a case with one equals sign": Wrong(
        "workflow Bake() andThen when { case $.hot = 1 => { } }",
        "AFL101 at 1:43-1:44",
        "Unexpected '=': expected `=>` or an operator",
        "compare with `==`",
    ),
    "a when without braces": Wrong(
        "workflow Bake() andThen when $.hot { }",
        "AFL101 at 1:30-1:35",
        "Unexpected '$.hot': expected `{`",
        "write `andThen when { case … => { … } case _ => { … } }`",
    ),
    "a catch without a block": Wrong(
        "workflow Bake() catch Knead()",
        "AFL101 at 1:23-1:28",
        "Unexpected 'Knead': expected `when` or `{`",
        "write `catch { … }` or `catch when { … }`",
    ),
    "a misspelled prompt directive": Wrong(
        'event facet Ask() prompt { temlate "Hm?" }',
        "AFL101 at 1:28-1:35",
        "Unexpected 'temlate': expected `system`, `template`, `model` or `}`",
        "did you mean 'template'?",
    ),
    "a prompt directive with a colon": Wrong(
        'event facet Ask() prompt { template: "Hm?" }',
        "AFL101 at 1:36-1:37",
        "Unexpected ':': expected a string",
        'write `template "…"`',
    ),
    "a prompt without braces": Wrong(
        'event facet Ask() prompt "Hm?"',
        "AFL101 at 1:26-1:31",
        "Unexpected string: expected `{`",
        'write `prompt { template "…" }`',
    ),
    "a script without code": Wrong(
        "facet Weigh() script 3",
        "AFL101 at 1:22-1:23",
        "Unexpected '3': expected a name, a string or `{`",
        'write `script { … }` or `script "…"`',
    ),
}
STATEMENTS = {
    "a step without an equals sign": Wrong(
        "workflow Bake() andThen { a Knead() }",
        "AFL101 at 1:29-1:34",
        "Unexpected 'Knead': expected `=` or `(`",
        "steps are written `name = Facet(…)`",
    ),
    "a step without parentheses": Wrong(
        "workflow Bake() andThen { a = Knead }",
        "AFL101 at 1:37-1:38",
        "Unexpected '}': expected `(`",
        "write `Knead(…)`",
    ),
    "a step that is a number": Wrong(
        "workflow Bake() andThen { a = 1 }",
        "AFL101 at 1:31-1:32",
        "Unexpected '1': expected a name",
        "a call comes here: `Facet(…)`",
    ),
    "a step that is an input": Wrong(
        "workflow Bake() andThen { a = $.flour }",
        "AFL101 at 1:31-1:38",
        "Unexpected '$.flour': expected a name",
        "a call comes here: `Facet(…)`",
    ),
    "a step with a colon and an equals sign": Wrong(
        "workflow Bake() andThen { a := Knead() }",
        "AFL101 at 1:29-1:30",
        "Unexpected ':': expected `=` or `(`",
        "write `=`",
    ),
    "steps separated by a comma": Wrong(
        "workflow Bake() andThen { a = Knead(), b = Knead() }",
        "AFL101 at 1:38-1:39",
        "Unexpected ',': expected `with`, `andThen`, `catch`, a step, `yield` or `}`",
        "steps are separated by new lines or `;`",
    ),
    "a step that grows": Wrong(
        "workflow Bake() andThen { a += Knead() }",
        "AFL101 at 1:29-1:30",
        "Unexpected '+': expected `=` or `(`",
        "a step never changes; give the new value a name of its own",
    ),
    "an attribute of a call": Wrong(
        "workflow Bake() andThen { a = Knead().dough }",
        "AFL101 at 1:38-1:39",
        "Unexpected '.': expected `with`, `andThen`, `catch`, a step, `yield` or `}`",
        "read the result by the name of the step: `step.result`",
    ),
    "a misspelled yield": Wrong(
        "workflow Bake() andThen { yeild Bake() }",
        "AFL101 at 1:27-1:32",
        "Unexpected 'yeild'",
        "did you mean 'yield'?",
    ),
    "a misspelled body of a step": Wrong(
        "workflow Bake() andThen { a = Knead() andthen { } }",
        "AFL101 at 1:39-1:46",
        "Unexpected 'andthen'",
        "did you mean 'andThen'?",
    ),
    "a yield without a call": Wrong(
        "workflow Bake() andThen { yield }",
        "AFL101 at 1:33-1:34",
        "Unexpected '}': expected a name",
        "write `yield Facet(name = value)`",
    ),
    "a yield without a target": Wrong(
        "workflow Bake() andThen { yield loaves = 1 }",
        "AFL101 at 1:40-1:41",
        "Unexpected '=': expected `(`",
        "write `yield Facet(name = value)`",
    ),
    "a call mixin without parentheses": Wrong(
        "workflow Bake() andThen { a = Knead() with Timed }",
        "AFL101 at 1:50-1:51",
        "Unexpected '}': expected `(`",
        "write `Timed(…)`",
    ),
    "an if with parentheses": Wrong(
        "workflow Bake() andThen { if ($.hot == 1) { a = Knead() } }",
        "AFL101 at 1:43-1:44",
        "Unexpected '{': expected `with`, a step, `yield` or `}`",
        "write `andThen when { case … => { … } case _ => { … } }`",
    ),
    "a for with parentheses": Wrong(
        "workflow Bake() andThen { for (a) { b = Knead() } }",
        "AFL101 at 1:35-1:36",
        "Unexpected '{': expected `with`, a step, `yield` or `}`",
        "write `andThen foreach x in … { … }`",
    ),
}
ARGUMENTS = {
    "an argument without an equals sign": Wrong(
        "workflow Bake() andThen { a = Knead(flour 1) }",
        "AFL101 at 1:43-1:44",
        "Unexpected '1': expected `=`, `,`, `)` or an operator",
        "arguments are written `name = value`",
    ),
    "an argument with a colon": Wrong(
        "workflow Bake() andThen { a = Knead(flour: 1) }",
        "AFL101 at 1:42-1:43",
        "Unexpected ':': expected `=`, `,`, `)` or an operator",
        "arguments are written `name = value`",
    ),
    "an argument without a value": Wrong(
        "workflow Bake() andThen { a = Knead(flour = ) }",
        "AFL101 at 1:45-1:46",
        "Unexpected ')': expected an expression",
    ),
    "arguments without a comma": Wrong(
        "workflow Bake() andThen { a = Knead(flour = 1 water = 2) }",
        "AFL101 at 1:47-1:52",
        "Unexpected 'water': expected `,`, `)` or an operator",
        "a `,` is missing before it",
    ),
    "arguments in lines without a comma": Wrong(
        "workflow Bake() andThen {\n    a = Knead(flour = 1\n        water = 2)\n}",
        "AFL101 at 3:9-3:14",
        "Unexpected 'water': expected `,`, `)` or an operator",
        "a `,` or `)` is missing before it",
    ),
    "a call inside a call": Wrong(
        "workflow Bake() andThen { a = Knead(flour = Sift()) }",
        "AFL101 at 1:49-1:50",
        "Unexpected '(': expected `,`, `)` or an operator",
        "calls do not nest: make `Sift(…)` a step and use its result",
    ),
    "a map without a hash": Wrong(
        "workflow Bake() andThen { a = Knead(flour = {rye: 1}) }",
        "AFL101 at 1:45-1:46",
        "Unexpected '{': expected an expression",
        "a map starts with `#{`",
    ),
    "a map entry with an equals sign": Wrong(
        "workflow Bake() andThen { a = Knead(flour = #{rye = 1}) }",
        "AFL101 at 1:51-1:52",
        "Unexpected '=': expected `:`",
        "entries are written `key: value`",
    ),
    "a map key that is a number": Wrong(
        "workflow Bake() andThen { a = Knead(flour = #{1: 1}) }",
        "AFL101 at 1:47-1:48",
        "Unexpected '1': expected a name, a string or `}`",
    ),
    "comparisons in a chain": Wrong(
        "workflow Bake() andThen { a = Knead(hot = 1 < 2 < 3) }",
        "AFL101 at 1:49-1:50",
        "Unexpected '<': expected `,`, `)` or an operator",
        "comparisons do not chain; join two with `&&`",
    ),
    "an operator without its right side": Wrong(
        "workflow Bake() andThen { a = Knead(flour = 1 + ) }",
        "AFL101 at 1:49-1:50",
        "Unexpected ')': expected an expression",
    ),
    "two strings side by side": Wrong(
        'workflow Bake() andThen { a = Knead(flour = "r" "ye") }',
        "AFL101 at 1:49-1:53",
        "Unexpected string: expected `,`, `)` or an operator",
        "join texts with `++`",
    ),
    "a number without digits before the point": Wrong(
        "workflow Bake() andThen { a = Knead(flour = .5) }",
        "AFL101 at 1:45-1:46",
        "Unexpected '.': expected an expression",
        "numbers have digits on both sides of the point: `0.5`",
    ),
    "a number without digits behind the point": Wrong(
        "workflow Bake() andThen { a = Knead(flour = 5.) }",
        "AFL101 at 1:46-1:47",
        "Unexpected '.': expected `,`, `)` or an operator",
        "numbers have digits on both sides of the point: `0.5`",
    ),
    "an exponent without a fraction": Wrong(
        "workflow Bake() andThen { a = Knead(flour = 1e5) }",
        "AFL101 at 1:46-1:48",
        "Unexpected 'e5': expected `,`, `)` or an operator",
        "write a fraction before an exponent: `1.0e5`",
    ),
    "an index behind a dot": Wrong(
        "workflow Bake() andThen { a = Knead(flour = $.bags.0) }",
        "AFL101 at 1:51-1:52",
        "Unexpected '.': expected `,`, `)` or an operator",
        "an index is written `[0]`",
    ),
    "two dots in a reference": Wrong(
        "workflow Bake() andThen { a = Knead(flour = b..c) }",
        "AFL101 at 1:46-1:47",
        "Unexpected '.': expected `,`, `)` or an operator",
        "a name follows each `.`",
    ),
    "a misspelled word operator": Wrong(
        'workflow Bake() andThen { a = Knead(hot = $.bags containz "rye") }',
        "AFL101 at 1:50-1:58",
        "Unexpected 'containz': expected `,`, `)` or an operator",
        "did you mean 'contains'?",
    ),
    "a not equal of other languages": Wrong(
        "workflow Bake() andThen { a = Knead(hot = 1 <> 2) }",
        "AFL101 at 1:46-1:47",
        "Unexpected '>': expected an expression",
        "write `!=`",
    ),
    "three equals signs": Wrong(
        "workflow Bake() andThen { a = Knead(hot = 1 === 2) }",
        "AFL101 at 1:47-1:48",
        "Unexpected '=': expected an expression",
        "write `==`",
    ),
}
CODES = {
    "AFL102 a foreign letter in a name": Wrong(
        "facet Käse()",
        "AFL102 at 1:8-1:9",
        "Unexpected character 'ä'",
        "names use ASCII letters, digits and `_`; text belongs in double quotes",
    ),
    "AFL102 an at sign": Wrong(
        "facet Loaf(a: Int = @b)",
        "AFL102 at 1:21-1:22",
        "Unexpected character '@'",
    ),
    "AFL102 a control character": Wrong(
        "facet Loaf(\x07)",
        "AFL102 at 1:12-1:13",
        "Unexpected character '\\u0007'",
    ),
    "AFL103 a string without an end": Wrong(
        'facet Loaf(crust: String = "dark)',
        "AFL103 at 1:28-1:29",
        "This string is not closed",
        'end it with `"`; write `\\"` for a quote inside it',
    ),
    "AFL104 a bracket without an end": Wrong(
        "facet Loaf(grams: Int",
        "AFL104 at 1:11-1:12",
        "'(' is not closed: its ')' is missing",
    ),
    "AFL104 a bracket closed by another": Wrong(
        "facet Loaf(seeds: [Int)",
        "AFL104 at 1:19-1:20",
        "'[' is not closed: its ']' is missing before the next ')'",
    ),
    "AFL104 a parenthesis closed by a brace": Wrong(
        "workflow Bake() andThen {\n    a = Knead(flour = 1\n}",
        "AFL104 at 2:14-2:15",
        "'(' is not closed: its ')' is missing before the next '}'",
    ),
    "AFL104 a bracket too many": Wrong(
        "facet Loaf())",
        "AFL104 at 1:13-1:14",
        "Unexpected ')': no bracket is open here",
    ),
    "AFL104 a namespace without an end": Wrong(
        "namespace shop {\n    facet Loaf()\n",
        "AFL104 at 1:16-1:17",
        "'{' is not closed: its '}' is missing",
    ),
    "AFL104 a block without an end": Wrong(
        "workflow Bake() andThen {\n    a = Knead()\nfacet Loaf()\n",
        "AFL104 at 1:25-1:26",
        "'{' is not closed: its '}' is missing",
    ),
    "AFL105 a comment without an end": Wrong(
        "facet Loaf() /* crusty",
        "AFL105 at 1:14-1:15",
        "This comment is not closed",
        "end it with `*/`",
    ),
    "AFL105 a comment without an end inside": Wrong(
        "facet Loaf( /* crusty\n)",
        "AFL105 at 1:13-1:14",
        "This comment is not closed",
        "end it with `*/`",
    ),
    "AFL106 a script without an end": Wrong(
        "facet Loaf() script { x = {",
        "AFL106 at 1:14-1:20",
        "This script is not closed",
        "end it with `}`; braces in Python strings and comments do not count",
    ),
    "AFL108 an escape without digits": Wrong(
        'facet Loaf(crust: String = "dark\\u12")',
        "AFL108 at 1:33-1:34",
        "Malformed escape '\\u': 4 hexadecimal digits must follow",
    ),
    "AFL108 half of a character": Wrong(
        'facet Loaf(crust: String = "\\ud83c")',
        "AFL108 at 1:28-1:29",
        "Malformed escape: half of a surrogate pair is no character",
    ),
    "AFL109 an integer out of range": Wrong(
        "facet Loaf(grams: Long = 9223372036854775808)",
        "AFL109 at 1:26-1:45",
        "This integer does not fit in 64 bits",
    ),
    "AFL109 a double out of range": Wrong(
        "facet Loaf(grams: Double = 1.0e999)",
        "AFL109 at 1:28-1:35",
        "This number is too large for a Double",
    ),
    "AFL110 an argument without a name": Wrong(
        "workflow Bake() andThen { a = Knead(1) }",
        "AFL110 at 1:37-1:38",
        "This argument has no name",
        "write `name = value`",
    ),
    "AFL111 a step without a name": Wrong(
        "workflow Bake() andThen { Knead() }",
        "AFL111 at 1:27-1:34",
        "The call of 'Knead' has no step name",
        "write `name = Knead(…)`",
    ),
    "AFL112 a step after a yield": Wrong(
        "workflow Bake() andThen {\n    yield Bake()\n    a = Knead()\n}",
        "AFL112 at 3:5-3:16",
        "Step 'a' stands after a yield",
    ),
    "AFL113 a namespace in a namespace": Wrong(
        "namespace shop { namespace till { } }",
        "AFL113 at 1:18-1:36",
        "Namespace 'till' cannot be inside namespace 'shop'",
        "write `namespace shop.till { … }` beside it",
    ),
    "AFL113 a second namespace of the file": Wrong(
        "namespace shop\nnamespace till",
        "AFL113 at 2:1-2:15",
        "Namespace 'till' cannot start here: namespace 'shop' without braces "
        "holds to the end of the file",
        "give both of them braces",
    ),
    "AFL113 a namespace after that of the file": Wrong(
        "namespace shop\nnamespace till { }",
        "AFL113 at 2:1-2:19",
        "Namespace 'till' cannot be inside namespace 'shop'",
        "give namespace 'shop' braces, or move this one above it",
    ),
    "AFL114 a use outside": Wrong(
        "use shop",
        "AFL114 at 1:1-1:9",
        "'use shop' stands outside a namespace",
        "put it inside the namespace, after its opening brace",
    ),
    "AFL115 a directive twice": Wrong(
        'event facet Ask() prompt { model "a" template "Hm?" model "b" }',
        "AFL115 at 1:53-1:58",
        "Prompt directive 'model' is given twice",
    ),
    "AFL116 an alias of a yield": Wrong(
        "workflow Bake() with Timed() andThen { yield Bake() with Timed() as t }",
        "AFL116 at 1:53-1:70",
        "A yield has no alias, but this one says 'as t'",
    ),
    "AFL117 a prompt and a block": Wrong(
        'event facet Ask() prompt { template "Hm?" } andThen { }',
        "AFL117 at 1:19-1:44",
        "A prompt cannot be followed by 'andThen' or 'catch'",
    ),
    "AFL120 bytes that are no text": Wrong(
        "facet Loaf()\n\0",
        "AFL120 at 2:1-2:2",
        "This is not text: it contains NUL bytes",
    ),
    "AFL130 an unknown escape": Wrong(
        'facet Loaf(crust: String = "da\\rk \\q")',
        "AFL130 at 1:35-1:36",
        "Unknown escape '\\q' in a string",
    ),
}

#: Words and signs of other languages, in a text where somebody would write them.
HABITS = {
    "and": ("facet Oven(a: Boolean = 1 and 2)", "write `&&`"),
    "or": ("facet Oven(a: Boolean = 1 or 2)", "write `||`"),
    "is": ("facet Oven(a: Boolean = b is null)", "write `==`"),
    "not": ("facet Oven(a: Boolean = not true)", "write `!`"),
    "new": ("workflow Bake() andThen { a = new Oven() }", "leave it out: a call makes a value"),
    "await": (
        "workflow Bake() andThen { a = await Oven() }",
        "leave it out: a step waits for what it reads",
    ),
    "if": (
        "workflow Bake() andThen { if $.hot { a = Oven() } }",
        "write `andThen when { case … => { … } case _ => { … } }`",
    ),
    "switch": (
        "workflow Bake() andThen switch { case 1 => { } }",
        "write `andThen when { case … => { … } case _ => { … } }`",
    ),
    "match": (
        "workflow Bake() andThen { match $.hot { } }",
        "write `andThen when { case … => { … } case _ => { … } }`",
    ),
    "else": (
        "workflow Bake() andThen { else { a = Oven() } }",
        "write `case _ => { … }` in a `when`",
    ),
    "elif": (
        "workflow Bake() andThen { elif $.hot { a = Oven() } }",
        "write another `case` in the `when`",
    ),
    "default": (
        "workflow Bake() andThen when { default => { } }",
        "write `case _ => { … }`",
    ),
    "for": (
        "workflow Bake() andThen { for x in $.loaves { a = Oven() } }",
        "write `andThen foreach x in … { … }`",
    ),
    "while": (
        "workflow Bake() andThen { while $.hot { a = Oven() } }",
        "write `andThen foreach x in … { … }`",
    ),
    "try": (
        "workflow Bake() andThen { try { a = Oven() } }",
        "write `catch { … }` after the step or declaration",
    ),
    "except": (
        "workflow Bake() andThen { } except { }",
        "write `catch { … }` after the step or declaration",
    ),
    "return": ("workflow Bake() andThen { return Bake() }", "write `yield`"),
    "let": (
        "workflow Bake() andThen { let a = Oven() }",
        "steps are written `name = Facet(…)`",
    ),
    "var": (
        "workflow Bake() andThen { var a = Oven() }",
        "steps are written `name = Facet(…)`",
    ),
    "const": (
        "workflow Bake() andThen { const a = Oven() }",
        "steps are written `name = Facet(…)`",
    ),
    "extends": ("facet Oven() extends Machine()", "write `with Facet()`"),
    "def": ("def Oven()", "write `facet`"),
    "function": ("function Oven()", "write `facet`"),
    "class": ("class Oven { }", "write `schema` for data, `facet` for something to call"),
    "struct": ("struct Oven { }", "write `schema`"),
    "type": ("type Oven = Int", "write `schema`"),
    "import": ("import kitchen", "write `use` inside a namespace"),
    "package": ("package kitchen", "write `namespace`"),
    "module": ("module kitchen", "write `namespace`"),
    "'": ("facet Oven(a: String = 'hot')", 'strings are written with double quotes: "…"'),
    "`": ("facet Oven(a: String = `hot`)", 'strings are written with double quotes: "…"'),
    "“": ("facet Oven(a: String = “hot”)", 'strings are written with double quotes: "…"'),
    "‘": ("facet Oven(a: String = ‘hot’)", 'strings are written with double quotes: "…"'),
    "#": ("# an oven", "comments start with `//`, maps with `#{`"),
    "$": ("facet Oven(a: Int = $b)", "inputs are written `$.name`"),
    "&": ("facet Oven(a: Boolean = b & c)", "write `&&`"),
    "|": ("facet Oven(a: Boolean = b | c)", "write `||`"),
    "?": (
        "facet Oven(a: Int = b ? 1 : 2)",
        "give a parameter a default, or choose with `andThen when`",
    ),
    "→": ("facet Oven() → (a: Int)", "write `=>`"),
    "⇒": ("facet Oven() ⇒ (a: Int)", "write `=>`"),
}
#: Signs that AFL reads as two.
SIGNS = {
    "==>": ("workflow Bake() andThen when { case 1 ==> { } }", "write `=>`"),
    "!==": ("facet Oven(a: Boolean = 1 !== 2)", "write `!=`"),
    "=<": ("facet Oven(a: Boolean = 1 =< 2)", "write `<=`"),
    "**": ("facet Oven(a: Int = 2 ** 3)", "there is no power operator; multiply"),
}
# fmt: on

WRONG = DECLARATIONS | BODIES | STATEMENTS | ARGUMENTS | CODES


def span(problem: Diagnostic) -> str:
    place = problem.location
    assert place is not None
    return f"{place.line}:{place.column}-{place.end_line}:{place.end_column}"


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_text_has_one_problem_that_says(name: str) -> None:
    wrong = WRONG[name]
    (problem,) = parse_text(wrong.text).problems
    found = (f"{problem.code} at {span(problem)}", problem.message, problem.hint)
    assert found == (wrong.place, wrong.message, wrong.hint)


@pytest.mark.parametrize("word", HABITS)
def test_a_word_of_another_language_is_marked_and_translated(word: str) -> None:
    text, hint = HABITS[word]
    first = parse_text(text).problems[0]
    assert first.location is not None
    marked = text[first.location.column - 1 : (first.location.end_column or 0) - 1]
    assert (marked, first.hint) == (word, hint)


@pytest.mark.parametrize("sign", SIGNS)
def test_a_sign_of_another_language_is_translated(sign: str) -> None:
    text, hint = SIGNS[sign]
    first = parse_text(text).problems[0]
    assert first.location is not None
    start = text.index(sign)
    assert start < first.location.column <= start + len(sign)
    assert first.hint == hint


def test_every_code_of_unreadable_text_has_an_example() -> None:
    shown = {wrong.place.split()[0] for wrong in WRONG.values()} | {codes.NESTING.id}
    assert shown == {each for each in codes.ALL_CODES if each.startswith("AFL1")}


def test_too_many_brackets_are_refused_where_they_open() -> None:
    text = "facet Oven(a: Int = " + "(" * 300 + "1" + ")" * 300 + ")"
    (problem,) = parse_text(text).problems
    assert problem.code == codes.NESTING.id
    assert problem.message == "More than 250 brackets are open here"
    assert problem.hint == "split the expression or block into steps or facets of their own"
    assert span(problem) == "1:270-1:271"


def test_too_deep_expressions_are_refused_as_a_whole() -> None:
    text = "facet Oven(a: Int = " + "-" * 300 + "1)"
    (problem,) = parse_text(text).problems
    assert (problem.code, problem.message) == (
        codes.NESTING.id,
        "This expression is nested too deeply",
    )


# Several problems


def found_in(text: str) -> list[tuple[int | None, str]]:
    return [(each.line, each.message) for each in parse_text(text).problems]


def test_every_statement_at_fault_is_found_at_once() -> None:
    text = """
workflow Bake() andThen {
    a = Knead(flour 1)
    b = Knead(flour = 2)
    c = Knead
    let d = Knead()
    e = Knead(flour = 1 +)
    yield Bake
}
"""
    assert found_in(text) == [
        (3, "Unexpected '1': expected `=`, `,`, `)` or an operator"),
        (6, "Unexpected 'let': expected `(`"),
        (7, "Unexpected ')': expected an expression"),
        (9, "Unexpected '}': expected `(`"),
    ]


def test_every_declaration_at_fault_is_found_at_once() -> None:
    text = """
namespace shop {
    facet Loaf(grams Int)
    facet Fine()
    schema Till { coins Int }
    workflow Bake() andThen { a = Knead }
}
facet Outside(a: )
"""
    assert found_in(text) == [
        (3, "Unexpected 'Int': expected `:`"),
        (5, "Unexpected 'Int': expected `:`"),
        (6, "Unexpected '}': expected `(`"),
        (8, "Unexpected ')': expected a type"),
    ]


def test_a_problem_causes_no_other() -> None:
    texts = [
        "workflow Bake() andThen { a = Knead() with }",
        "workflow Bake() andThen { a = Knead b = Knead() }",
        "workflow Bake() andThen { a = Knead() } catch",
        "workflow Bake() andThen { b = Knead() when $.x = 1 }",
        "namespace { facet Loaf() }",
        "workflow Bake() andThen { if $.hot { a = Knead() } else { b = Knead() } }",
    ]
    assert [len(parse_text(text).problems) for text in texts] == [1] * len(texts)


def test_a_problem_in_a_namespace_has_its_place_in_the_whole_text() -> None:
    (problem,) = parse_text("namespace shop { facet Loaf(grams Int) }").problems
    assert span(problem) == "1:35-1:38"


def test_no_more_than_twenty_problems_are_shown() -> None:
    text = "facet Loaf(grams Int)\n" * 30
    assert len(parse_text(text).problems) == 20


# Drawings


def drawn(text: str, source_id: str | None = None) -> str:
    (problem,) = parse_text(text, source_id).problems
    return render(problem, {source_id or "": text})


def test_a_problem_is_drawn_under_its_line() -> None:
    assert drawn("facet Oven()\nworklow Bake()\n", "file://shop/bake.afl") == (
        "shop/bake.afl:2:1: error[AFL101]: Unexpected 'worklow': expected "
        "`=>`, `with`, `prompt`, `script`, `andThen`, `catch` or a declaration\n"
        "     2 | worklow Bake()\n"
        "       | ^^^^^^^\n"
        "       hint: did you mean 'workflow'?"
    )


def test_a_problem_without_hint_is_drawn_without_one() -> None:
    assert drawn("facet Oven(a: Int = @)") == (
        "<string>:1:21: error[AFL102]: Unexpected character '@'\n"
        "     1 | facet Oven(a: Int = @)\n"
        "       |                     ^"
    )


def test_a_span_of_several_lines_is_drawn_to_the_end_of_its_first() -> None:
    text = "namespace shop {\n  namespace till {\n    facet Open()\n  }\n}"
    assert drawn(text).split("\n")[1:3] == [
        "     2 |   namespace till {",
        "       |   ^^^^^^^^^^^^^^^^",
    ]


def test_a_tab_is_drawn_as_one_space() -> None:
    assert drawn("facet Oven(\ta:\t@)").split("\n")[1:3] == [
        "     1 | facet Oven( a: @)",
        "       |                ^",
    ]


def test_a_carriage_return_is_not_drawn() -> None:
    assert drawn("facet Oven(a: @)\r\n").split("\n")[1] == "     1 | facet Oven(a: @)"


def test_what_is_missing_at_the_end_is_drawn_under_the_last_word() -> None:
    assert drawn("facet Oven()\nfacet Loaf\n\n\n").split("\n")[1:3] == [
        "     2 | facet Loaf",
        "       |       ^^^^",
    ]


def test_a_long_line_is_cut_around_the_caret() -> None:
    text = f'facet Oven(a: String = "{"x" * 300}", b: @, c: String = "{"y" * 300}")'
    line, caret = drawn(text).split("\n")[1:3]
    shown = line.removeprefix("     1 | ")
    assert len(shown) == DRAWN_WIDTH
    assert shown.startswith("…x")
    assert shown[caret.removeprefix("       | ").index("^")] == "@"


def test_a_line_that_fits_is_not_cut() -> None:
    text = f'facet Oven(a: String = "{"x" * 100}", b: @)'
    assert drawn(text).split("\n")[1] == f"     1 | {text}"


def test_a_problem_whose_text_is_unknown_is_told_without_a_drawing() -> None:
    place = SourceLocation(3, 7, 3, 9, "mongodb://1/menu")
    problem = Diagnostic.of(codes.SYNTAX, "Unexpected 'x'", place, "write `y`")
    assert render(problem, {}) == (
        "mongodb://1/menu:3:7: error[AFL101]: Unexpected 'x'\n       hint: write `y`"
    )


def test_a_line_that_the_text_does_not_have_is_not_drawn() -> None:
    problem = Diagnostic.of(codes.SYNTAX, "Unexpected 'x'", SourceLocation(9, 1))
    assert render(problem, {"": "facet Oven()"}) == "<string>:9:1: error[AFL101]: Unexpected 'x'"
