"""The compiler, beside the bare lark parser, Python's own parser and the clock on the wall."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.resources import files
from typing import Any

from lark import Lark

import afl
from benchmarks.measure import best_of, judged

LINES = 20_000
ROUNDS = 3
START_ROUNDS = 5

#: What all generated parts use.
AFL_HEAD = """\
namespace shop.common {
    event facet Note(text: String) => (id: String)
}
"""

AFL_UNIT = """\
/** Part {n} of a generated shop. */
namespace shop.part{n} {{
    use shop.common

    schema Line{n} {{ sku: String, count: Long, tags: [String] }}

    /** Takes the money. */
    event facet Charge{n}(order: String, amount: Double, currency: String = "EUR") => (id: String)

    event facet Ask{n}(question: String) => (answer: String) prompt {{
        system "Answer in one word."
        template "The question is: {{question}}"
    }}

    facet PackAll{n}(lines: [Line{n}]) => (ids: [String]) andThen foreach line in $.lines {{
        packed = Charge{n}(order = line.sku, amount = 1.5)
        yield PackAll{n}(ids = packed.id)
    }}

    // The main job of this part.
    workflow Buy{n}(order: String, total: Double, lines: [Line{n}]) => (id: String, note: String)
        andThen {{
            paid = Charge{n}(order = $.order, amount = $.total * 1.19 + 2) with afl.Retry(max = 3)
            packed = PackAll{n}(lines = $.lines)
            noted = Note(text = packed.ids[0] ++ "-" ++ paid.id ++ ($.total - 1) / 2)
            asked = Ask{n}(question = "why?") andThen when {{
                case $.answer == "yes" && !($.question contains "no") => {{
                    again = Ask{n}(question = $.answer)
                    yield Ask{n}(answer = again.answer)
                }}
                case _ => {{
                    yield Ask{n}(answer = "no")
                }}
            }}
            yield Buy{n}(id = paid.id, note = asked.answer)
        }}
        catch {{
            yield Buy{n}(id = "", note = $.error)
        }}
}}
"""

PYTHON_UNIT = '''\
class Part{n}:
    """Part {n} of a generated shop."""

    def buy(self, order: str, total: float, lines: list[dict[str, int]]) -> dict[str, str]:
        paid = charge(order=order, amount=total * 1.19 + 2, currency="EUR")
        packed = [pack(sku=line["sku"], count=line["count"]) for line in lines]
        if paid.answer == "yes" and not ("no" in paid.question):
            again = ask(question=paid.answer)
            return {{"id": paid.id + "-" + packed[0].id, "note": again.answer}}
        return {{"id": paid.id, "note": "no"}}
'''


def generated(unit: str, lines: int) -> str:
    """About `lines` lines of text made from one unit."""
    return "".join(unit.format(n=n) for n in range(lines // unit.count("\n")))


def generated_program(lines: int) -> str:
    """About `lines` lines of AFL that compile without a warning."""
    return AFL_HEAD + generated(AFL_UNIT, lines)


def run() -> dict[str, Any]:
    return {"compile": _compile(), "growth": _growth(), "start": _start()}


def _bare_lark() -> Lark:
    grammar = files("afl.lang").joinpath("grammar.lark").read_text("utf-8")
    return Lark(grammar, parser="lalr", start="program")


def _compile() -> dict[str, Any]:
    """Compiling costs at most 2.5 times what lark needs to parse the same text."""
    text, python_text = generated_program(LINES), generated(PYTHON_UNIT, LINES)
    lark = _bare_lark()
    afl.compile_source("")
    compiled, bare, python = best_of(
        ROUNDS,
        lambda: afl.compile_source(text),
        lambda: lark.parse(text),
        lambda: ast.parse(python_text),
    )
    lines = text.count("\n")
    return judged(
        compiled / bare,
        2.5,
        unit="times the bare lark parse",
        lines=lines,
        seconds=round(compiled, 3),
        bare_seconds=round(bare, 3),
        lines_per_second=round(lines / compiled),
        python_ast_lines_per_second=round(python_text.count("\n") / python),
    )


def _growth() -> dict[str, Any]:
    """Twice the text costs at most 2.3 times the time."""
    text, twice = generated_program(LINES), generated_program(2 * LINES)
    once, doubled = best_of(
        ROUNDS, lambda: afl.compile_source(text), lambda: afl.compile_source(twice)
    )
    return judged(doubled / once, 2.3, unit="times the time for twice the text")


def _start() -> dict[str, Any]:
    """Starting is what people wait for most often; a bare interpreter is the limit."""

    def run_python(*arguments: str) -> None:
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)

    bare, imported, helped = best_of(
        START_ROUNDS,
        lambda: run_python("-c", "pass"),
        lambda: run_python("-c", "import afl"),
        lambda: run_python("-m", "afl", "--help"),
    )
    return {
        "bare_interpreter_seconds": round(bare, 3),
        "import_afl": judged(imported, 0.15, unit="seconds"),
        "afl_help": judged(helped, 0.3, unit="seconds"),
    }
