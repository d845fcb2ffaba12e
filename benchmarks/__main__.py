"""`make bench`: run every benchmark and print one JSON object; `python -m benchmarks PART…` some.

Each number stands beside the bare limit or a peer measured in the same run, because machines
differ and are noisy; `aim` is what we want to keep, and `met` says whether this run did. Where
others share the hardware, `stolen_percent` says how much of its work they took.
"""

from __future__ import annotations

import json
import platform
import sys
from importlib import import_module
from typing import Any

from benchmarks.measure import Stolen

PARTS = (
    "language",
    "sqlite",
    "engine",
    "lifecycle",
    "workers",
    "stores",
    "mailboxes",
    "turns",
    "faces",
)


def main(chosen: list[str]) -> int:
    unknown = sorted(set(chosen) - set(PARTS))
    if unknown:
        print(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    result: dict[str, Any] = {"python": platform.python_version()}
    for name in chosen or PARTS:
        print(f"measuring {name}", file=sys.stderr)
        stolen = Stolen()
        result[name] = import_module(f"benchmarks.{name}").run()
        result[name]["stolen_percent"] = stolen.percent()
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
