"""Addresses of MongoDB: what operators write, completed with what a long-lived client needs."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import pymongo
from pymongo.errors import ConfigurationError as DriverRefusal
from pymongo.errors import InvalidURI

from afl.errors import ConfigurationError

DEFAULT_URL = "mongodb://localhost:27017"
DEFAULT_DATABASE = "afl"

_SCHEMES = ("mongodb:", "mongodb+srv:")
#: Those in a URL win. Nobody hangs for long on a server that is gone: workers tell that they
#: cannot reach it, and try again.
_DEFAULTS: dict[str, Any] = {
    "appname": "afl",
    "connecttimeoutms": 5000,
    "serverselectiontimeoutms": 5000,
    "sockettimeoutms": 30_000,
}


class Address(NamedTuple):
    url: str
    #: The database that the URL names, if it does.
    database: str | None


def address_of(url: str) -> Address:
    """Raises ConfigurationError for what is no URL of MongoDB."""
    if not url.startswith(_SCHEMES):
        raise ConfigurationError(
            f"{url.partition(':')[0]}: is not the scheme of a MongoDB URL; expected "
            "mongodb://user:password@host:27017/database, or mongodb+srv://…"
        )
    return Address(url, urlsplit(url).path.strip("/") or None)


def connect(url: str) -> pymongo.MongoClient[dict[str, Any]]:
    """A client; that nobody answers there shows at the first call."""
    given = {name.lower() for name, _ in parse_qsl(urlsplit(url).query)}
    options = {name: each for name, each in _DEFAULTS.items() if name not in given}
    try:
        return pymongo.MongoClient(url, **options)
    except (InvalidURI, DriverRefusal, ValueError) as error:
        # Not the error itself: what could not be read may be a piece of the password.
        raise ConfigurationError(
            "the MongoDB URL cannot be read; expected mongodb://user:password@host:27017/database, "
            "with special characters of user and password escaped (%2F for a slash), and only "
            f"options that the driver knows ({type(error).__name__})"
        ) from None


def place_of(client: pymongo.MongoClient[dict[str, Any]], database: str) -> str:
    """Where it is, for people, without secrets."""
    seeds = client.topology_description.server_descriptions()
    hosts = ",".join(f"{host}:{port}" for host, port in sorted(seeds, key=str))
    return f"mongodb://{hosts}/{database}"
