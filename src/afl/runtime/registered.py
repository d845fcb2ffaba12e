"""How the records of servers and handlers change: what every store does in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from afl.runtime.entities import HandlerRegistration, ServerDefinition, ServerState

#: How a server ends; what nobody needs to report.
_ENDED = frozenset({ServerState.SHUTDOWN, ServerState.ERROR})


def beaten(stored: ServerDefinition | None, server: ServerDefinition, now: int) -> ServerDefinition:
    """How a server stands now, with all that others said about it."""
    if stored is None:
        return replace(server, ping_time=now)
    own = [each for each in server.incidents if each not in stored.incidents]
    return replace(server, ping_time=now, wanted=stored.wanted, incidents=[*stored.incidents, *own])


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
