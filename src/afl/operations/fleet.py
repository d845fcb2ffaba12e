"""Servers: the worker processes of a store, what they do, and what is asked of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from afl.backoff import parse_duration
from afl.errors import UsageError
from afl.operations.finding import ServerNotFound
from afl.operations.reading import moment
from afl.runtime.entities import ServerDefinition, ServerState
from afl.runtime.fleet import DRAIN, ON_DUTY
from afl.runtime.fleet import is_alive as heard_lately
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.phases import Phase

#: How often a server beats that does not say.
_USUAL_BEAT_MS = 10_000
_MINUTE_MS = 60_000
#: Servers removed in one transaction.
_BATCH = 100
#: Minutes of the past that are shown.
_MINUTES = 60


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
    #: Of its process: init, warmup, ready, drain or terminate.
    phase: str
    #: Works, and has been heard of lately.
    is_alive: bool
    started: datetime | None
    #: Seconds since it was heard of, and how often it means to be.
    beat_age_s: float
    beat_s: float
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


@dataclass(frozen=True)
class Minute:
    """What was finished in one minute, by all servers."""

    time: datetime | None
    handled: int
    failed: int


@dataclass(frozen=True)
class FleetView:
    """All servers, and what they do together."""

    #: Those that are alive first, then the last ones that were.
    servers: tuple[ServerView, ...]
    alive: int
    in_flight: int
    #: Each of the last sixty minutes, oldest first; the last one goes on.
    throughput: tuple[Minute, ...]


def is_alive(server: ServerDefinition, now_ms: int) -> bool:
    """Whether it works, and was heard of lately."""
    return heard_lately(server, now_ms, _USUAL_BEAT_MS / 1000)


def fleet(store: PersistenceAPI) -> FleetView:
    """All servers with what they have done in the last hour."""
    now, servers = store.now_ms(), store.get_all_servers()
    shown = _views(servers, now)
    alive = [each for each in shown if each.is_alive]
    in_flight = sum(each.in_flight for each in alive)
    return FleetView(tuple(shown), len(alive), in_flight, throughput(servers, now))


def throughput(servers: Iterable[ServerDefinition], now_ms: int) -> tuple[Minute, ...]:
    """Tasks finished in each of the last sixty minutes, as servers told with their beats."""
    handled: Counter[int] = Counter()
    failed: Counter[int] = Counter()
    for each in (count for server in servers for count in server.finished):
        handled[each.time] += each.handled
        failed[each.time] += each.not_handled
    last = now_ms - now_ms % _MINUTE_MS
    times = range(last - (_MINUTES - 1) * _MINUTE_MS, last + 1, _MINUTE_MS)
    return tuple(Minute(moment(each), handled[each], failed[each]) for each in times)


def prune_servers(store: PersistenceAPI, keep: str) -> int:
    """Forget servers that nobody has heard of for as long as `keep` says (`7d`); how many."""
    keep_ms, removed = int(parse_duration(keep) * 1000), 0
    while (batch := store.prune_servers(keep_ms, _BATCH)) == _BATCH:
        removed += batch
    return removed + batch


def list_servers(store: PersistenceAPI, *, only_alive: bool = False) -> list[ServerView]:
    """All servers, those that are alive first, then the last ones that were."""
    found = _views(store.get_all_servers(), store.now_ms())
    return [each for each in found if each.is_alive or not only_alive]


def _views(servers: Iterable[ServerDefinition], now: int) -> list[ServerView]:
    found = [view(each, now) for each in servers]
    return sorted(found, key=lambda each: (not each.is_alive, each.beat_age_s, each.server))


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
        phase=phase_of(server),
        is_alive=is_alive(server, now_ms),
        started=moment(server.start_time),
        beat_age_s=max(now_ms - server.ping_time, 0) / 1000,
        beat_s=(server.beat_ms or _USUAL_BEAT_MS) / 1000,
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


def phase_of(server: ServerDefinition) -> str:
    """As it said; whoever was reported as lost has said nothing about its end."""
    if server.state not in ON_DUTY:
        return str(Phase.TERMINATE)
    usual = Phase.READY if server.state == ServerState.RUNNING else Phase.INIT
    return server.phase or str(usual)


def drain(store: PersistenceAPI, server: ServerDefinition) -> None:
    """Ask a server to take no more work. It finishes what it has, and stays.

    Raises UsageError for one that is gone, which would never answer, and for one that does no
    tasks.
    """
    if not server.task_list:
        raise UsageError(
            f"server {server.uuid} does no tasks, so it cannot drain; stop its process "
            f"{server.pid} on {server.host} with SIGTERM"
        )
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
