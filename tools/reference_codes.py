"""The reference page of the diagnostics, made from their table and from programs that have them.

Each example is compiled when the page is made, so what the page shows is what the compiler says.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from afl.lang.codes import ALL_CODES, Code, Severity
from afl.lang.compiler import compile_input
from afl.lang.diagnostics import Diagnostic, render
from afl.lang.sources import CompilerInput, SourceEntry, TextOrigin

_HEAD = """\
# Diagnostics

Generated from the table in `afl.lang.codes`; do not edit.

Everything that the compiler finds wrong is one of these. A code keeps its meaning for ever: it is
never renumbered and never used again for something else. Codes from AFL101 are about text that
cannot be read, those from AFL201 about names, those from AFL301 about the other rules.

An *error* rejects the program. A *warning* does not, unless `--strict` is given (or the setting
[`language.strict`](settings.md#languagestrict) is true). All problems of a program are shown at
once, in reading order; when a text cannot be read, the rules are not applied yet.

`afl check --json` gives code, severity, message, hint and place of each problem to machines.
"""

_FILE = "example.afl"


class Example(NamedTuple):
    """A program that has one problem. `shown` describes a text that is too odd to be printed."""

    text: str
    shown: str | None = None


def diagnostics_markdown() -> str:
    """The full text of docs/reference/diagnostics.md."""
    overview = ["| code | severity | title |", "| --- | --- | --- |"]
    overview += [
        f"| [{each.id}](#{each.id.lower()}) | {each.severity.value} | {each.title} |"
        for each in ALL_CODES.values()
    ]
    return "\n".join([_HEAD, *overview, "", *(_section(each) for each in ALL_CODES.values())])


def _section(code: Code) -> str:
    example = example_of(code)
    lines = [
        f"## {code.id}",
        "",
        f"**{code.title[0].upper()}{code.title[1:]}** ({code.severity.value}). {code.advice}",
        "",
    ]
    if example.shown is None:
        tag = "afl wrong" if code.severity is Severity.ERROR else "afl warning"
        lines += [f"```{tag}", example.text.rstrip("\n"), "```", ""]
    else:
        lines += [example.shown, ""]
    drawn = [_render(each, example) for each in problems(code)]
    return "\n".join([*lines, "```text", *drawn, "```", ""])


def example_of(code: Code) -> Example:
    if code.id not in EXAMPLES:
        raise ValueError(f"{code.id} has no example: add one to EXAMPLES in {Path(__file__).name}")
    return EXAMPLES[code.id]


def _render(problem: Diagnostic, example: Example) -> str:
    texts = {_FILE: example.text} if example.shown is None else {}
    return render(problem, texts)


def problems(code: Code) -> Sequence[Diagnostic]:
    """What the compiler says about the example of `code`.

    Raises ValueError if that is anything but this code.
    """
    source = SourceEntry(example_of(code).text, TextOrigin(_FILE))
    found = compile_input(CompilerInput([source])).diagnostics
    if {each.code for each in found} != {code.id}:
        said = "\n".join(render(each, {}) for each in found) or "nothing"
        raise ValueError(f"the example of {code.id} should have that problem; found: {said}")
    return found


EXAMPLES: dict[str, Example] = {
    # The text
    "AFL101": Example("facet Greet(name = String)\n"),
    "AFL102": Example("facet Greet(name: String = 'World')\n"),
    "AFL103": Example('facet Greet(name: String = "World)\n'),
    "AFL104": Example(
        """\
event facet Greet(name: String) => (text: String)

workflow Hello(name: String) andThen {
    greeting = Greet(name = $.name
}
"""
    ),
    "AFL105": Example("/* Who is greeted.\nfacet Greet(name: String)\n"),
    "AFL106": Example(
        """\
facet Shout(text: String) => (loud: String) script {
    result["loud"] = params["text"].upper()
"""
    ),
    "AFL107": Example(
        "facet F(x: Long = " + "(" * 251 + "1" + ")" * 251 + ")\n",
        "A program with 251 parentheses inside each other; 250 may be open at once, and an "
        "expression may be 250 operators deep.",
    ),
    "AFL108": Example('facet Greet(name: String = "\\u00zz")\n'),
    "AFL109": Example("facet Limit(max: Long = 9223372036854775808)\n"),
    "AFL110": Example(
        """\
event facet Greet(name: String) => (text: String)

workflow Hello(name: String) andThen {
    greeting = Greet($.name)
}
"""
    ),
    "AFL111": Example(
        """\
event facet Greet(name: String) => (text: String)

workflow Hello(name: String) andThen {
    Greet(name = $.name)
}
"""
    ),
    "AFL112": Example(
        """\
event facet Greet(name: String) => (text: String)

workflow Hello(name: String) => (text: String) andThen {
    first = Greet(name = $.name)
    yield Hello(text = first.text)
    second = Greet(name = first.text)
}
"""
    ),
    "AFL113": Example("namespace shop {\n    namespace orders {\n    }\n}\n"),
    "AFL114": Example("use shop\n\nnamespace shop {\n    facet Order(id: String)\n}\n"),
    "AFL115": Example(
        """\
event facet Ask(question: String) => (answer: String) prompt {
    template "Answer: {question}"
    template "Answer briefly: {question}"
}
"""
    ),
    "AFL116": Example(
        """\
facet Audited(by: String)

event facet Greet(name: String) => (text: String)

workflow Hello(name: String) => (text: String) with Audited(by = "shop") andThen {
    greeting = Greet(name = $.name)
    yield Hello(text = greeting.text) with Audited(by = "us") as audit
}
"""
    ),
    "AFL117": Example(
        """\
event facet Ask(question: String) => (answer: String)
    prompt { template "Answer: {question}" }
    andThen { yield Ask(answer = "never") }
"""
    ),
    "AFL120": Example(
        "facet F()\0\n", "A file with a NUL byte after `facet F()`; bytes that are no UTF-8, too."
    ),
    "AFL130": Example('facet Path(pattern: String = "\\d+")\n'),
    # Names
    "AFL201": Example("facet Order(id: String)\n\nevent facet Order(number: Long)\n"),
    "AFL202": Example("namespace shop {\n    schema Line { sku: String, sku: Long }\n}\n"),
    "AFL203": Example(
        """\
event facet Greet(name: String) => (text: String)

workflow Hello(name: String) andThen {
    greeting = Greet(name = $.name)
    greeting = Greet(name = "you")
}
"""
    ),
    "AFL204": Example("facet Order(id: String, id: Long)\n"),
    "AFL205": Example(
        """\
event facet Greet(name: String) => (text: String)

workflow Hello(name: String) andThen {
    greeting = Greet(name = $.name, name = "you")
}
"""
    ),
    "AFL206": Example("namespace afl {\n    facet Retry(max: Long)\n}\n"),
    "AFL210": Example("namespace shop {\n    use billing\n}\n"),
    "AFL211": Example(
        """\
namespace billing {
    event facet Charge(amount: Double) => (payment: String)
}

workflow Buy(amount: Double) andThen {
    paid = billing.Charg(amount = $.amount)
}
"""
    ),
    "AFL212": Example(
        """\
namespace card {
    event facet Charge(amount: Double)
}

namespace invoice {
    event facet Charge(amount: Double)
}

workflow Buy(amount: Double) andThen {
    paid = Charge(amount = $.amount)
}
"""
    ),
    "AFL213": Example(
        """\
workflow Buy(amount: Double) andThen {
    paid = Charge(amount = $.amount)
}
"""
    ),
    "AFL214": Example("facet Order(lines: [Lines])\n"),
    "AFL215": Example(
        """\
namespace shop {
    schema Line { sku: String }
}

namespace stock {
    schema Line { shelf: Long }
}

facet Order(lines: [Line])
"""
    ),
    "AFL220": Example(
        """\
event facet Greet(name: String) => (text: String)

workflow Hello(name: String) andThen {
    greeting = Greet(name = $.nmae)
}
"""
    ),
    "AFL221": Example(
        """\
event facet Greet(name: String) => (text: String)

workflow Hello(name: String) andThen {
    first = Greet(name = second.text)
    second = Greet(name = $.name)
}
"""
    ),
    "AFL222": Example(
        """\
event facet Greet(name: String) => (text: String)

workflow Hello(name: String) => (text: String) andThen {
    greeting = Greet(name = $.name)
    yield Hello(text = greeting.txt)
}
"""
    ),
    "AFL223": Example(
        """\
event facet Greet(name: String) => (text: String)

workflow Hello(name: String) andThen {
    greeting = Greet(name = greeting.text)
}
"""
    ),
    "AFL224": Example(
        """\
event facet Greet(name: String) => (text: String)

workflow Hello()
    andThen { first = Greet(name = second.text) }
    andThen { second = Greet(name = first.text) }
"""
    ),
    "AFL225": Example(
        """\
namespace shop {
    schema Line { sku: String }
    event facet Pack(sku: String) => (parcel: String)

    workflow Ship(line: Line) andThen {
        packed = Pack(sku = $.line.number)
    }
}
"""
    ),
    "AFL226": Example(
        """\
event facet Pack(sku: String) => (parcel: String)

workflow Ship()
    andThen {
        packed = Pack(sku = "tea")
    }
    andThen {
        packed = Pack(sku = "mug")
    }
    andThen {
        sent = Pack(sku = packed.parcel)
    }
"""
    ),
    "AFL227": Example(
        """\
event facet Charge(amount: Double, note: String = $.payment) => (payment: String)
"""
    ),
    # Rules
    "AFL301": Example(
        """\
event facet Greet(name: String) => (text: String)

workflow Hello(name: String) => (text: String) andThen {
    greeting = Greet(name = $.name)
    yield Greet(text = greeting.text)
}
"""
    ),
    "AFL302": Example(
        """\
workflow Hello() => (text: String, mood: String) andThen {
    yield Hello(text = "Hello")
    yield Hello(mood = "good")
}
"""
    ),
    "AFL303": Example(
        """\
workflow Hello() => (text: String) andThen {
    yield Hello(txt = "Hello")
}
"""
    ),
    "AFL310": Example(
        """\
event facet Greet(name: String = "you") => (text: String)

workflow Hello(name: String) andThen {
    greeting = Greet(nmae = $.name)
}
"""
    ),
    "AFL311": Example(
        """\
event facet Greet(name: String) => (text: String)

workflow Hello() andThen {
    greeting = Greet()
}
"""
    ),
    "AFL312": Example(
        """\
event facet Charge(amount: Double)

workflow Buy() andThen {
    paid = Charge(amount = "ten")
}
"""
    ),
    "AFL313": Example(
        """\
event facet Charge(amount: Double) => (payment: String)

workflow Buy() andThen {
    paid = Charge(amount = 10) with afl.Timeout()
}
"""
    ),
    "AFL320": Example(
        """\
namespace shop {
    schema Line { sku: String }

    workflow Order() andThen {
        line = Line(sku = "A-1", cuont = 2)
    }
}
"""
    ),
    "AFL321": Example(
        """\
namespace shop {
    schema Line { sku: String }

    workflow Order() andThen {
        line = Line(sku = "A-1") with afl.Retry(max = 3)
    }
}
"""
    ),
    "AFL322": Example("schema Line { sku: String }\n"),
    "AFL323": Example(
        """\
namespace shop {
    schema Share { part: Double }

    workflow Split(people: Long) andThen {
        share = Share(part = 1 / $.people) catch { sys.log("nobody there") }
    }
}
"""
    ),
    "AFL330": Example('facet Greet(text: String = "Hello " + "World")\n'),
    "AFL331": Example(
        """\
event facet Greet(name: String) => (text: String)

workflow Hello(name: String) andThen {
    greeting = Greet(name = "" ++ ($.name + 1))
}
"""
    ),
    "AFL340": Example(
        """\
event facet Ask(question: String) => (answer: String) prompt {
    system "You answer in one sentence."
}
"""
    ),
    "AFL341": Example(
        """\
event facet Ask(question: String) => (answer: String) prompt {
    template "Answer: {qestion}"
}
"""
    ),
    "AFL342": Example(
        """\
facet Ask(question: String) => (answer: String) prompt {
    template "Answer: {question}"
}
"""
    ),
    "AFL350": Example("facet Shout(text: String) => (loud: String) script { }\n"),
    "AFL351": Example('facet Shout(text: String) => (loud: String) script ruby "text.upcase"\n'),
    "AFL352": Example(
        """\
facet Shout(text: String) => (loud: String) script {
    text = params["text"]
    result["loud"] = = text.upper()
}
"""
    ),
    "AFL360": Example(
        """\
facet Count(n: Long) => (total: Long) andThen {
    rest = Count(n = $.n - 1)
    yield Count(total = rest.total)
}
"""
    ),
    "AFL361": Example(
        """\
event facet Greet(name: String) => (text: String)

workflow Hello(name: String) andThen foreach each in $.name {
    greeting = Greet(name = each)
}
"""
    ),
    "AFL362": Example(
        """\
event facet Greet(name: String) => (text: String)

workflow Hello(name: String) andThen when {
    case $.name != "" => { greeting = Greet(name = $.name) }
}
"""
    ),
    "AFL363": Example(
        """\
facet Priced(price: Double) with Taxed(rate = 0.08)

facet Taxed(rate: Double) with Priced(price = 1)
"""
    ),
    "AFL370": Example(
        """\
namespace shop {
    use billing
}

namespace billing {
    use shop
}
"""
    ),
}
