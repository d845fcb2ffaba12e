"""Write all that is generated: the compiled prelude, and pages of docs/reference; with `--check`,
say what is out of date.

Each file is a function that returns its whole text, so that tests can call it, too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# A script finds only its own folder; tests and mypy know these modules by the root's names.
sys.path.insert(0, str(ROOT))

from tools.prelude import prelude_json  # noqa: E402
from tools.reference_cli import cli_markdown  # noqa: E402
from tools.reference_codes import diagnostics_markdown  # noqa: E402
from tools.reference_events import events_markdown  # noqa: E402
from tools.reference_mcp import mcp_markdown  # noqa: E402
from tools.reference_settings import settings_markdown  # noqa: E402

FOLDER = ROOT / "docs" / "reference"

Files = Mapping[Path, Callable[[], str]]

FILES: Files = {
    ROOT / "src" / "afl" / "lang" / "prelude.json": prelude_json,
    FOLDER / "settings.md": settings_markdown,
    FOLDER / "events.md": events_markdown,
    FOLDER / "diagnostics.md": diagnostics_markdown,
    FOLDER / "cli.md": cli_markdown,
    FOLDER / "mcp.md": mcp_markdown,
}


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print("usage: python tools/reference.py [--check]", file=sys.stderr)
        return 2
    if not arguments:
        write(FILES)
        return 0
    stale = stale_files()
    for path in stale:
        print(f"{path.relative_to(ROOT)} is out of date; run: make reference", file=sys.stderr)
    return 1 if stale else 0


def write(files: Files) -> None:
    """Each before the next is made, which may need it."""
    for path, make in files.items():
        text = text_of(make)
        if not _is_current(path, text):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")


def stale_files(files: Files = FILES) -> list[Path]:
    """Those whose text is not what it should be, or that are missing."""
    return [path for path, make in files.items() if not _is_current(path, text_of(make))]


def text_of(make: Callable[[], str]) -> str:
    """The text as a file has it: one line end at its end."""
    return make().rstrip("\n") + "\n"


def _is_current(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
