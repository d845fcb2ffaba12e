"""Whether a module that somebody names from afar is where handlers may be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from afl.errors import UsageError
from afl.runtime.handler_modules import Places
from afl.runtime.registrations import allowed_places

_FILE = "file://"


def require_place(module: str, places: Sequence[Path] = ()) -> None:
    """Raise UsageError for a file outside of the working directory and of `places`, before anybody
    looks whether it is there: that is nobody's business. Dotted modules are found by workers."""
    is_uri = module.startswith(_FILE)
    if not (is_uri or "/" in module or module.endswith(".py")):
        return
    try:
        named = Path(unquote(urlsplit(module).path)) if is_uri else Path(module).expanduser()
        path = named.resolve()
    except (ValueError, RuntimeError, OSError):
        raise UsageError("this is no path of a file") from None
    Places(allowed_places(places)).of(path)
