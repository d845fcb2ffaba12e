"""Servers: the worker processes of a store, what they do, and what is asked of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from afl.errors import UsageError
from afl.operations.finding import ServerNotFound
from afl.operations.reading import moment
from afl.runtime.entities import ServerDefinition
from afl.runtime.fleet import DRAIN, MISSED_BEATS, ON_DUTY
from afl.runtime.persistence import PersistenceAPI

#: How often a server beats that was told nothing else.
_USUAL_BEAT_MS = 10_000
#: A server that has been silent for longer is taken for dead.
SILENT_AFTER_MS = MISSED_BEATS * _USUAL_BEAT_MS


@dataclass(frozen=True)
class ServerView:
    server: str
    name: str
    group: str
    service: str
    host: str
    pid: int
    version: str
    state: str
    #: Works, and has been heard of lately.
    is_alive: bool
    started: datetime | None
    #: Seconds since it was heard of.
    beat_age_s: float
    #: `drain`, or nothing.
    wanted: str
    task_list: str
    topics: list[str]
    handlers: list[str]
    #: Tasks it has in hand.
    in_flight: int
    #: Tasks it has done, and of each facet.
    handled: int
    handled_by_facet: dict[str, int]
    http_port: int
    error: dict[str, Any] | None
    #: What went wrong with it: `kind`, `message`, `time`.
    incidents: list[dict[str, Any]]


def is_alive(server: ServerDefinition, now_ms: int) -> bool:
    """Whether it works, and was heard of lately."""
    return server.state in ON_DUTY and now_ms - server.ping_time <= SILENT_AFTER_MS


def list_servers(store: PersistenceAPI, *, only_alive: bool = False) -> list[ServerView]:
    """All servers, those that are alive first, then the last ones that were."""
    now = store.now_ms()
    found = [view(each, now) for each in store.get_all_servers()]
    shown = [each for each in found if each.is_alive or not only_alive]
    return sorted(shown, key=lambda each: (not each.is_alive, each.beat_age_s, each.server))


def view(server: ServerDefinition, now_ms: int) -> ServerView:
    return ServerView(
        server=server.uuid,
        name=server.server_name,
        group=server.server_group,
        service=server.service_name,
        host=server.host,
        pid=server.pid,
        version=server.version,
        state=str(server.state),
        is_alive=is_alive(server, now_ms),
        started=moment(server.start_time),
        beat_age_s=max(now_ms - server.ping_time, 0) / 1000,
        wanted=server.wanted,
        task_list=server.task_list,
        topics=list(server.topics),
        handlers=list(server.handlers),
        in_flight=server.in_flight,
        handled=sum(each.handled for each in server.handled),
        handled_by_facet={each.handler: each.handled for each in server.handled},
        http_port=server.http_port,
        error=server.error,
        incidents=list(server.incidents),
    )


def drain(store: PersistenceAPI, server: ServerDefinition) -> None:
    """Ask a server to take no more work. It finishes what it has, and stays.

    Raises UsageError for one that is gone: it would never answer.
    """
    if not is_alive(server, store.now_ms()):
        raise UsageError(
            f"server {server.uuid} is {_described(server, store.now_ms())}; only a server that is "
            "alive can drain"
        )
    _ask(store, server, DRAIN)


def undrain(store: PersistenceAPI, server: ServerDefinition) -> None:
    """Let a server take work again."""
    _ask(store, server, "")


def _ask(store: PersistenceAPI, server: ServerDefinition, wanted: str) -> None:
    if not store.ask_server(server.uuid, wanted):
        raise ServerNotFound(server.uuid)


def _described(server: ServerDefinition, now_ms: int) -> str:
    if server.state in ON_DUTY:
        return f"silent for {(now_ms - server.ping_time) / 1000:.0f} s"
    return f"in state {server.state}"
