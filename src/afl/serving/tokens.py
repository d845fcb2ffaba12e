"""Who may use the turn API, as the settings say."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from afl.config import UNSET, ServeConfig
from afl.errors import ConfigurationError
from afl.gateway.access import Role, Token, is_loopback

_LINE = "NAME ROLE TOKEN, or a token alone"


@dataclass(frozen=True)
class Admission:
    tokens: tuple[Token, ...]
    #: The one that nobody knows yet: show it, once.
    made: str | None = None


def admission(config: ServeConfig) -> Admission:
    """The tokens of the settings; a new one if there are none. Raises ConfigurationError."""
    if config.tokens != UNSET:
        return Admission(read_tokens(config.tokens))
    if not is_loopback(config.host):
        # Shown, it would stay in a log; and behind one address, each replica would have another.
        raise ConfigurationError(
            f"{config.host} is reached from outside, and nobody has a token. Give --token-file, "
            f"AFL_SERVE_TOKENS_FILE or AFL_SERVE_TOKENS, with a line for each: {_LINE}"
        )
    made = secrets.token_urlsafe(24)
    return Admission((Token(made),), made)


def read_tokens(text: str, offered: Sequence[Role] = tuple(Role)) -> tuple[Token, ...]:
    """One in each line; empty ones and those that begin with # say nothing. Raises
    ConfigurationError, which never shows a token; `offered` are the roles that it names."""
    lines = enumerate(text.splitlines(), start=1)
    found = tuple(_token(line.split(), number, offered) for number, line in lines if _says(line))
    if not found:
        raise ConfigurationError(f"there are no tokens; expected lines with {_LINE}")
    return found


def _says(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _token(words: list[str], line: int, offered: Sequence[Role]) -> Token:
    if len(words) == 1:
        return Token(words[0])
    if len(words) != 3:
        raise ConfigurationError(
            f"line {line} of the tokens has {len(words)} words; expected {_LINE}"
        )
    name, role, secret = words
    if role not in list(Role):
        raise ConfigurationError(
            f"line {line} of the tokens has no role that there is; expected {', '.join(offered)}"
        )
    return Token(secret, name, Role(role))
