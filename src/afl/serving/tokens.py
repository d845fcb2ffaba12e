"""Who may use the turn API, as the settings say."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from afl.config import UNSET, ServeConfig
from afl.errors import ConfigurationError
from afl.gateway.access import Role, Token, is_loopback

_LINE = "NAME ROLE TOKEN, or a token alone"
#: Ends a line as well, where a text has one only: a word that is no name, no role and no token.
_END = ";"


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
    """One in each line, or several with ; between them; empty lines and those that begin with #
    say nothing. Raises ConfigurationError, which never shows a token; `offered` are the roles that
    it names."""
    found = tuple(
        _token(words, number, offered)
        for number, line in enumerate(text.splitlines(), start=1)
        for words in _said(line)
    )
    if not found:
        raise ConfigurationError(f"there are no tokens; expected lines with {_LINE}")
    return found


def _said(line: str) -> Iterator[list[str]]:
    """The words of each token."""
    words = line.split()
    if words and words[0].startswith("#"):
        return
    for is_end, part in groupby(words, key=lambda word: word == _END):
        if not is_end:
            yield list(part)


def _token(words: list[str], line: int, offered: Sequence[Role]) -> Token:
    if len(words) == 1:
        return Token(words[0])
    if len(words) != 3:
        raise ConfigurationError(
            f"line {line} of the tokens has {len(words)} words; expected {_LINE}, and ' {_END} ' "
            "between two in one line"
        )
    name, role, secret = words
    if role not in list(Role):
        raise ConfigurationError(
            f"line {line} of the tokens has no role that there is; expected {', '.join(offered)}"
        )
    return Token(secret, name, Role(role))
