"""Steps of sibling blocks may read each other, but not in a circle."""

from collections.abc import Iterator
from typing import TypeAlias

from afl.lang import ast
from afl.lang.ast import FrozenList
from afl.lang.codes import STEP_CYCLE
from afl.lang.dependencies import steps_read_by
from afl.lang.scopes import Scope
from afl.lang.validation.cycles import find_cycles
from afl.lang.validation.rule import Report, Rule

#: Number of the block and name: two blocks may have steps of one name.
Key: TypeAlias = tuple[int, str]


def check(report: Report, blocks: list[ast.AndThenBlock], _scope: Scope) -> None:
    plain = [each.block.steps for each in blocks if not each.foreach]
    steps = {(number, step.name): step for number, block in enumerate(plain) for step in block}
    reads = dict(_reads(plain, steps))
    for cycle in find_cycles(reads, lambda key: reads[key]):
        path = " → ".join(name for _, name in cycle)
        report(STEP_CYCLE, f"These steps wait for each other: {path}", steps[cycle[0]])


def _reads(
    plain: list[FrozenList[ast.StepStmt]], steps: dict[Key, ast.StepStmt]
) -> Iterator[tuple[Key, list[Key]]]:
    """Which steps each step waits for; one further down its own block is another rule's."""
    home = {name: number for number, name in steps}
    for number, block in enumerate(plain):
        above: set[str] = set()
        for step in block:
            names = sorted(steps_read_by(step))
            own = [(number, name) for name in names if name in above]
            elsewhere = [name for name in names if (number, name) not in steps and name in home]
            yield (number, step.name), own + [(home[name], name) for name in elsewhere]
            above.add(step.name)


RULE = Rule("step cycles", (STEP_CYCLE,), body=check)
