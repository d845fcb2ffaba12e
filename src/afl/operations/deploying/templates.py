"""Templates: files in their own language, with `$names` for what follows from the options.

A line that is nothing but a `$name` whose value is a list stands for as many lines as the list
has, indented as it is: none, if it is empty.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from string import Template

Value = str | int | float | Sequence[str]

_WHOLE_LINE = re.compile(r"(?P<indent> *)\$(?P<name>\w+)")


def filled(name: str, values: Mapping[str, Value]) -> str:
    """A template of this package with these values. Raises KeyError if one is missing."""
    text = (files(__package__) / "templates" / name).read_text(encoding="utf-8")
    return "".join(f"{line}\n" for each in text.splitlines() for line in _lines(each, values))


def _lines(line: str, values: Mapping[str, Value]) -> Iterator[str]:
    whole = _WHOLE_LINE.fullmatch(line)
    if whole is None or isinstance(values[whole["name"]], str | int | float):
        yield Template(line).substitute(values)
        return
    several = values[whole["name"]]
    assert isinstance(several, Sequence)
    yield from (f"{whole['indent']}{each}" for each in several)


def words(values: Sequence[str]) -> str:
    """A list of texts as JSON has it, which YAML, HCL and Dockerfiles have too."""
    return json.dumps(list(values))
