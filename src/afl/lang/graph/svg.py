"""A workflow as one self-contained SVG: no scripts, no fonts, nothing fetched.

Each node is a group with `data-key` and its kind as a class, so a page can find the step of a run
and colour it by adding `state-…`; `to_svg` does the same for states it is given. Texts that do
not fit are cut, and stand in full in a tooltip.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from math import ceil
from xml.sax.saxutils import escape, quoteattr

from afl.lang.graph.elements import Cluster, EdgeKind, Graph, Node, NodeKind
from afl.lang.graph.geometry import Box, Layout, Point, Route
from afl.lang.graph.layout import MARGIN, lay_out
from afl.lang.graph.measure import shortened, text_width
from afl.lang.graph.placement import PADDING
from afl.lang.graph.style import ICONS, stylesheet

_LABEL, _SUMMARY, _MARK, _TITLE, _LEGEND = 13.0, 11.0, 9.5, 11.5, 10.5
_NARROWEST, _WIDEST = 128.0, 236.0
_WIDEST_TITLE = 300.0
#: Left of the text: the icon and the room around it.
_ICON_ROOM = 40.0
_SIDE = 14.0
_TAG_ROOM = 40.0
_HEIGHT, _MARKS_HEIGHT = 50.0, 20.0
_CHIP_PADDING, _CHIP_GAP = 6.0, 5.0
_HEAD = 7.0
#: Kinds with round ends.
_ROUND = (NodeKind.YIELD, NodeKind.INPUT, NodeKind.OUTPUT)

#: What XML cannot hold, not even escaped.
_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_LEGEND_WORDS: dict[NodeKind, str] = {
    NodeKind.EVENT: "event facet: done by a handler",
    NodeKind.FACET: "facet",
    NodeKind.WORKFLOW: "workflow",
    NodeKind.SCHEMA: "schema",
    NodeKind.SCRIPT: "script",
    NodeKind.YIELD: "yield",
    NodeKind.UNKNOWN: "not declared",
}


def to_svg(graph: Graph, *, states: Mapping[str, str] | None = None) -> str:
    """The picture as text. `states` maps keys of nodes to names of states."""
    layout = lay_out(graph, _size, _title_width)
    legend = list(_legend(graph, layout))
    width = max(layout.width, *(right for _, right, _ in legend), 2 * MARGIN)
    height = layout.height + max((row for row, _, _ in legend), default=0.0)
    body = [
        *(_cluster(each, layout) for each in graph.clusters),
        *(_route(each) for each in layout.routes),
        *(_caption(each, layout) for each in graph.clusters),
        *(
            _node(each, layout.nodes[each.key], (states or {}).get(each.key))
            for each in graph.nodes
        ),
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="afl-graph" role="img" '
            f"aria-label={_attr(graph.name)} "
            f'width="{_n(width)}" height="{_n(height)}" viewBox="0 0 {_n(width)} {_n(height)}">',
            f"<title>{_text(graph.name)}</title>",
            f"<desc>{_text(_description(graph))}</desc>",
            f"<style>\n{stylesheet()}\n</style>",
            _heads(),
            f'<rect class="paper" width="{_n(width)}" height="{_n(height)}"/>',
            *body,
            f'<g class="legend" aria-hidden="true" transform="translate(0 {_n(layout.height)})">',
            *(text for _, _, text in legend),
            "</g>",
            "</svg>",
            "",
        ]
    )


def state_class(state: str) -> str:
    """The CSS class of a state: `state-` and its name in small letters and dashes."""
    return "state-" + re.sub(r"[^a-z0-9]+", "-", state.lower()).strip("-")


# Sizes


def _size(node: Node) -> tuple[float, float]:
    label = text_width(node.label, _LABEL, bold=True) + _tag_room(node)
    widest = max(label, text_width(node.summary, _SUMMARY), _marks_width(node))
    width = min(_WIDEST, max(_NARROWEST, _ICON_ROOM + widest + _SIDE))
    return 4 * ceil(width / 4), _HEIGHT + (_MARKS_HEIGHT if node.marks else 0)


def _tag_room(node: Node) -> float:
    return _TAG_ROOM if node.kind is NodeKind.EVENT else 0.0


def _marks_width(node: Node) -> float:
    return sum(_chip_width(each) + _CHIP_GAP for each in node.marks)


def _chip_width(mark: str) -> float:
    return text_width(mark, _MARK) + 2 * _CHIP_PADDING


def _title_width(cluster: Cluster) -> float:
    return min(_WIDEST_TITLE, text_width(cluster.title, _TITLE, bold=True))


# Nodes


def _node(node: Node, box: Box, state: str | None) -> str:
    classes = f"node {node.kind}" + (f" {state_class(state)}" if state else "")
    parts = [
        f"<g class={_attr(classes)} data-key={_attr(node.key)} "
        f'transform="translate({_n(box.left)} {_n(box.top)})">',
        f"<title>{_text(_tooltip(node, state))}</title>",
        _shape(node, box),
        _icon(node.kind, 13, 17),
        *_texts(node, box),
        _dot(node, box),
        "</g>",
    ]
    return "".join(parts)


def _tooltip(node: Node, state: str | None) -> str:
    what = "" if node.kind in (NodeKind.INPUT, NodeKind.OUTPUT) else f"{node.kind} {node.target}"
    lines = [node.text or node.label, what, f"state: {state}" if state else ""]
    return "\n".join(each for each in lines if each)


def _dot(node: Node, box: Box) -> str:
    """The sign of a state, on the outline; shown only when the node has one."""
    inset = box.height * 0.15 if node.kind in _ROUND else 1.0
    return f'<circle class="dot" cx="{_n(box.width - inset)}" cy="{_n(inset)}" r="6"/>'


def _shape(node: Node, box: Box) -> str:
    radius = 3.0 if node.kind is NodeKind.SCHEMA else 9.0
    if node.kind in _ROUND:
        radius = box.height / 2
    shape = _rect("box", 0, 0, box.width, box.height, radius)
    if node.kind is NodeKind.EVENT:
        shape += _rect("inner", 3, 3, box.width - 6, box.height - 6, radius - 2.5)
    if node.kind is NodeKind.WORKFLOW:
        # A second card behind it: there is more inside.
        shape = _rect("box", 4, 4, box.width, box.height, radius) + shape
    return shape


def _texts(node: Node, box: Box) -> Iterator[str]:
    room = box.width - _ICON_ROOM - _SIDE
    label = shortened(node.label, _LABEL, room - _tag_room(node), bold=True)
    yield f'<text class="label" x="{_n(_ICON_ROOM)}" y="22">{_text(label)}</text>'
    summary = shortened(node.summary, _SUMMARY, room)
    yield f'<text class="summary" x="{_n(_ICON_ROOM)}" y="38">{_text(summary)}</text>'
    if node.kind is NodeKind.EVENT:
        x = _n(box.width - _SIDE + 2)
        yield f'<text class="tag" x="{x}" y="20" text-anchor="end">EVENT</text>'
    yield from _chips(node.marks, room)


def _chips(marks: Iterable[str], room: float) -> Iterator[str]:
    x = _ICON_ROOM
    for mark in marks:
        text = shortened(mark, _MARK, room - 2 * _CHIP_PADDING)
        width = _chip_width(text)
        yield _rect("chip", x, 45, width, 16, 8)
        yield f'<text class="mark" x="{_n(x + _CHIP_PADDING)}" y="56.5">{_text(text)}</text>'
        x += width + _CHIP_GAP


def _icon(kind: NodeKind, x: float, y: float) -> str:
    return f'<path class="icon" transform="translate({_n(x)} {_n(y)})" d="{ICONS[kind]}"/>'


# Clusters


def _cluster(cluster: Cluster, layout: Layout) -> str:
    box = layout.clusters[cluster.key]
    frame = _rect("frame", box.left, box.top, box.width, box.height, 12)
    return (
        f'<g class="cluster {cluster.kind}" data-key={_attr(cluster.key)}>'
        f"<title>{_text(cluster.title)}</title>{frame}</g>"
    )


def _caption(cluster: Cluster, layout: Layout) -> str:
    """Captions come after the arrows, which may pass below them."""
    box = layout.clusters[cluster.key]
    title = shortened(cluster.title, _TITLE, box.width - 2 * PADDING + 1, bold=True)
    x, y = _n(box.left + PADDING), _n(box.top + 21)
    text = f'<text class="title" x="{x}" y="{y}">{_text(title)}</text>'
    blank = layout.blanks.get(cluster.key)
    if blank is not None:
        x, y = _n(blank.middle), _n(blank.bottom - 8)
        text += f'<text class="blank" x="{x}" y="{y}" text-anchor="middle">nothing</text>'
    return f'<g class="{cluster.kind}" pointer-events="none">{text}</g>'


# Arrows


def _route(route: Route) -> str:
    kind = route.edge.kind
    return (
        f'<path class="edge {kind}" data-from={_attr(route.edge.source)} '
        f'data-to={_attr(route.edge.target)} d="{_path(route.points)}" '
        f'marker-end="url(#afl-head-{kind})"/>'
    )


def _path(points: tuple[Point, ...]) -> str:
    """Straight down in the rows, curves between them, ending where the arrowhead begins."""
    *others, (last_x, last_y) = points
    x, y = points[0]
    path = [f"M{_n(x)} {_n(y)}"]
    for next_x, next_y in [*others[1:], (last_x, last_y - _HEAD + 1)]:
        if next_x == x:
            path.append(f"V{_n(next_y)}")
        else:
            middle = (y + next_y) / 2
            path.append(
                f"C{_n(x)} {_n(middle)} {_n(next_x)} {_n(middle)} {_n(next_x)} {_n(next_y)}"
            )
        x, y = next_x, next_y
    return "".join(path)


def _heads() -> str:
    heads = "".join(
        f'<marker id="afl-head-{kind}" viewBox="0 0 8 8" refX="1" refY="4" '
        f'markerWidth="{_n(_HEAD)}" markerHeight="{_n(_HEAD)}" markerUnits="userSpaceOnUse" '
        f'orient="auto"><path class="head {kind}" d="M0 .5 8 4 0 7.5z"/></marker>'
        for kind in EdgeKind
    )
    return f"<defs>{heads}</defs>"


# Around the picture


def _description(graph: Graph) -> str:
    steps = [each for each in graph.nodes if each.kind not in (NodeKind.INPUT, NodeKind.OUTPUT)]
    events = sum(each.kind is NodeKind.EVENT for each in steps)
    names = ", ".join(each.label for each in steps[:40])
    return f"Workflow with {len(steps)} statements, {events} of them event facets: {names}"


def _legend(graph: Graph, layout: Layout) -> Iterator[tuple[float, float, str]]:
    """What the signs mean, as far as they are used: bottom, right end and text of each entry."""
    entries: list[tuple[str, str]] = [
        (f'<g class="node {kind}">{_icon(kind, 0, -12)}</g>', words)
        for kind, words in _LEGEND_WORDS.items()
        if any(each.kind is kind for each in graph.nodes)
    ]
    words_of_edges = {EdgeKind.DATA: "reads", EdgeKind.CONTROL: "starts"}
    entries += [
        (f'<path class="edge {kind}" d="M-4 -4H14" marker-end="url(#afl-head-{kind})"/>', words)
        for kind, words in words_of_edges.items()
        if any(each.kind is kind for each in graph.edges)
    ]
    x, y = MARGIN, 14.0
    for sign, words in entries:
        width = 26 + text_width(words, _LEGEND)
        if x > MARGIN and x + width > max(layout.width, 420.0):
            x, y = MARGIN, y + 22
        text = f'<text x="26" y="0">{_text(words)}</text>'
        place = f"translate({_n(x)} {_n(y)})"
        yield y + 20, x + width + MARGIN, f'<g transform="{place}">{sign}{text}</g>'
        x += width + 22


# Writing


def _rect(kind: str, x: float, y: float, width: float, height: float, radius: float) -> str:
    return (
        f'<rect class="{kind}" x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" '
        f'height="{_n(height)}" rx="{_n(radius)}"/>'
    )


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def _text(text: str) -> str:
    return escape(_UNWRITABLE.sub("\ufffd", text))


def _attr(text: str) -> str:
    return quoteattr(_UNWRITABLE.sub("\ufffd", text))
