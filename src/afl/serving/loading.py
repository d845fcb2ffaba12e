"""From `module:name` or `file.py:name` to the app that is meant."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType

from afl.errors import UsageError
from afl.ids import stable_id
from afl.runtime.loading import make_importable
from afl.serving.app import App

#: What an app is called if nobody says.
DEFAULT_NAME = "app"
_FORMS = "give module:name or file.py:name"


def load_app(target: str) -> App:
    """Import a module or a file, and give the app in it; `app` if no name is given.

    Raises UsageError: it is not there, its code fails, or it is something else.
    """
    place, name = _split(target)
    module = _imported(place)
    found = getattr(module, name, None)
    if isinstance(found, App):
        return found
    known = [each for each, value in vars(module).items() if isinstance(value, App)]
    if found is None:
        close = difflib.get_close_matches(name, known, n=1)
        raise UsageError(f"{place} has no {name!r}{_hint(close or known)}")
    raise UsageError(
        f"{target}: {name!r} is of type {type(found).__name__}, and no afl.App{_hint(known)}"
    )


def _hint(known: list[str]) -> str:
    return f"; did you mean {known[0]}?" if known else "; make one there: app = afl.App()"


def _split(target: str) -> tuple[str, str]:
    # The drive of a Windows path is no name: a file ends with .py.
    place, is_named, name = target.rpartition(":")
    if not is_named or target.endswith(".py"):
        place, name = target, DEFAULT_NAME
    if not place or not name.isidentifier():
        raise UsageError(f"{target!r} names no app; {_FORMS}")
    return place, name


def _imported(place: str) -> ModuleType:
    is_file = place.endswith(".py") or "/" in place
    try:
        return _file(Path(place)) if is_file else _module(place)
    except _NotThere:
        raise
    except (Exception, SystemExit) as error:
        text = f"{type(error).__name__}: {error}".removesuffix(": ")
        raise UsageError(f"{place} cannot be imported: {_where(error)}{text}") from error


def _module(name: str) -> ModuleType:
    make_importable(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # A module that is there but misses another one says so by itself.
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise _NotThere(f"there is no module {name} here; {_FORMS}") from None


def _file(path: Path) -> ModuleType:
    if not path.is_file():
        raise _NotThere(f"there is no file {path}; {_FORMS}")
    path = path.resolve()
    # Private: a file called json.py must not become everybody's json.
    name = f"afl_app_{stable_id('app', str(path)).replace('-', '')}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise _NotThere(f"{path} is no Python file; {_FORMS}")
    make_importable(path.parent)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


class _NotThere(UsageError):  # noqa: N818 - never leaves this module as such
    """No code was run."""


def _where(error: BaseException) -> str:
    """The line of the user's code that it comes from."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}: "
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if not _is_of_others(each.filename)]
    return f"{own[-1].filename}, line {own[-1].lineno}: " if own else ""


def _is_of_others(file: str) -> bool:
    """Not written by whoever wrote the app: of Python, of a package, or of afl."""
    places = (str(Path(os.__file__).parent), str(Path(__file__).parents[1]), "<")
    return file.startswith(places) or "site-packages" in file or "dist-packages" in file
