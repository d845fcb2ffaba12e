"""Print how long functions and files are: numbers to look at in review, never a gate."""

from __future__ import annotations

import ast
import json
import statistics
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    files = sorted((ROOT / "src").rglob("*.py"))
    lengths = {str(each.relative_to(ROOT)): len(each.read_text().splitlines()) for each in files}
    functions = [length for each in files for length in function_lengths(each)]
    longest = sorted(lengths.items(), key=lambda item: -item[1])[:5]
    print(
        json.dumps(
            {
                "files": len(files),
                "lines": sum(lengths.values()),
                "file": spread(list(lengths.values())),
                "function": spread(functions),
                "longest": dict(longest),
            },
            indent=2,
        )
    )


def function_lengths(path: Path) -> list[int]:
    tree = ast.parse(path.read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    return [(node.end_lineno or node.lineno) - node.lineno + 1 for node in found]


def spread(values: list[int]) -> dict[str, float]:
    return {
        "median": statistics.median(values),
        "p90": statistics.quantiles(values, n=10)[-1],
        "max": max(values),
    }


if __name__ == "__main__":
    main()
