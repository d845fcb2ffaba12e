"""Addresses of PostgreSQL: what operators write, completed with what a long-lived client needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo

from afl.db.urls import is_readable
from afl.errors import ConfigurationError

#: Without these a connection whose other end is gone is noticed after hours. Those in a URL win.
_DEFAULTS = {
    "connect_timeout": "5",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
    "application_name": "afl",
}


def connection_info(url: str) -> str:
    """Raises ConfigurationError for a URL that cannot be."""
    if not url.startswith(("postgresql:", "postgres:")):
        raise ConfigurationError(
            f"{url.partition(':')[0]}: is not the scheme of a PostgreSQL URL; expected "
            "postgresql://user:password@host:5432/database"
        )
    try:
        given = conninfo_to_dict(url) if is_readable(url) else None
    except psycopg.Error:
        given = None
    if given is None:
        # Not the error itself: what could not be read may be a piece of the password.
        raise ConfigurationError(
            f"the PostgreSQL URL cannot be read{_reason(url)}; expected "
            "postgresql://user:password@host:5432/database, with a number for the port, special "
            "characters of the password escaped (%2F for a slash), and options of libpq behind a "
            "question mark, if any (?sslmode=require&connect_timeout=5)"
        )
    _require_seconds(given)
    return make_conninfo("", **{**_DEFAULTS, **{key: str(each) for key, each in given.items()}})


def _reason(url: str) -> str:
    unknown = _unknown_option(url) if is_readable(url) else None
    return f": libpq knows no option {unknown!r}" if unknown else ""


def _unknown_option(url: str) -> str | None:
    """The first one, unless it may be a piece of a secret, with a `?` or `&` that is not escaped:
    so may be what has an `@` behind it, and what comes behind a secret among the options."""
    query = url.partition("?")[2]
    if "@" in query:
        return None
    known = {each.keyword.decode() for each in Conninfo.get_defaults()} | {"ssl"}
    for each in query.split("&"):
        name, equals, _ = each.partition("=")
        if "password" in name or "secret" in name:
            return None
        if equals and name.isidentifier() and name not in known:
            return name
    return None


def _require_seconds(given: Mapping[str, Any]) -> None:
    """The driver reads this option by itself; all others are read, and refused, by libpq."""
    try:
        int(float(given.get("connect_timeout", 0)))
    except (ValueError, OverflowError):
        raise ConfigurationError(
            "the option connect_timeout of the PostgreSQL URL is no number of seconds"
        ) from None


def place_of(info: str) -> str:
    """Where it is, for people, without secrets. Options count: they may name other tables."""
    parts = conninfo_to_dict(info)
    host, port = parts.get("host") or "localhost", parts.get("port") or 5432
    place = f"postgresql://{host}:{port}/{parts.get('dbname') or parts.get('user') or ''}"
    return f"{place}?options={options}" if (options := parts.get("options")) else place
