"""How the records of servers and handlers change: what every store does in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from afl.runtime.entities import (
    HandlerRegistration,
    MinuteCount,
    ServerDefinition,
    ServerState,
)

_MINUTE = 60_000
_HOUR = 60 * _MINUTE

#: How a server ends; what nobody needs to report.
_ENDED = frozenset({ServerState.SHUTDOWN, ServerState.ERROR})


def beaten(stored: ServerDefinition | None, server: ServerDefinition, now: int) -> ServerDefinition:
    """How a server stands now, with all that others said about it."""
    finished = _counted(stored, server, now)
    if stored is None:
        return replace(server, ping_time=now, finished=finished)
    own = [each for each in server.incidents if each not in stored.incidents]
    return replace(
        server,
        ping_time=now,
        wanted=stored.wanted,
        incidents=[*stored.incidents, *own],
        finished=finished,
    )


def _counted(
    stored: ServerDefinition | None, server: ServerDefinition, now: int
) -> list[MinuteCount]:
    """What the server finished in the last hour, with what is new counted for this minute."""
    before = [] if stored is None else stored.handled
    handled = _more(sum(each.handled for each in before), sum(e.handled for e in server.handled))
    failed = _more(
        sum(each.not_handled for each in before), sum(each.not_handled for each in server.handled)
    )
    kept = [each for each in ([] if stored is None else stored.finished) if each.time > now - _HOUR]
    if not handled and not failed:
        return kept
    minute = now - now % _MINUTE
    last = kept.pop() if kept and kept[-1].time == minute else MinuteCount(minute)
    return [*kept, MinuteCount(minute, last.handled + handled, last.not_handled + failed)]


def _more(before: int, now: int) -> int:
    """How much a count has grown; one that became smaller began anew."""
    return now - before if now >= before else now


def reported(
    stored: ServerDefinition | None, incident: Mapping[str, Any]
) -> ServerDefinition | None:
    """The server, ended by this incident; None if there is nothing to say about it."""
    if stored is None or stored.state in _ENDED:
        return None
    return replace(
        stored,
        state=ServerState.ERROR,
        error=dict(incident),
        incidents=[*stored.incidents, dict(incident)],
    )


def judged(
    stored: HandlerRegistration | None,
    read: HandlerRegistration,
    error: Mapping[str, Any] | None,
) -> HandlerRegistration | None:
    """The registration, with how loading it went; None if that was another one."""
    if stored is None or replace(stored, load_error=None) != replace(read, load_error=None):
        return None
    return replace(stored, load_error=None if error is None else dict(error))
