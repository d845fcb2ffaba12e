"""What goes wrong, as RFC 9457 says it: `application/problem+json`, with a type for programs, and
a detail that tells people what to do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from afl.errors import NotFound, StoreClosed, StoreUnavailable, UsageError
from afl.turns.errors import (
    AlreadyAnswered,
    InvalidToken,
    KeyReused,
    NothingAsked,
    TurnBusy,
    TurnEnded,
    TurnNotFound,
)

MEDIA_TYPE = "application/problem+json"
_PREFIX = "urn:afl:problem:"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of problem; `name` ends its type."""

    name: str
    status: HTTPStatus
    title: str

    @property
    def type(self) -> str:
        return _PREFIX + self.name


BAD_JSON = Kind("not-json", HTTPStatus.BAD_REQUEST, "The body is no JSON")
BAD_PLACE = Kind("not-a-place", HTTPStatus.BAD_REQUEST, "This is no place in a stream")
UNAUTHORIZED = Kind("unauthorized", HTTPStatus.UNAUTHORIZED, "A token is needed")
FORBIDDEN = Kind("forbidden", HTTPStatus.FORBIDDEN, "This token may not do that")
BAD_TOKEN = Kind("invalid-resume-token", HTTPStatus.FORBIDDEN, "The resume token is not good")
NO_SUCH_PATH = Kind("no-such-path", HTTPStatus.NOT_FOUND, "There is nothing here")
NO_SUCH_TURN = Kind("no-such-turn", HTTPStatus.NOT_FOUND, "There is no such turn")
NO_SUCH_LOOP = Kind("no-such-loop", HTTPStatus.NOT_FOUND, "There is no such loop")
BAD_METHOD = Kind("method-not-allowed", HTTPStatus.METHOD_NOT_ALLOWED, "Not with this method")
TOO_SLOW = Kind("too-slow", HTTPStatus.REQUEST_TIMEOUT, "The body did not come in time")
ENDED = Kind("turn-ended", HTTPStatus.CONFLICT, "The turn is over")
BUSY = Kind("turn-busy", HTTPStatus.CONFLICT, "The turn is being done")
NOTHING_ASKED = Kind("nothing-asked", HTTPStatus.CONFLICT, "The turn asks nothing")
ANSWERED = Kind("already-answered", HTTPStatus.CONFLICT, "It was answered in another way")
AHEAD = Kind("place-ahead", HTTPStatus.CONFLICT, "The stream does not go so far")
TOO_LARGE = Kind("too-large", HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The body is too large")
NOT_A_TYPE = Kind("not-json-type", HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "The body must be JSON")
WRONG_HOST = Kind("wrong-host", HTTPStatus.MISDIRECTED_REQUEST, "This is another host")
INVALID = Kind("invalid", HTTPStatus.UNPROCESSABLE_ENTITY, "The request does not fit")
KEY_REUSED = Kind("key-reused", HTTPStatus.UNPROCESSABLE_ENTITY, "The key is another request's")
LONG_HEADERS = Kind(
    "headers-too-large", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "The headers are too large"
)
TOO_MANY = Kind("too-many-streams", HTTPStatus.TOO_MANY_REQUESTS, "Too many open streams")
INTERNAL = Kind("internal", HTTPStatus.INTERNAL_SERVER_ERROR, "Something is wrong here")
NOT_READY = Kind("not-ready", HTTPStatus.SERVICE_UNAVAILABLE, "No turns are taken now")
NO_STORE = Kind("store-unavailable", HTTPStatus.SERVICE_UNAVAILABLE, "The store is not there now")

KINDS = [each for each in list(globals().values()) if isinstance(each, Kind)]


@dataclass
class Problem(Exception):  # noqa: N818 - it is called so in the standard
    """Raised by whoever answers a request."""

    kind: Kind
    detail: str
    #: More facts, for programs.
    facts: Mapping[str, Any] = field(default_factory=dict)
    #: Seconds until trying again makes sense.
    retry_after: float | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        kind = self.kind
        known = {"type": kind.type, "title": kind.title, "status": int(kind.status)}
        return {**known, "detail": self.detail, **self.facts}

    def all_headers(self) -> dict[str, str]:
        if self.retry_after is None:
            return dict(self.headers)
        return {**self.headers, "retry-after": str(max(1, math.ceil(self.retry_after)))}


#: What operations raise, the special before the general.
_RAISED: list[tuple[type[Exception], Kind]] = [
    (TurnNotFound, NO_SUCH_TURN),
    (NotFound, NO_SUCH_TURN),
    (KeyReused, KEY_REUSED),
    (TurnEnded, ENDED),
    (TurnBusy, BUSY),
    (NothingAsked, NOTHING_ASKED),
    (AlreadyAnswered, ANSWERED),
    (InvalidToken, BAD_TOKEN),
    (StoreUnavailable, NO_STORE),
    (StoreClosed, NO_STORE),
    (UsageError, INVALID),
]
#: Soon after an outage, and not all at once.
_OUTAGE_S = 2.0


def problem_of(error: Exception) -> Problem | None:
    """None for what nobody expects."""
    if isinstance(error, Problem):
        return error
    kind = next((kind for raised, kind in _RAISED if isinstance(error, raised)), None)
    if kind is None:
        return None
    if kind is NO_STORE:
        return Problem(kind, "the store of the turns cannot be used; try again", {}, _OUTAGE_S)
    if isinstance(error, TurnBusy):
        # Who does it, and on which machine, is nobody's business.
        return Problem(kind, "somebody does the turn now", {}, error.seconds_left)
    return Problem(kind, str(error))
