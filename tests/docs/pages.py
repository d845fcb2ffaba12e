"""Reading the documentation: its pages, code blocks, headings and links.

The first word after the fence of a block is its language; the words behind it say what is true
of it:

- `afl`: compiles without a warning. `wrong`: does not compile. `warning`: compiles, with
  warnings. `fragment`: statements that need a workflow around them.
- `python`: is Python. `run`: and runs.
- `console run`: the commands print what the block shows; a line `…` stands for any lines.
- `json`, `toml`: can be read as such.
- `file=NAME`: on its page, later blocks find this text in a file of that name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,})(?P<tags>[^`]*)$")
_HEADING = re.compile(r"^#{1,6} +(.*?) *#*$")
_LINK = re.compile(r"(?<!\!)\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`[^`]*`")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    tags: tuple[str, ...]
    text: str

    @property
    def language(self) -> str:
        return self.tags[0] if self.tags else ""

    @property
    def file(self) -> str | None:
        """The name that the page gives this text, if any."""
        names = [each.removeprefix("file=") for each in self.tags if each.startswith("file=")]
        return names[0] if names else None

    @property
    def place(self) -> str:
        return f"{name_of(self.page)}:{self.line}"


def pages() -> list[Path]:
    """Everything that people read, in a fixed order."""
    top = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    return [*top, *sorted(DOCS.rglob("*.md"))]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(*languages: str) -> list[Block]:
    """The blocks of all pages that are in one of these languages."""
    return [each for page in pages() for each in blocks_of(page) if each.language in languages]


def blocks_of(page: Path) -> Iterator[Block]:
    opened: re.Match[str] | None = None
    start, lines = 0, list[str]()
    for number, line in enumerate(read(page).splitlines(), 1):
        match = _FENCE.match(line)
        if opened is None:
            if match:
                opened, start, lines = match, number, []
        elif match and match["fence"] == opened["fence"] and not match["tags"].strip():
            yield Block(page, start, tuple(opened["tags"].split()), "\n".join([*lines, ""]))
            opened = None
        else:
            lines.append(line.removeprefix(opened["indent"]))
    assert opened is None, f"{name_of(page)}:{start}: this block is not closed"


def prose(page: Path) -> str:
    """The text of a page without its blocks."""
    lines, fence = [], ""
    for line in read(page).splitlines():
        match = _FENCE.match(line)
        if match and not fence:
            fence = match["fence"]
        elif match and match["fence"] == fence:
            fence = ""
        elif not fence:
            lines.append(line)
    return "\n".join(lines)


def links(page: Path) -> list[str]:
    """The targets of the links of a page."""
    return _LINK.findall(_CODE.sub(_blank, prose(page)))


def _blank(code: re.Match[str]) -> str:
    return "`" + "x" * (len(code[0]) - 2) + "`"


def anchors(page: Path) -> set[str]:
    """What `#…` links to the headings of a page look like."""
    seen: Counter[str] = Counter()
    found = set()
    for line in prose(page).splitlines():
        if heading := _HEADING.match(line):
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1])
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
            seen[slug] += 1
    return found


def code_words(text: str) -> set[str]:
    """Everything that a page writes as `code` outside of blocks."""
    return {each[1:-1] for each in _CODE.findall(text)}
