"""The program whose effects workers do; who does them needs no compiler."""

from __future__ import annotations

from afl import compile_source

WORKFLOW = "HappenAll"
PROGRAM = compile_source(
    """
namespace effects

event facet Happen(number: Long, shortest_ms: Long, longest_ms: Long) => (number: Long)

workflow HappenAll(numbers: [Long], shortest_ms: Long, longest_ms: Long) => (done: [Long])
    andThen foreach number in $.numbers {
        one = Happen(
            number = number, shortest_ms = $.shortest_ms, longest_ms = $.longest_ms
        )
        yield HappenAll(done = one.number)
    }
"""
)
