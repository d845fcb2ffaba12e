"""Looking for what would go wrong in a deployment, before it does.

Facts are gathered at the edge (`gathering`); each check is a pure function over them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from afl.operations.doctor import place_checks, process_checks
from afl.operations.doctor.facts import Facts
from afl.operations.doctor.findings import Finding as Finding
from afl.operations.doctor.findings import Result as Result

#: In the order in which people should read what they say.
CHECKS: tuple[Callable[[Facts], Finding | Iterable[Finding]], ...] = (
    process_checks.sigterm,
    process_checks.first_process,
    process_checks.drain,
    process_checks.grace,
    process_checks.times,
    place_checks.store,
    place_checks.store_clock,
    place_checks.schema,
    place_checks.database_file,
    place_checks.extras,
    place_checks.handler_paths,
    place_checks.scripts,
    place_checks.ports,
    place_checks.app,
    place_checks.tokens,
)


def examine(facts: Facts) -> list[Finding]:
    """What every check says."""
    found: list[Finding] = []
    for check in CHECKS:
        said = check(facts)
        found += [said] if isinstance(said, Finding) else said
    return found
