"""URLs of databases: mistakes are found before anything is made of them, and before they could show
a password."""

from __future__ import annotations

import re
from collections.abc import Container
from urllib.parse import urlsplit

from afl.log import redact

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # two letters or more: C:\ is a drive
#: What people write → what it is called here.
_OTHER_NAMES = {"postgres": "postgresql", "sqlite3": "sqlite", "mongo": "mongodb"}


def has_scheme(url: str) -> bool:
    """Whether it begins with the name of a kind of place, as `sqlite:` is."""
    return _SCHEME.match(url) is not None


def hint(url: str, schemes: Container[str]) -> str:
    """What was probably meant by a text that is no URL with one of these schemes; or nothing."""
    if url in schemes:
        return f"; did you mean {url}:?"
    if not has_scheme(url):
        # What may hold a password is no name of a file, and is not for the screen.
        may_be_path = bool(url.strip()) and "@" not in url and redact(url) == url
        return f"; did you mean sqlite:///{url}?" if may_be_path and "sqlite" in schemes else ""
    meant = _OTHER_NAMES.get(url.partition(":")[0].lower())
    return f"; did you mean {meant}:?" if meant in schemes else ""


def is_readable(url: str) -> bool:
    """Whether it says what it seems to say.

    A slash in a password that is not escaped ends the part with the host: then the name of the
    user is taken for the host, and the password for the port and the path, which are shown.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return _has_many_hosts(url)
    return "@" not in parts.path


def _has_many_hosts(url: str) -> bool:
    """`host:1,other:2`, as PostgreSQL has them."""
    authority = url.partition("://")[2].partition("/")[0].rpartition("@")[2]
    hosts = authority.split(",")
    return len(hosts) > 1 and all(_is_port(each.rpartition("]")[2]) for each in hosts)


def _is_port(host: str) -> bool:
    _, colon, port = host.rpartition(":")
    return not colon or port.isdecimal()
