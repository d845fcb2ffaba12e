"""Resume tokens: the signed right to let a turn go on, for a time.

A token is `v1.<payload>.<signature>`, in letters that need no escaping in URLs. It says nothing
that is secret, and nobody without a key can make or change one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from afl.clock import SYSTEM_CLOCK, Clock, now_ms
from afl.errors import ConfigurationError
from afl.turns.errors import InvalidToken

_VERSION = "v1"
_SHORTEST_KEY = 16
DEFAULT_TTL_S = 7 * 24 * 3600.0


class _Payload(msgspec.Struct, frozen=True):
    turn: str
    until: int


@dataclass(frozen=True)
class Tokens:
    """Makes and reads tokens. The first key signs; all are good, so keys can be rotated: put the
    new one first, and drop the old one after `ttl_s` seconds. Raises ConfigurationError for keys
    that anybody could guess."""

    keys: Sequence[bytes]
    ttl_s: float = DEFAULT_TTL_S
    clock: Clock = SYSTEM_CLOCK

    def __post_init__(self) -> None:
        if not self.keys or any(len(each) < _SHORTEST_KEY for each in self.keys):
            raise ConfigurationError(
                f"resume tokens need keys of at least {_SHORTEST_KEY} random bytes each"
            )
        if self.ttl_s <= 0:
            raise ConfigurationError(f"tokens that are good for {self.ttl_s} seconds are not")

    def issue(self, turn_id: str) -> str:
        until = now_ms(self.clock) + round(self.ttl_s * 1000)
        payload = _text(msgspec.json.encode(_Payload(turn_id, until)))
        return f"{_VERSION}.{payload}.{_signature(self.keys[0], payload).decode()}"

    def turn_id(self, token: str) -> str:
        """The turn that whoever has this token may let go on. Raises InvalidToken."""
        version, _, rest = token.partition(".")
        payload, _, signature = rest.partition(".")
        given = signature.encode("utf-8", "replace")
        # All of them, whichever fits: how long it takes must tell nothing.
        fits = [hmac.compare_digest(_signature(key, payload), given) for key in self.keys]
        if version != _VERSION or not any(fits):
            raise InvalidToken("this is no resume token of ours; use the last one that was given")
        read = msgspec.json.decode(_bytes(payload), type=_Payload)
        if read.until <= now_ms(self.clock):
            raise InvalidToken(
                f"the time of this token is over; ask an operator to resume turn {read.turn}"
            )
        return read.turn


def _signature(key: bytes, payload: str) -> bytes:
    """As text: a signature has many forms that decode to the same bytes, and one is enough."""
    signed = f"{_VERSION}.{payload}".encode("utf-8", "replace")
    return _text(hmac.new(key, signed, hashlib.sha256).digest()).encode()


def _text(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
