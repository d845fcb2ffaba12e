"""Drivers of databases are imported when they are wanted, and may not be there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from afl.errors import ConfigurationError
from afl.log import redact

#: What an import may not find → the extra that brings it.
_EXTRAS = {
    "psycopg": "postgres",
    "psycopg_pool": "postgres",
    "pymongo": "mongo",
    "bson": "mongo",
    "redis": "redis",
}


@contextmanager
def driver_wanted(url: str) -> Iterator[None]:
    """Say how to install what an import did not find."""
    try:
        yield
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        raise ConfigurationError(
            f"{redact(url)!r} needs a driver that is not installed: pip install 'afl[{extra}]'"
        ) from error
