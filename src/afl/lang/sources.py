"""Where AFL texts come from: strings, files, folders, libraries, stores.

- A source is a text with an origin; its `source_id` is what nodes and diagnostics carry.
- A `SourceStore` is asked for the namespaces that a program uses but does not declare.
  `FolderLibrary` is the one on disk; a store of published sources implements the same port.

Nothing here reads the language beyond finding `namespace` headers; that is the parser's job.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from afl.errors import UsageError
from afl.lang import codes
from afl.lang.ast import SourceLocation
from afl.lang.diagnostics import Diagnostic, ParseError
from afl.lang.trivia import code_only

SUFFIX = ".afl"


class SourceError(UsageError):
    """A source cannot be read: it does not exist, or there is no AFL in it."""


class Origin(Protocol):
    """Where a text was found."""

    def to_source_id(self) -> str: ...

    def to_provenance(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class FileOrigin:
    path: str

    def to_source_id(self) -> str:
        return f"file://{self.path}"

    def to_provenance(self) -> dict[str, Any]:
        return {"type": "file", "path": self.path}


@dataclass(frozen=True)
class MongoDBOrigin:
    """A source kept in a store's collection of flows."""

    collection_id: str
    display_name: str

    def to_source_id(self) -> str:
        return f"mongodb://{self.collection_id}/{self.display_name}"

    def to_provenance(self) -> dict[str, Any]:
        return {
            "type": "mongodb",
            "collectionId": self.collection_id,
            "displayName": self.display_name,
        }


@dataclass(frozen=True)
class TextOrigin:
    """A text handed over by a caller, under a name of the caller's or none."""

    name: str

    def to_source_id(self) -> str:
        return self.name

    def to_provenance(self) -> dict[str, Any]:
        return {"type": "text", "name": self.name}


@dataclass(frozen=True)
class SourceEntry:
    text: str
    origin: Origin
    is_library: bool = False

    @property
    def source_id(self) -> str:
        return self.origin.to_source_id()


@dataclass(frozen=True)
class CompilerInput:
    """What to compile: the texts asked for, and those they lean on."""

    primary_sources: Sequence[SourceEntry] = ()
    library_sources: Sequence[SourceEntry] = ()

    @property
    def all_sources(self) -> list[SourceEntry]:
        return [*self.primary_sources, *self.library_sources]


@dataclass
class SourceRegistry:
    """Sources by their ids: for drawing diagnostics and for provenance."""

    sources: dict[str, SourceEntry] = field(default_factory=dict)

    @classmethod
    def from_compiler_input(cls, compiler_input: CompilerInput) -> SourceRegistry:
        registry = cls()
        for entry in compiler_input.all_sources:
            registry.register_entry(entry)
        return registry

    def register(self, source_id: str, entry: SourceEntry) -> None:
        self.sources[source_id] = entry

    def register_entry(self, entry: SourceEntry) -> None:
        self.register(entry.source_id, entry)

    def get(self, source_id: str) -> SourceEntry | None:
        return self.sources.get(source_id)

    def texts(self) -> Mapping[str, str]:
        return {source_id: entry.text for source_id, entry in self.sources.items()}


class SourceStore(Protocol):
    """Knows texts by the namespaces they declare."""

    def find_namespace(self, name: str) -> Sequence[SourceEntry]:
        """Every source that declares something in namespace `name`; none if it is unknown."""
        ...


_NAMESPACE = re.compile(r"\bnamespace\s+([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)")


def declared_namespaces(text: str) -> set[str]:
    """The namespaces that a text declares, also if it cannot be parsed."""
    return set(_NAMESPACE.findall(code_only(text)))


class FolderLibrary:
    """Files and folders as a library. Searched when first asked, and then once."""

    def __init__(self, paths: Iterable[str | Path]) -> None:
        self._paths = [Path(each) for each in paths]

    def find_namespace(self, name: str) -> Sequence[SourceEntry]:
        return load_files(self._index.get(name, []), is_library=True)

    def namespaces(self) -> list[str]:
        return sorted(self._index)

    @cached_property
    def _index(self) -> dict[str, list[Path]]:
        """Files by namespace. A file that is no text matters only to who needs it."""
        index: dict[str, list[Path]] = {}
        for file in [each for path in self._paths for each in find_files(path)]:
            text = read_bytes(file).decode("utf-8", errors="replace")
            for name in declared_namespaces(text):
                index.setdefault(name, []).append(file)
        return index


def load_files(paths: Iterable[str | Path], *, is_library: bool = False) -> list[SourceEntry]:
    """The AFL files named by `paths`, folders searched, each file once.

    Raises SourceError for a path that is not there or has no AFL, ParseError for a file that is
    no text.
    """
    entries: dict[Path, SourceEntry] = {}
    for path in paths:
        for file in find_files(Path(path)):
            key = file.resolve()
            if key not in entries:
                entries[key] = SourceEntry(read_file(file), FileOrigin(str(file)), is_library)
    return list(entries.values())


def find_files(path: Path) -> list[Path]:
    """The file itself, or all AFL files below a folder in a fixed order."""
    if not path.is_dir():
        return [path]
    found = sorted(each for each in path.rglob(f"*{SUFFIX}") if each.is_file())
    if not found:
        raise SourceError(f"No {SUFFIX} files in folder: {path}")
    return found


def read_file(path: Path) -> str:
    """The text of a file, its line ends untouched."""
    return decode(read_bytes(path), FileOrigin(str(path)).to_source_id())


def read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise SourceError(f"File not found: {path}") from None
    except OSError as problem:
        raise SourceError(f"Cannot read {path}: {problem.strerror}") from None


def decode(data: bytes, source_id: str | None) -> str:
    """Bytes as UTF-8 text. Raises ParseError that says where they are none."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as problem:
        before = data[: problem.start]
        line = before.count(b"\n") + 1
        column = problem.start - before.rfind(b"\n")
        place = SourceLocation(line, column, line, column + 1, source_id)
        message = f"This is not UTF-8 text: byte {problem.start} is 0x{data[problem.start]:02x}"
        hint = "AFL files are UTF-8; convert this one, or name another file"
        raise ParseError([Diagnostic.of(codes.NOT_TEXT, message, place, hint)]) from None
