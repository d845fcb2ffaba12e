"""A run with many steps."""

from __future__ import annotations

from tests.dashboard.conftest import Site

from afl.operations.texts import compile_text

PROGRAM = """
namespace big

schema Item { n: Long }

event facet Do(n: Long) => (m: Long)

workflow Many(items: [Item]) => (all: [Long]) andThen foreach item in $.items {
    one = Do(n = item.n)
    two = Do(n = item.n)
    yield Many(all = one.m)
}
"""


def large_run(site: Site, steps: int) -> str:
    """Each round has a block and two steps that wait for a handler."""
    program = compile_text(PROGRAM).require()
    items = [{"n": number} for number in range(-(-steps // 3))]
    return site.evaluator.submit(program, "big.Many", {"items": items})
