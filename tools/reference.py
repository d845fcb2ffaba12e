"""Write the generated pages of docs/reference; with `--check`, say which are out of date.

Each page is a function that returns its whole text, so that tests can call it, too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# A script finds only its own folder; tests and mypy know these modules by the root's names.
sys.path.insert(0, str(ROOT))

from tools.reference_cli import cli_markdown  # noqa: E402
from tools.reference_codes import diagnostics_markdown  # noqa: E402
from tools.reference_events import events_markdown  # noqa: E402
from tools.reference_mcp import mcp_markdown  # noqa: E402
from tools.reference_settings import settings_markdown  # noqa: E402

FOLDER = ROOT / "docs" / "reference"

PAGES: dict[str, Callable[[], str]] = {
    "settings.md": settings_markdown,
    "events.md": events_markdown,
    "diagnostics.md": diagnostics_markdown,
    "cli.md": cli_markdown,
    "mcp.md": mcp_markdown,
}


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print("usage: python tools/reference.py [--check]", file=sys.stderr)
        return 2
    if arguments:
        stale = stale_pages()
        for path in stale:
            print(f"{path.relative_to(ROOT)} is out of date; run: make reference", file=sys.stderr)
        return 1 if stale else 0
    for path in stale_pages():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text_of(path.name), encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


def stale_pages(folder: Path = FOLDER) -> list[Path]:
    """The pages whose text is not what it should be, or that are missing."""
    return [folder / name for name in PAGES if not _is_current(folder / name)]


def text_of(name: str) -> str:
    """The text of a page as a file has it: one line end at its end."""
    return PAGES[name]().rstrip("\n") + "\n"


def _is_current(path: Path) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text_of(path.name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
