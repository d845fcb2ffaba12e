"""`make bench`: run every benchmark and print one JSON object.

Each number stands beside the bare limit or a peer measured in the same run, because machines
differ and are noisy; `aim` is what we want to keep, and `met` says whether this run did.
"""

from __future__ import annotations

import json
import platform

from benchmarks import engine, language, lifecycle, mailboxes, sqlite, stores, turns, workers


def main() -> None:
    result = {
        "python": platform.python_version(),
        "language": language.run(),
        "sqlite": sqlite.run(),
        "engine": engine.run(),
        "lifecycle": lifecycle.run(),
        "workers": workers.run(),
        "stores": stores.run(),
        "mailboxes": mailboxes.run(),
        "turns": turns.run(),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
