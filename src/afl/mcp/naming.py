"""Names of tools for workflows.

A workflow is called by its short name if no other has it, and else by its namespace as well. Models
take only letters, digits, `_` and `-`, and 64 of them; what does not fit is cut and told apart by
a few characters that follow from the whole name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from afl.ids import stable_id

_LONGEST = 64
_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_-]")
#: Characters that tell two names apart.
_TAIL = 8


def tool_names(workflows: Sequence[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """The names of tools for these qualified names of workflows: tool to workflow."""
    used = set(taken)
    shorts = Counter(_short(each) for each in workflows)
    names: dict[str, str] = {}
    for each in sorted(workflows):
        is_alone = shorts[_short(each)] == 1 and _short(each) not in used
        name = _fitting(_short(each) if is_alone else each, each)
        if name in used:
            name = _with_tail(name, each)
        used.add(name)
        names[name] = each
    return names


def free_name(wanted: str, taken: Iterable[str]) -> str:
    """A name for an argument of ours that the workflow does not have."""
    names = set(taken)
    while wanted in names:
        wanted = f"afl_{wanted}"
    return wanted


def _short(qualified: str) -> str:
    return qualified.rpartition(".")[2]


def _fitting(name: str, qualified: str) -> str:
    # A dot is the usual way to namespaces, and says no more than an underscore.
    plain = name.replace(".", "_")
    is_fit = len(plain) <= _LONGEST and not _FORBIDDEN.search(plain)
    return plain if is_fit else _with_tail(_FORBIDDEN.sub("_", plain), qualified)


def _with_tail(name: str, qualified: str) -> str:
    tail = stable_id("tool", qualified).replace("-", "")[:_TAIL]
    return f"{name[: _LONGEST - _TAIL - 1]}_{tail}"
