"""Who may do what: bearer tokens, each with a name and a role."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from afl.errors import ConfigurationError

_SHORTEST_SECRET = 16
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
_NAMES_OF_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Role(StrEnum):
    #: Submits turns; sees, answers and cancels its own.
    CALLER = "caller"
    #: Looks at all turns, and changes nothing.
    READER = "reader"
    #: Everything, on all turns, with what is inside of them.
    OPERATOR = "operator"


class Right(StrEnum):
    SUBMIT = "submit"
    #: At its own turns; with ALL, at those of others.
    LOOK = "look"
    ACT = "act"
    ALL = "all"
    #: Arguments and results of tools, memory, notes.
    INSIDE = "inside"


RIGHTS: Mapping[Role, frozenset[Right]] = {
    Role.CALLER: frozenset({Right.SUBMIT, Right.LOOK, Right.ACT}),
    Role.READER: frozenset({Right.LOOK, Right.ALL}),
    Role.OPERATOR: frozenset(Right),
}


@dataclass(frozen=True)
class Token:
    """Turns belong to the name: two tokens of one name are two keys to the same turns, so that
    they can be rotated. Raises ConfigurationError."""

    secret: str = field(repr=False)
    name: str = "operator"
    role: Role = Role.OPERATOR

    def __post_init__(self) -> None:
        if len(self.secret) < _SHORTEST_SECRET or not self.secret.isascii():
            raise ConfigurationError(
                f"the token {self.name!r} can be guessed; give it at least {_SHORTEST_SECRET} "
                "random letters, as `python -c 'import secrets; print(secrets.token_urlsafe())'` "
                "prints them"
            )
        if not _NAME.fullmatch(self.name):
            raise ConfigurationError(
                f"{self.name!r} is no name of a token; use letters, digits, _, . and -"
            )


@dataclass(frozen=True)
class Visitor:
    """Who asks."""

    name: str
    role: Role

    def may(self, *rights: Right) -> bool:
        return RIGHTS[self.role].issuperset(rights)

    def owns(self, key: str | None) -> bool:
        return key is not None and key.startswith(key_prefix(self.name))


#: Without tokens, whoever reaches the machine itself may do everything.
LOCAL = Visitor("local", Role.OPERATOR)


def key_prefix(name: str) -> str:
    """Keys of turns begin with it: two callers never meet under the same key, and whose a turn is
    can be seen from its record."""
    return f"http:{name}:"


class Access:
    """All tokens; without any, everybody is `LOCAL`."""

    def __init__(self, tokens: Sequence[Token] = ()) -> None:
        self._tokens = [(_digest(each.secret), Visitor(each.name, each.role)) for each in tokens]
        self._require_one_role()

    @property
    def is_open(self) -> bool:
        return not self._tokens

    def visitor(self, authorization: str) -> Visitor | None:
        """None if this is no token of ours."""
        if self.is_open:
            return LOCAL
        scheme, _, secret = authorization.partition(" ")
        given = _digest(secret.strip())
        # All of them, whichever fits: how long it takes must tell nothing.
        fits = [who for known, who in self._tokens if hmac.compare_digest(known, given)]
        return fits[0] if fits and scheme.lower() == "bearer" else None

    def _require_one_role(self) -> None:
        roles: dict[str, Role] = {}
        for _, each in self._tokens:
            if roles.setdefault(each.name, each.role) is not each.role:
                raise ConfigurationError(
                    f"the tokens called {each.name!r} have two roles; give them two names"
                )


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    if host in _NAMES_OF_LOOPBACK:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(header: str) -> str:
    """Without the port."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


def _digest(secret: str) -> bytes:
    """Of one length, so that comparing tells nothing about that either."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()
