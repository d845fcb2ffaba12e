"""URLs of servers: mistakes that would show a password are found before anything is made of it."""

from __future__ import annotations

from urllib.parse import urlsplit


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
