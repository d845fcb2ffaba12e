"""Modules of registered handlers: where they are, whether they may be loaded, and loading them.

- A module is found without running anything, and is loaded only from an allowed place.
- What runs is the text that was looked at: no bytecode of an older one, and with a checksum
  `sha256:…`, no other one.
- It is imported under its own name, as any module. Another checksum of the same module loads its
  text again under a private name beside it, so that whoever uses the old one goes on with it. What
  it imports is not loaded again.
- A file becomes a member of a package that stands for its folder, so `from . import neighbour`
  works; `__init__.py` files up to the allowed place are respected.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from afl.errors import UsageError
from afl.ids import stable_id
from afl.runtime.loading import make_importable

_FILE = "file:"
_SHA256 = re.compile(r"sha256:(?P<digest>[0-9a-f]{64})", re.IGNORECASE)
#: Below an allowed place, what is installed there is still not ours: see `Places`.
_INSTALLED = frozenset({"site-packages", "dist-packages"})


class ModuleRefused(UsageError):  # noqa: N818 - what happened is what callers read
    """A module that is not there, or must not be loaded."""


class Places:
    """The folders that code may be loaded from.

    Symbolic links and `..` are followed first. What is installed in a folder below (a virtual
    environment in a working directory) does not count, unless its own folder is listed.
    """

    def __init__(self, folders: Iterable[Path]) -> None:
        self.folders = tuple(dict.fromkeys(each.resolve() for each in folders))

    def of(self, path: Path) -> Path:
        """The place that a file is in. Raises ModuleRefused."""
        for place in self.folders:
            if path.is_relative_to(place) and _INSTALLED.isdisjoint(path.relative_to(place).parts):
                return place
        listed = ", ".join(map(str, self.folders))
        raise ModuleRefused(
            f"{path} is outside of the places that handlers may be loaded from ({listed}); add "
            "its folder to AFL_HANDLER_PATHS if you trust it"
        )


class Found(NamedTuple):
    """A module that may be loaded."""

    #: What it is called where it is imported.
    name: str
    path: Path
    is_package: bool


def checksum_of(text: bytes) -> str:
    return f"sha256:{sha256(text).hexdigest()}"


# Finding


def find(uri: str, places: Places) -> Found:
    """The module that a registration means. Runs nothing. Raises ModuleRefused."""
    if uri.startswith(_FILE):
        return _find_file(uri, places)
    if not all(part.isidentifier() for part in uri.split(".")) or uri.endswith(".py"):
        raise ModuleRefused(
            f"{uri!r} is no module; give a dotted name such as shop.handlers, or a file such as "
            "file:///srv/shop/handlers.py"
        )
    return _find_module(uri, places)


def _find_module(name: str, places: Places) -> Found:
    for place in reversed(places.folders):
        make_importable(place)
    spec: ModuleSpec | None = None
    path: list[str] | None = None
    for parent in _with_parents(name):
        spec = _spec_of(parent, path)
        if spec is None:
            raise ModuleRefused(f"there is no module {parent} in {_list(places)}")
        if spec.origin is not None:
            places.of(_source_of(spec))
        locations = spec.submodule_search_locations
        # As they are now: those of a folder are looked up again each time.
        path = None if locations is None else list(locations)
        if path is None and parent != name:
            raise ModuleRefused(f"{parent} is a module, no package: {name} cannot be in it")
    assert spec is not None
    if spec.origin is None:
        raise ModuleRefused(f"{name} is a folder without __init__.py; name a module in it")
    return Found(name, _source_of(spec), path is not None)


def _with_parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        yield ".".join(parts[:count])


def _spec_of(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """As an import would find it; `importlib.util.find_spec` would import its parents."""
    for finder in sys.meta_path:
        try:
            spec = finder.find_spec(name, path)
        except KeyError:
            # A folder in a folder, both without __init__.py, whose parent nobody has imported.
            # Where it is looked for is given, so it is found without it.
            spec = finder.find_spec(name.rpartition(".")[2], path)
        if spec is not None:
            return spec
    return None


def _source_of(spec: ModuleSpec) -> Path:
    if not spec.has_location or spec.origin is None or not spec.origin.endswith(".py"):
        raise ModuleRefused(f"{spec.name} is no Python source file ({spec.origin})")
    return Path(spec.origin).resolve()


def _find_file(uri: str, places: Places) -> Found:
    parts = urlsplit(uri)
    named = Path(unquote(parts.path))
    if parts.netloc not in ("", "localhost") or not named.is_absolute():
        raise ModuleRefused(f"{uri} has no absolute path; write file:///srv/shop/handlers.py")
    path = named.resolve()
    # Before anything is said about whether it is there: that is nobody's business elsewhere.
    place = places.of(path)
    if not path.is_file() or path.suffix != ".py":
        raise ModuleRefused(f"there is no Python file {path}")
    return _as_member(path, place)


def _as_member(path: Path, place: Path) -> Found:
    is_package = path.name == "__init__.py"
    folder, parts = path.parent, [] if is_package else [path.stem.replace(".", "_")]
    while folder != place and (folder / "__init__.py").is_file():
        folder, parts = folder.parent, [folder.name, *parts]
    return Found(".".join([_folder_package(folder), *parts]), path, is_package)


def _folder_package(folder: Path) -> str:
    """The package that stands for a folder, there to be imported from."""
    name = f"afl_handlers_{stable_id('handlers', f'{folder}/').replace('-', '')}"
    if name not in sys.modules:
        package = ModuleType(name)
        package.__path__ = [str(folder)]
        package.__spec__ = ModuleSpec(name, None, is_package=True)
        package.__spec__.submodule_search_locations = package.__path__
        sys.modules.setdefault(name, package)
    # As Python does for a script: `import neighbour` works, too.
    make_importable(folder)
    return name


def _list(places: Places) -> str:
    return ", ".join(map(str, places.folders))


# Loading


class Modules:
    """What was loaded in this process. Safe from any thread: who loads one text of a module waits
    for those who load the same, and for nobody else."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Path of the file → checksum → that text of it.
        self._versions: dict[Path, dict[str, _Version]] = {}

    def load(self, found: Found, checksum: str) -> ModuleType:
        """The module with the text that has this checksum; loaded once for each.

        Raises ModuleRefused, and whatever importing it raises.
        """
        with self._lock:
            versions = self._versions.setdefault(found.path, {})
            version = versions.setdefault(checksum, _Version())
        with version.lock:
            if version.module is None:
                version.module = self._import(found, checksum, version)
            return version.module

    def _import(self, found: Found, checksum: str, version: _Version) -> ModuleType:
        text = verified(found, checksum)
        with self._lock:
            others = [each for each in self._versions[found.path].values() if each is not version]
            is_only = not any(each.is_taken for each in others)
            version.is_taken = True
        try:
            return _imported(found, text, checksum, is_only=is_only)
        except BaseException:
            version.is_taken = False
            raise


