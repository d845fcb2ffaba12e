"""Programs that a model can do."""

from __future__ import annotations

from typing import Any

from tests.agents.model_server import Reply, uses

from afl.lang.parser import parse
from afl.lang.program import Program

COUNT = """
namespace many

event facet Say(n: Long) => (word: String)

workflow Each(numbers: [Long]) => (words: [String]) andThen foreach n in $.numbers {
    said = Say(n = n)
    yield Each(words = said.word)
}
"""
NUMBERS = {"numbers": [1, 2, 3, 4]}


def program(text: str) -> Program:
    return Program.of(parse(text))


def said(request: dict[str, Any]) -> Reply:
    """What a model says to a step of COUNT: the last character that it is asked with."""
    return uses("many-Say", {"word": request["messages"][0]["content"][0]["text"][-1]})
