"""The prelude of the language as it is compiled: what `afl.lang.names.prelude` reads."""

from __future__ import annotations

from importlib.resources import files

from afl.lang.emitter import JSONEmitter
from afl.lang.parser import parse


def prelude_json() -> str:
    """The full text of src/afl/lang/prelude.json."""
    text = files("afl.lang").joinpath("prelude.afl").read_text("utf-8")
    return JSONEmitter(indent=1).emit(parse(text, "<prelude>"))
