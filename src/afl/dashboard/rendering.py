"""Pages from templates, and the parts of them that are live."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from afl.dashboard import formats
from afl.ids import short_id
from afl.lang.graph.style import stylesheet

#: Blocks of templates that are sent again when they have changed.
_LIVE = "live_"

_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" '
    'rx="4" fill="#2563c9"/><path d="M4 4h3v3H4zM9 9h3v3H9zM5.5 7v3.5H9" fill="none" '
    'stroke="#fff" stroke-width="1.5"/></svg>'
)


@cache
def environment() -> Environment:
    """Everything that is put into a page is escaped; a name that is missing is an error."""
    found = Environment(
        loader=PackageLoader("afl.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for each in (
        *(formats.tone, formats.when, formats.moment_of, formats.span, formats.took),
        *(formats.number, formats.shown, formats.brief, formats.last_part),
        formats.tail,
    ):
        found.filters[each.__name__] = each
    found.filters["short"] = short_id
    found.globals["took"] = formats.took
    found.globals["asset"] = asset_name
    found.globals["ui"] = found.get_template("ui.html").module
    return found


def page(template: str, values: Mapping[str, Any]) -> str:
    return environment().get_template(template).render(values)


def live_parts(template: str, values: Mapping[str, Any]) -> dict[str, str]:
    """The live blocks of a page by their names."""
    found = environment().get_template(template)
    return {
        name: "".join(block(found.new_context(dict(values))))
        for name, block in found.blocks.items()
        if name.startswith(_LIVE)
    }


# Files that never change while the process lives


class Asset:
    """A file of the package, with the name under which browsers may keep it for ever."""

    def __init__(self, name: str, content: bytes, media_type: str) -> None:
        self.content = content
        self.packed = gzip.compress(content, mtime=0)
        self.media_type = media_type
        stem, _, kind = name.rpartition(".")
        self.name = f"{stem}.{hashlib.sha256(content).hexdigest()[:10]}.{kind}"


@cache
def assets() -> dict[str, Asset]:
    """By the names that templates use."""
    found = {
        "graph.css": Asset("graph.css", _graph_style().encode(), _TYPES[".css"]),
        "icon.svg": Asset("icon.svg", _ICON.encode(), "image/svg+xml"),
    }
    for each in files("afl.dashboard").joinpath("static").iterdir():
        kind = each.name[each.name.rfind(".") :]
        if kind in _TYPES:
            found[each.name] = Asset(each.name, each.read_bytes(), _TYPES[kind])
    return found


@cache
def assets_by_path() -> dict[str, Asset]:
    return {each.name: each for each in assets().values()}


def asset_name(name: str) -> str:
    return assets()[name].name


def _graph_style() -> str:
    """The style of pictures, with its two schemes also for who chose one by hand."""
    text = stylesheet()
    light, dark = text.splitlines()[:2]
    dark = dark.partition("{")[2].removesuffix("}")
    return "\n".join([text, f'[data-theme="light"] {light}', f'[data-theme="dark"] {dark}'])
