"""Colours and icons of the SVG.

Every colour is written twice: plainly, for readers that know no custom properties, and as a
`var(--afl-…)` that the dark scheme or an embedding page can redefine. A page forces a scheme by
setting those properties on `.afl-graph`.
"""

from __future__ import annotations

from afl.lang.graph.elements import NodeKind

#: Names of colours with their light and dark values.
_COLOURS: dict[str, tuple[str, str]] = {
    "paper": ("#ffffff", "#0d1420"),
    "ink": ("#0f1b2d", "#e6ecf5"),
    "muted": ("#5b6b82", "#93a3ba"),
    "line": ("#64748b", "#8496b0"),
    "faint": ("#a3b1c6", "#56657d"),
    "card": ("#ffffff", "#172132"),
    "group": ("#f6f8fb", "#121b2a"),
    "frame": ("#d5dde8", "#2b3950"),
    "event": ("#c2570c", "#fb9a4b"),
    "event-tint": ("#fff4e8", "#2b1f14"),
    "facet": ("#5b6b82", "#93a3ba"),
    "facet-tint": ("#ffffff", "#172132"),
    "workflow": ("#2563c9", "#6ea8fe"),
    "workflow-tint": ("#edf4ff", "#14233d"),
    "schema": ("#1a7f45", "#56c98a"),
    "schema-tint": ("#eefaf2", "#12281d"),
    "script": ("#6d42c7", "#b196f5"),
    "script-tint": ("#f5f1fe", "#211a36"),
    "yield": ("#0d7c7c", "#4cc9c4"),
    "yield-tint": ("#ebf9f8", "#0f2829"),
    "input": ("#33415a", "#c4d0e2"),
    "input-tint": ("#e9eef5", "#222e42"),
    "unknown": ("#8a6d1f", "#d9b95c"),
    "unknown-tint": ("#fffdf3", "#242013"),
    "caught": ("#b4303c", "#f0808a"),
    "caught-tint": ("#fdf4f4", "#231519"),
    "running": ("#2563c9", "#6ea8fe"),
    "done": ("#1a7f45", "#56c98a"),
    "failed": ("#c62835", "#f26d78"),
    "waiting": ("#a86400", "#f0b64a"),
}
_COLOURS["output"], _COLOURS["output-tint"] = _COLOURS["input"], _COLOURS["input-tint"]

#: Outlines in a square of 16.
ICONS: dict[NodeKind, str] = {
    NodeKind.EVENT: "M9.2 1.5 3.5 9h3.6l-.5 5.5L12.5 7H8.8z",
    NodeKind.FACET: "M8 2 13.2 5v6L8 14 2.8 11V5zM2.8 5 8 8l5.2-3M8 8v6",
    NodeKind.WORKFLOW: "M2 2.5h5v4H2zM9 9.5h5v4H9zM4.5 6.5v5H9",
    NodeKind.SCHEMA: "M6 2C3.5 2 5 7 2.5 8 5 9 3.5 14 6 14M10 2c2.5 0 1 5 3.5 6-2.5 1-1 6-3.5 6",
    NodeKind.SCRIPT: "M2.5 4 6.5 8l-4 4M8 12.5h5.5",
    NodeKind.YIELD: "M13 2.5v6H4M7.5 5 4 8.5 7.5 12",
    NodeKind.INPUT: "M4.5 2.5 12.5 8l-8 5.5z",
    NodeKind.OUTPUT: "M4 14V2.5h8.5L10.5 6l2 3.5H4",
    NodeKind.UNKNOWN: "M5.3 5.6C5.3 1.6 11 2 11 5.6 11 8 8 7.8 8 10.3M8 13v.6",
}
_SOLID = (NodeKind.EVENT, NodeKind.INPUT)

#: Words for a state that look the same.
_STATES = {
    "running": ("running", "claimed"),
    "done": ("done", "complete", "completed", "succeeded"),
    "failed": ("failed", "error", "errored"),
    "waiting": ("waiting", "blocked", "paused", "retrying"),
}


def stylesheet() -> str:
    """The rules of the picture, all below `.afl-graph` so that a page can embed it."""
    return "\n".join([_scheme(), *_rules()])


