"""`afl config`: look at the settings this process would use.

Secrets are hidden; everything else is shown with its origin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from afl.cli.common import Json, settings

if TYPE_CHECKING:
    from afl.config import Entry

app = typer.Typer(name="config", help="Look at the settings.", no_args_is_help=True)


@app.callback()
def _config() -> None:
    """Look at the settings."""
    # Keeps `show` a command of its own: typer would run an only command without its name.


@app.command()
def show(
    context: typer.Context,
    json: Json = False,
) -> None:
    """Print each setting with its value and where it came from. Secrets are hidden."""
    entries = settings(context).entries()
    typer.echo(_as_json(entries) if json else _as_table(entries))


def _as_json(entries: tuple[Entry, ...]) -> str:
    from dataclasses import asdict
    from json import dumps

    return dumps([asdict(entry) for entry in entries], indent=2)


def _as_table(entries: tuple[Entry, ...]) -> str:
    from afl.cli.tables import plain_lines

    rows = [("setting", "value", "origin")]
    rows += [(entry.name, _as_text(entry.value), entry.origin) for entry in entries]
    return "\n".join(plain_lines(rows))


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ", ".join(value) or "(none)"
    return str(value)
