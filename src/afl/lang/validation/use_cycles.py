"""Namespaces that use each other in a circle are one namespace in disguise."""

from collections.abc import Iterator

from afl.lang.codes import USE_CYCLE
from afl.lang.validation.cycles import find_cycles
from afl.lang.validation.rule import Report, Rule


def check(report: Report) -> None:
    uses = report.names.uses

    def targets(namespace: str) -> Iterator[str]:
        return (each.name for each in uses.get(namespace, ()))

    for cycle in find_cycles(sorted(uses), targets):
        statement = next(each for each in uses[cycle[0]] if each.name == cycle[1])
        path = " → ".join(cycle)
        message = f"Namespaces use each other in a circle: {path}"
        if len(cycle) == 2:
            message = f"Namespace '{cycle[0]}' uses itself"
        report(USE_CYCLE, message, statement)


RULE = Rule("use cycles", (USE_CYCLE,), program=check)
