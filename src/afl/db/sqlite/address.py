"""Addresses: from what the operator wrote to the one true path of a database file.

Nothing is opened and nothing is created here.
"""

from __future__ import annotations

import os
from pathlib import Path

from afl.db.urls import has_scheme
from afl.errors import ConfigurationError, UsageError

_FORMS = "expected sqlite:///relative/path.db or sqlite:////absolute/path.db"


def database_path(address: str | os.PathLike[str]) -> str:
    """The real path of the database at a URL or path.

    Raises ConfigurationError if the address is malformed, or names what cannot be a file.
    """
    text = os.fspath(address)
    path = _path_of_url(text) if isinstance(address, str) and has_scheme(text) else text
    if ":memory:" in path:
        raise ConfigurationError(
            f"{text!r}: a database in memory cannot be shared between threads and processes; "
            "use memory: for a store that lives as long as the process"
        )
    if not path or "\0" in path:
        raise ConfigurationError(f"{text!r} names no database file; {_FORMS}")
    real = os.path.realpath(path)
    _require_place(real)
    return real


def require_file(address: str | os.PathLike[str]) -> None:
    """Raise UsageError if no database is there yet: who only looks should not make one."""
    path = database_path(address)
    if not Path(path).exists():
        raise UsageError(
            f"there is no database {path}; check the folder and the name, or submit something to "
            "it first"
        )


def _path_of_url(url: str) -> str:
    scheme = url.partition(":")[0].lower()
    if scheme == "memory":
        raise ConfigurationError(f"{url!r} is a store in memory and has no file; {_FORMS}")
    if scheme != "sqlite":
        raise ConfigurationError(f"{url!r} is not the address of a SQLite database; {_FORMS}")
    rest = url.partition(":")[2]
    if not rest.startswith("///"):
        raise ConfigurationError(
            f"{url!r} needs three slashes after sqlite: and a path; {_FORMS}{_meant(rest)}"
        )
    if "?" in rest or "#" in rest:
        raise ConfigurationError(f"{url!r}: a sqlite: URL takes no options; {_FORMS}")
    return rest[3:]


def _meant(rest: str) -> str:
    path = rest.removeprefix("//")
    is_file = bool(path.strip("/")) and ":memory:" not in path
    return f"; did you mean sqlite:///{path}?" if is_file else ""


def _require_place(path: str) -> None:
    folder = Path(path).parent
    if not folder.is_dir():
        raise ConfigurationError(
            f"cannot make the database {path}: the folder {folder} does not exist; create it, "
            "or choose another place"
        )
    if Path(path).is_dir():
        raise ConfigurationError(f"{path} is a folder, not a database file; add a file name")
