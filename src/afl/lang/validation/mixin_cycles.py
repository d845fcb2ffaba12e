"""A facet does not mix itself in: who calls it would never have all its parameters."""

from collections.abc import Iterator

from afl.lang import ast
from afl.lang.codes import MIXIN_CYCLE
from afl.lang.names import Declared
from afl.lang.validation.cycles import find_cycles
from afl.lang.validation.rule import Report, Rule


def check(report: Report) -> None:
    mixins = {each.qualified: dict(_mixed_in(report, each)) for each in report.names.all()}

    for cycle in find_cycles(mixins, lambda name: mixins.get(name, ())):
        path = " → ".join(cycle)
        message = f"These mixins never end: {path}"
        report(MIXIN_CYCLE, message, mixins[cycle[0]][cycle[1]], _HINT)


_HINT = "break the circle: one of them must not mix in the other"


def _mixed_in(report: Report, declared: Declared) -> Iterator[tuple[str, ast.MixinSig]]:
    for mixin in declared.mixins:
        target = report.names.resolve(declared.namespace, mixin.name).declared
        if target is not None:
            yield target.qualified, mixin


RULE = Rule("mixin cycles", (MIXIN_CYCLE,), program=check)