def _scheme() -> str:
    light = "".join(f"--afl-{name}:{value};" for name, (value, _) in _COLOURS.items())
    dark = "".join(f"--afl-{name}:{value};" for name, (_, value) in _COLOURS.items())
    return f".afl-graph{{{light}}}\n@media (prefers-color-scheme:dark){{.afl-graph{{{dark}}}}}"


def _rules() -> list[str]:
    rules = [
        _rule(
            "text", "font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif", fill="ink"
        ),
        _rule(".paper", fill="paper"),
        _rule(".box", "stroke-width:1.25", fill="facet-tint", stroke="faint"),
        _rule(".inner", "fill:none;stroke-width:1;opacity:.55", stroke="event"),
        _rule(".icon", "fill:none;stroke-width:1.4;stroke-linecap:round;stroke-linejoin:round"),
        _rule(".label", "font-size:13px;font-weight:600"),
        _rule(".summary", "font-size:11px", fill="muted"),
        _rule(".tag", "font-size:8.5px;font-weight:700;letter-spacing:.6px", fill="event"),
        _rule(".chip", "stroke-width:1", fill="card", stroke="frame"),
        _rule(".mark", "font-size:9.5px", fill="muted"),
        _rule(".frame", "stroke-width:1", fill="group", stroke="frame"),
        _rule(".case>.frame", fill="card", stroke="frame"),
        _rule(".foreach>.frame", "stroke-width:1.5", stroke="faint"),
        _rule(".body>.frame", "stroke-dasharray:2 3", stroke="faint"),
        _rule(".catch>.frame", "stroke-dasharray:5 4", fill="caught-tint", stroke="caught"),
        # An outline in the colour of the ground keeps captions readable where arrows pass.
        _rule(
            ".title",
            "font-size:11.5px;font-weight:600;paint-order:stroke;stroke-width:4",
            fill="muted",
            stroke="group",
        ),
        _rule(".case>.title", stroke="card"),
        _rule(".catch>.title", fill="caught", stroke="caught-tint"),
        _rule(".blank", "font-size:11px;font-style:italic", fill="muted"),
        _rule(".edge", "fill:none;stroke-width:1.4", stroke="line"),
        _rule(".edge.control", "stroke-dasharray:4 4", stroke="faint"),
        _rule(".head", fill="line"),
        _rule(".head.control", fill="faint"),
        _rule(".legend text", "font-size:10.5px", fill="muted"),
        _rule(".dot", "display:none;stroke-width:2", stroke="paper"),
    ]
    rules += [rule for kind in NodeKind for rule in _kind_rules(kind)]
    rules += [rule for colour, names in _STATES.items() for rule in _state_rules(colour, names)]
    rules.append(_rule(".state-skipped,.afl-graph .state-cancelled", "opacity:.45"))
    return rules


def _kind_rules(kind: NodeKind) -> list[str]:
    stroke = "fill" if kind in _SOLID else "stroke"
    extra = "stroke-dasharray:4 3" if kind is NodeKind.UNKNOWN else ""
    return [
        _rule(f".{kind} .box", extra, fill=f"{kind}-tint", stroke=str(kind)),
        _rule(f".{kind} .icon", "stroke:none" if kind in _SOLID else "", **{stroke: str(kind)}),
    ]


def _state_rules(colour: str, names: tuple[str, ...]) -> list[str]:
    def every(part: str) -> str:
        return ",.afl-graph ".join(f".state-{name} {part}" for name in names)

    return [
        _rule(every(".box"), "stroke-width:2.25", stroke=colour),
        _rule(every(".dot"), "display:inline", fill=colour),
    ]


def _rule(selector: str, plain: str = "", **colours: str) -> str:
    """Colours come plainly first: who knows no `var` drops the second and keeps the first."""
    parts = [plain] if plain else []
    for name, colour in colours.items():
        parts.append(f"{name}:{_COLOURS[colour][0]};{name}:var(--afl-{colour})")
    return f".afl-graph {selector}{{{';'.join(parts)}}}"
