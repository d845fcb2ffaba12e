"""Who may do what: the operator acts, others look. Tokens are compared without telling how much
of a wrong one was right."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Self

from afl.errors import ConfigurationError

READ, OPERATE = "read", "operate"
#: Fewer characters can be guessed.
_SHORTEST = 16


@dataclass(frozen=True)
class Role:
    name: str
    scopes: tuple[str, ...]

    @property
    def may_act(self) -> bool:
        return OPERATE in self.scopes

    @property
    def sees_inside(self) -> bool:
        """Of turns: arguments and results of tools, memory, notes."""
        return self.may_act

    @classmethod
    def of_scopes(cls, scopes: Sequence[str]) -> Role:
        return OPERATOR if OPERATE in scopes else READER


OPERATOR = Role("operator", (READ, OPERATE))
READER = Role("reader", (READ,))


@dataclass(frozen=True, repr=False)
class Tokens:
    """The tokens of a server. None: nobody has that role."""

    operator: str | None = None
    reader: str | None = None
    #: Nobody may act, whichever token it is.
    is_read_only: bool = False

    @classmethod
    def made(cls) -> Self:
        return cls(secrets.token_urlsafe(32), secrets.token_urlsafe(32))

    @classmethod
    def read(cls, operator: Path | None, reader: Path | None) -> Self:
        """Those in files. Raises ConfigurationError for a file or token that cannot be used."""
        tokens = cls(_token_in(operator), _token_in(reader))
        if tokens.operator is not None and tokens.operator == tokens.reader:
            raise ConfigurationError(
                "--token-file and --read-token-file hold the same token; whoever looks could act"
            )
        return tokens

    @property
    def is_empty(self) -> bool:
        return self.operator is None and self.reader is None

    def role_of(self, token: str) -> Role | None:
        """Both are compared, whichever fits."""
        is_operator = _same(token, self.operator)
        is_reader = _same(token, self.reader)
        if is_operator and not self.is_read_only:
            return OPERATOR
        return READER if is_operator or is_reader else None


def _same(given: str, known: str | None) -> bool:
    return hmac.compare_digest(given.encode(), (known or "").encode()) and known is not None


def _token_in(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the token file {path} cannot be read: {error}") from None
    if len(token) < _SHORTEST or any(each.isspace() for each in token):
        raise ConfigurationError(
            f"the token file {path} must hold one token of at least {_SHORTEST} characters, such "
            "as `openssl rand -hex 32` makes"
        )
    return token


@dataclass(frozen=True)
class Address:
    """Where a server listens."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """`8080`, `0.0.0.0:8080` or `[::1]:8080`. Raises ConfigurationError."""
        host, _, port = text.rpartition(":")
        if not port.isascii() or not port.isdigit() or int(port) > 65535:
            raise ConfigurationError(f"--http {text}: expected PORT or HOST:PORT, such as 8080")
        return cls(host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port))

    @property
    def is_loopback(self) -> bool:
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/mcp"


def tokens_for(address: Address, given: Tokens) -> tuple[Tokens, bool]:
    """The tokens of a server there, and whether they were made here. Raises ConfigurationError if
    others could reach a server whose tokens nobody chose."""
    if not given.is_empty:
        return given, False
    if not address.is_loopback:
        raise ConfigurationError(
            f"{address.host} can be reached from elsewhere, so give the tokens: --token-file for "
            "who may act, --read-token-file for who may look; or leave the host out"
        )
    return Tokens.made(), True
