"""Who is signed in: a cookie that is signed with the token it was given for.

Nothing is kept here: any process that knows the token knows the session, and whoever changes the
token ends all sessions of it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass

from afl.clock import Clock
from afl.gateway.access import Role, Token, Visitor

COOKIE = "afl_session"
#: Seconds after which one has to sign in again.
LASTS_S = 12 * 3600
#: Who may come in at all: callers of the turn API may not.
WELCOME = (Role.OPERATOR, Role.READER)


@dataclass(frozen=True)
class Session:
    visitor: Visitor
    #: What every change has to bring along.
    csrf: str


class Sessions:
    """For the tokens of one dashboard."""

    def __init__(self, tokens: Sequence[Token], clock: Clock) -> None:
        self._tokens = {_short(each.secret): each for each in tokens if each.role in WELCOME}
        self._clock = clock

    def begin(self, secret: str) -> str | None:
        """The value of a cookie for who has this token; None if nobody has."""
        given = _short(secret.strip())
        # All of them, whichever fits: how long it takes must tell nothing.
        fits = [name for name in self._tokens if hmac.compare_digest(name, given)]
        if not fits:
            return None
        until = int(self._clock.now().timestamp()) + LASTS_S
        return f"{given}.{until}.{_signed(self._tokens[given], f'session.{until}')}"

    def session(self, cookie: str) -> Session | None:
        """Whose cookie it is; None if it is nobody's, or old."""
        name, _, rest = cookie.partition(".")
        until, _, mark = rest.partition(".")
        token = self._tokens.get(name)
        if token is None or not (until.isascii() and until.isdigit()):
            return None
        if not _same(mark, _signed(token, f"session.{until}")):
            return None
        if int(until) < self._clock.now().timestamp():
            return None
        return Session(Visitor(token.name, token.role), _signed(token, f"change.{cookie}"))


def is_csrf(session: Session, given: str) -> bool:
    return _same(given, session.csrf)


def _same(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode(), known.encode())


def _short(secret: str) -> str:
    """Names a token without telling it."""
    return hashlib.sha256(b"afl token " + secret.encode("utf-8", "replace")).hexdigest()[:16]


def _signed(token: Token, text: str) -> str:
    return hmac.new(token.secret.encode(), text.encode("utf-8", "replace"), "sha256").hexdigest()