class _Version:
    """One text of a module."""

    def __init__(self) -> None:
        # Reentrant: a module may load others while it is loaded, and those again this one.
        self.lock = threading.RLock()
        self.module: ModuleType | None = None
        #: Whether it is there, or on its way.
        self.is_taken = False


#: One for all: names of modules are shared by the whole process.
MODULES = Modules()


def verified(found: Found, checksum: str) -> bytes:
    """The text of a module. Raises ModuleRefused if it is not the one of a `sha256:…`."""
    text = found.path.read_bytes()
    if not checksum.lower().startswith("sha256:"):
        return text  # a mark of its author's, such as a version
    if not _SHA256.fullmatch(checksum):
        raise ModuleRefused(f"the checksum {checksum!r} is not sha256: and 64 hexadecimal digits")
    if checksum_of(text) != checksum.lower():
        raise ModuleRefused(
            f"{found.path} has the checksum {checksum_of(text)}, not {checksum}: it was changed, "
            "or is not the one that was registered"
        )
    return text


def _imported(found: Found, text: bytes, checksum: str, *, is_only: bool) -> ModuleType:
    """`is_only`: no other text of it is there, or on its way."""
    name = found.name
    there = sys.modules.get(name)
    # With a sha256, what is there is no proof of its text.
    will_do = is_only and not _SHA256.fullmatch(checksum)
    if there is not None and will_do and _is_from(there, found.path):
        return importlib.import_module(name)  # which waits, if it is not whole yet
    if there is not None or not is_only:
        parent, _, own = name.rpartition(".")
        mark = stable_id("handlers", str(found.path), checksum).replace("-", "")[:12]
        name = f"{parent}{'.' if parent else ''}_afl_{mark}_{own}"
    spec = importlib.util.spec_from_file_location(
        name,
        found.path,
        loader=_Text(found.path, text),
        submodule_search_locations=[str(found.path.parent)] if found.is_package else None,
    )
    assert spec is not None
    importlib.invalidate_caches()  # neighbours may be newer than the last look at their folder
    with _FINDER.finding(spec):
        return importlib.import_module(name)


def _is_from(module: ModuleType, path: Path) -> bool:
    origin = getattr(module, "__file__", None)
    return origin is not None and Path(origin).resolve() == path


class _Text(SourceLoader):
    """Loads a text that was read before; neither reads nor writes bytecode."""

    def __init__(self, path: Path, text: bytes) -> None:
        self._path = str(path)
        self._text = text

    def get_filename(self, fullname: str) -> str:  # noqa: ARG002 - it has only one
        return self._path

    def get_data(self, path: str) -> bytes:
        return self._text if path == self._path else Path(path).read_bytes()


class _Finder(MetaPathFinder):
    """Finds the modules that are being loaded here."""

    def __init__(self) -> None:
        self._specs: dict[str, ModuleSpec] = {}

    @contextmanager
    def finding(self, spec: ModuleSpec) -> Iterator[None]:
        """Find this one, in the block."""
        # Once and for all: who looks for a module on another thread might skip the finder behind
        # one that is taken out.
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)
        self._specs[spec.name] = spec
        try:
            yield
        finally:
            self._specs.pop(spec.name, None)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        return self._specs.get(fullname)


_FINDER = _Finder()
