"""Addresses of PostgreSQL: what operators write, completed with what a long-lived client needs."""

from __future__ import annotations

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

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
            "the PostgreSQL URL cannot be read; expected "
            "postgresql://user:password@host:5432/database, with special characters of the "
            "password escaped (%2F for a slash)"
        )
    return make_conninfo("", **{**_DEFAULTS, **{key: str(each) for key, each in given.items()}})


def place_of(info: str) -> str:
    """Where it is, for people, without secrets. Options count: they may name other tables."""
    parts = conninfo_to_dict(info)
    host, port = parts.get("host") or "localhost", parts.get("port") or 5432
    place = f"postgresql://{host}:{port}/{parts.get('dbname') or parts.get('user') or ''}"
    return f"{place}?options={options}" if (options := parts.get("options")) else place
