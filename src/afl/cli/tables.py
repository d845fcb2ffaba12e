"""Tables and trees for people: decorated on a terminal, plain text elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from afl.ids import short_id

if TYPE_CHECKING:
    from afl.runtime.listing import Count

#: Longer values are cut.
_LONGEST = 60
_SECONDS_OF = {"d": 86400, "h": 3600, "m": 60, "s": 1}


def show_table(columns: Sequence[str], rows: Sequence[Sequence[str]], empty: str) -> None:
    """Print rows under their headings, or `empty` if there are none."""
    if not rows:
        typer.echo(empty)
    elif sys.stdout.isatty():
        _show_decorated(columns, rows)
    else:
        typer.echo("\n".join(plain_lines([columns, *rows])))


def plain_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows with their columns below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _show_decorated(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for number, each in enumerate(columns):
        # Short cells stay whole: an id on two lines can be neither read nor copied.
        is_short = all(row[number] == short_id(row[number]) for row in rows)
        table.add_column(each, overflow="fold", no_wrap=is_short)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # a cell is no markup, whatever it holds
    Console().print(table)


def show_facts(facts: Mapping[str, str]) -> None:
    """Print names with their values; those without a value are left out."""
    width = max(map(len, facts)) + 2
    for name, value in facts.items():
        if value:
            # Further lines stand below the first one.
            typer.echo(f"{name:<{width}}" + value.replace("\n", "\n" + " " * width))


# Cells


def short(identity: str) -> str:
    """An id as it is shown: whole where a program may read it."""
    return short_id(identity) if sys.stdout.isatty() else identity


def count_text(count: Count) -> str:
    """`12`, or `10,000+` where counting ended."""
    return f"{count.number:,}" + ("" if count.is_exact else "+")


def span(seconds: float) -> str:
    """A time span for people: its two largest units."""
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    rest = round(seconds)
    parts: list[str] = []
    for unit, length in _SECONDS_OF.items():
        count, rest = divmod(rest, length)
        if count or parts:
            parts.append(f"{count}{unit}" if count else "")
    return "".join(parts[:2])


def clock_time(time: datetime | None) -> str:
    """A moment in local time, without fractions."""
    return "" if time is None else time.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def message_of(error: Mapping[str, Any] | None) -> str:
    """What an error says, on one line."""
    return cut(str((error or {}).get("message", "")))


def cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def values(given: Mapping[str, Any]) -> str:
    """Inputs or outputs on one line: `n=1, text="hello"`."""
    from json import dumps

    shown = (f"{name}={dumps(value, ensure_ascii=False)}" for name, value in given.items())
    return cut(", ".join(shown))


def tree_lines(lines: Iterable[tuple[int, str]]) -> list[str]:
    """Lines with their depth, indented."""
    return [f"{'  ' * depth}{text}" for depth, text in lines]
