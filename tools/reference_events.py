"""The reference page of the telemetry events, made from their list."""

from __future__ import annotations

from afl.telemetry import EVENTS, Event

_HEAD = """\
# Events

Generated from the list in `afl.telemetry`; do not edit.

Everything that happens is told as one of these events. Logs, metrics and traces are made from
them, and a program can listen with `afl.telemetry.subscribe`.
"""


def events_markdown() -> str:
    """The full text of docs/reference/events.md."""
    overview = ["| event | severity | meaning |", "| --- | --- | --- |"]
    overview += [f"| `{each.name}` | {each.severity} | {each.meaning()} |" for each in EVENTS]
    return "\n".join([_HEAD, *overview, "", *(_section(each) for each in EVENTS)])


def _section(kind: type[Event]) -> str:
    rows = ["| field | type | holds |", "| --- | --- | --- |"]
    for name, (type_name, meaning) in kind.field_meanings().items():
        rows.append(
            f"| `{name}` | `{type_name}` | {meaning} |".replace("str | None", "str \\| None")
        )
    return "\n".join([f"## `{kind.name}`", "", kind.meaning(), "", *rows, ""])
