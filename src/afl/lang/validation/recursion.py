"""A facet that always calls itself never ends.

Only calls that certainly happen count: what stands in a `when`, a `foreach` or a `catch` may not.
A step with a body of its own does not run the body of its facet.
"""

from collections.abc import Iterator

from afl.lang import ast
from afl.lang.codes import RECURSION
from afl.lang.names import Declared
from afl.lang.validation.cycles import find_cycles
from afl.lang.validation.rule import Report, Rule


def check(report: Report) -> None:
    calls = {each.qualified: list(_certain_calls(report, each)) for each in report.names.all()}

    def targets(name: str) -> Iterator[str]:
        return (target for target, _ in calls.get(name, ()))

    for cycle in find_cycles(calls, targets):
        statement = next(node for target, node in calls[cycle[0]] if target == cycle[1])
        path = " → ".join(cycle)
        report(RECURSION, f"This call never ends: {path}", statement, _HINT)


_HINT = "put the recursive call into a `when` case or a `foreach`"


def _certain_calls(report: Report, declared: Declared) -> Iterator[tuple[str, ast.StepStmt]]:
    if isinstance(declared.node, ast.SchemaDecl):
        return
    pending = list(declared.node.bodies)
    while pending:
        block = pending.pop()
        if block.foreach or block.when or block.script:
            continue
        for step in block.block.steps:
            if step.body is not None:
                pending.extend(step.bodies)
                continue
            target = report.names.resolve(declared.namespace, step.call.name).declared
            if target is not None:
                yield target.qualified, step


RULE = Rule("recursion", (RECURSION,), program=check)
