"""How values are written on pages."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from afl.runtime.listing import Count

_NOTHING = "—"
#: Longer values are cut; the API has them whole.
_LONGEST = 4000
#: What looks the same on a page. States that are not here are grey.
_TONES: dict[str, str] = {
    **dict.fromkeys(("completed", "done", "ready"), "good"),
    **dict.fromkeys(("running", "claimed", "accepted"), "busy"),
    **dict.fromkeys(("failed", "error", "dead_letter", "refused"), "bad"),
    **dict.fromkeys(
        (
            *("paused", "pending", "waiting", "created", "suspended", "mismatched", "startup"),
            *("silent", "init", "warmup", "drain"),
        ),
        "late",
    ),
}


def tone(state: str) -> str:
    return _TONES.get(state, "plain")


def when(time: datetime | None) -> Markup | str:
    """A time that a script makes humane; without one it is exact."""
    if time is None:
        return _NOTHING
    exact = time.astimezone(UTC)
    text = exact.strftime("%Y-%m-%d %H:%M:%S UTC")
    return Markup('<time datetime="{}" title="{}" data-ago>{}</time>').format(
        exact.isoformat(timespec="milliseconds"), text, text
    )


def moment_of(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)


def span(seconds: float) -> str:
    """`340 ms`, `1.2 s`, `3 min 4 s`, `2 h 5 min`, `3 d 4 h`."""
    if seconds < 1:
        return f"{round(seconds * 1000)} ms"
    if seconds < 60:
        return f"{seconds:.1f} s".replace(".0 ", " ")
    whole = round(seconds)
    for big, small, unit, part in ((60, 1, "min", "s"), (3600, 60, "h", "min")):
        if whole < big * (60 if big == 60 else 24):
            return f"{whole // big} {unit} {whole % big // small} {part}"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def took(started: datetime | None, ended: datetime | None) -> Markup | str:
    """How long something took; a script counts on while it goes on."""
    if started is None:
        return _NOTHING
    if ended is not None:
        return span(max((ended - started).total_seconds(), 0))
    return Markup('<time datetime="{}" data-since>…</time>').format(
        started.isoformat(timespec="milliseconds")
    )


def number(value: int | Count) -> str:
    """`12,345`, or `10,000+` if nobody counted on."""
    if isinstance(value, Count):
        return f"{value.number:,}" + ("" if value.is_exact else "+")
    return f"{value:,}"


def json_text(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def shown(value: Any) -> str:
    """A value as JSON, cut."""
    text = json_text(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


def brief(value: Any, limit: int = 80) -> str:
    """In one line, cut."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[:limit]}…"


def tail(text: str, limit: int = 40) -> str:
    """The end of a path, where its name is."""
    return text if len(text) <= limit else f"…\N{WORD JOINER}{text[-limit:]}"


def last_part(name: str) -> str:
    """`Checkout` of `shop.Checkout`."""
    return name.rpartition(".")[2]
