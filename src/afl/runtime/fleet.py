"""A worker process as the others see it: its server record, from the first beat to the last.

The record is written on a thread of its own every heartbeat, whenever the state changes, and when
an operator asks for something. A store that cannot be reached never ends the worker; what was not
written is written with the next beat, also if the record is gone by then.
"""

from __future__ import annotations

import math
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from afl import telemetry
from afl.backoff import Backoff, format_duration
from afl.clock import SYSTEM_CLOCK, Clock
from afl.error_text import kind_of, text_of
from afl.errors import StoreClosed, StoreError
from afl.ids import new_id
from afl.log import get_logger
from afl.runtime.entities import HandledCount, ServerDefinition, ServerState
from afl.runtime.persistence import PersistenceAPI

_log = get_logger(__name__)

#: A server that has not beaten for so many heartbeats is taken for dead.
MISSED_BEATS = 3
#: Servers that nobody has heard of for this long are forgotten.
KEPT_MS = 7 * 24 * 3_600_000
#: What an operator wants of a server that shall take no more work.
DRAIN = "drain"
#: States of a server that has not said that it is over.
ON_DUTY = (ServerState.STARTUP, ServerState.RUNNING)

#: Servers of this very process that are on duty.
_own: set[str] = set()
_last_words = Backoff(initial=0.05, factor=3.0, maximum=0.5)
_LAST_TRIES = 4
#: How long the end of a server waits for a beat that is under way.
_LAST_BEAT_S = 1.0
#: Documentation addresses: nothing is sent to find out which way it would leave.
_ELSEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
#: Where Linux says which start of which machine this is, and who hands out process ids.
_BOOT, _PID_NAMESPACE = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")


class HandledCounts:
    """How many tasks of each facet were done here, and how many failed. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, list[int]] = {}

    def add(self, facet: str, *, is_handled: bool) -> None:
        with self._lock:
            self._counts.setdefault(facet, [0, 0])[not is_handled] += 1

    def all(self) -> list[HandledCount]:
        with self._lock:
            return [HandledCount(name, *each) for name, each in sorted(self._counts.items())]


class ServerRecord:
    """Keeps the record of one server. `measure` is called before each beat, to fill in what
    changes by itself; `on_wanted` after it, with what an operator asks for."""

    def __init__(
        self,
        store: PersistenceAPI,
        server: ServerDefinition,
        interval_s: float,
        *,
        measure: Callable[[ServerDefinition], object],
        on_wanted: Callable[[str], object],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._store = store
        self._server = server
        server.beat_ms = round(interval_s * 1000)
        self._interval_s = interval_s
        self._measure = measure
        self._on_wanted = on_wanted
        self._clock = clock
        #: Writes keep the order of what they tell.
        self._lock = threading.Lock()
        #: What was wanted at the last beat.
        self._wanted = ""
        #: Ends the rest between two beats: there is something to tell, it is over, or perhaps an
        #: operator wants something else.
        self._news = threading.Event()
        self._has_news = False

    @contextmanager
    def on_duty(self) -> Iterator[None]:
        """STARTUP on entering; SHUTDOWN on leaving, or ERROR if the block raises."""
        server, over = self._server, threading.Event()
        server.state, server.error, server.start_time = ServerState.STARTUP, None, self._now_ms()
        _own.add(server.uuid)
        # First, so that nothing is asked in between.
        attend_no_more = self._attend()
        self._try_to_beat()
        beats = threading.Thread(
            target=self._keep_beating, args=(over,), name="loop-worker-server", daemon=True
        )
        beats.start()
        try:
            yield
        except Exception as error:
            server.state = ServerState.ERROR
            server.error = {"message": text_of(error), "type": kind_of(error)}
            raise
        finally:
            if server.state != ServerState.ERROR:
                server.state = ServerState.SHUTDOWN
            over.set()
            attend_no_more()
            self._news.set()
            self._say_goodbye()
            beats.join(_LAST_BEAT_S)
            _own.discard(server.uuid)

    def is_running(self) -> None:
        """It takes work from now on."""
        self._server.state = ServerState.RUNNING
        self._try_to_beat()

    def tell_soon(self) -> None:
        """Something changed that others should know before the next beat. Never waits."""
        self._has_news = True
        self._news.set()

    def _attend(self) -> Callable[[], None]:
        """Hear at once when something is asked, until what this gives is called. Who does no tasks
        cannot be asked for anything."""
        if self._server.task_list:
            with suppress(StoreError):  # then it is heard with the next beat
                return self._store.attend_server(self._server.uuid, self._news.set)
        return _nothing

    # Beats

    def beat(self) -> None:
        """Write how it stands, and hear what is wanted. Raises StoreError."""
        with self._lock:
            self._measure(self._server)
            wanted = self._wanted = self._store.beat_server(self._server)
        self._on_wanted(wanted)

    def _keep_beating(self, over: threading.Event) -> None:
        # A predecessor that died right before this one began is silent long enough by then.
        again_at = self._clock.monotonic() + self._look_for_lost() + self._interval_s
        while True:
            self._rest(over)
            if over.is_set() or not self._try_to_beat():
                return
            if self._clock.monotonic() >= again_at:
                self._look_for_lost()
                again_at = math.inf

    def _rest(self, over: threading.Event) -> None:
        """Until the next beat is due, or should not be waited for."""
        due_at = self._clock.monotonic() + self._interval_s
        while self._clock.wait(self._news, due_at - self._clock.monotonic()):
            self._news.clear()
            if over.is_set() or self._has_news or self._is_asked():
                self._has_news = False
                return

    def _is_asked(self) -> bool:
        """Whether something else is wanted. Looked up, because announcements may come for nothing,
        and each beat is a write."""
        try:
            stored = self._store.get_server(self._server.uuid)
        except Exception:  # nothing may end these beats, and the next one says what is wanted
            return False
        return stored is not None and stored.wanted != self._wanted

    def _try_to_beat(self) -> bool:
        """Whether there is a store to beat at."""
        try:
            self.beat()
        except StoreClosed:
            return False
        except Exception as error:  # nothing may end these beats: others would report a death
            self._not_written(error)
        return True

    def _say_goodbye(self) -> None:
        """A few tries: whoever leaves without a word is reported as lost."""
        for attempt in range(1, _LAST_TRIES + 1):
            try:
                self.beat()
                return
            except StoreClosed:
                return
            except StoreError as error:
                self._not_written(error)
                self._clock.sleep(_last_words.delay(attempt))

    def _not_written(self, error: Exception) -> None:
        is_usual = isinstance(error, StoreError)
        _log.warning(
            "server_not_written",
            server=self._server.uuid,
            error=str(error),
            exc_info=not is_usual,
        )

    def _now_ms(self) -> int:
        with suppress(StoreError):
            return self._store.now_ms()
        return 0

    # Those who left without a word

    def _look_for_lost(self) -> float:
        """Report them; the seconds of silence after which all others of this place are lost."""
        longest_s = self._interval_s
        try:
            # Who starts makes a record, so who starts also removes some.
            self._store.prune_servers(KEPT_MS)
            now = self._store.now_ms()
            for each in self._others_here():
                reason = self._why_lost(each, now)
                if reason is None:
                    longest_s = max(longest_s, each.beat_ms / 1000)
                else:
                    self._report(each, reason, now)
        except StoreError as error:
            _log.warning("servers_not_read", error=str(error))
        return MISSED_BEATS * longest_s

    def _others_here(self) -> list[ServerDefinition]:
        """Who is on duty where this one is: predecessors, or neighbours."""
        servers = [each for state in ON_DUTY for each in self._store.get_servers_by_state(state)]
        here, own = _place(self._server), self._server.uuid
        return [each for each in servers if _place(each) == here and each.uuid != own]

    def _why_lost(self, other: ServerDefinition, now: int) -> str | None:
        """Why a server cannot be alive; None if it can."""
        if _share_pids(other, self._server) and _is_gone(other):
            return f"its process {other.pid} on {other.host} is gone"
        if not is_alive(other, now, self._interval_s):
            silent_s = (now - other.ping_time) / 1000
            return f"it has been silent for {format_duration(silent_s)}"
        return None

    def _report(self, lost: ServerDefinition, reason: str, now: int) -> None:
        message = f"it ended without a shutdown: {reason}"
        incident = {"kind": "lost", "message": message, "time": now, "by": self._server.uuid}
        if not self._store.report_incident(lost.uuid, incident):
            return
        _log.error("server_lost", server=lost.uuid, service=lost.service_name, reason=reason)
        telemetry.emit(
            telemetry.ServerLost(
                at=self._clock.now(),
                server=lost.uuid,
                service=lost.service_name,
                host=lost.host,
                pid=lost.pid,
                reason=reason,
            )
        )


def _nothing() -> None:
    pass


def _place(server: ServerDefinition) -> tuple[str, str, str]:
    """What a server and its successor have in common."""
    return server.server_group, server.service_name, server.server_name


def _share_pids(one: ServerDefinition, other: ServerDefinition) -> bool:
    """Whether the same process id would be the same process. Machines may share a name, and in
    containers nearly every process has the id 1. A record of a version that did not say where its
    id counts is judged by its silence alone."""
    is_known = bool(one.pid and other.pid)
    return is_known and (one.host, one.manager) == (other.host, other.manager)


def _is_gone(server: ServerDefinition) -> bool:
    """Whether the process of a server whose process id counts here has ended."""
    if server.pid == os.getpid():
        # It may have been that of others before.
        return server.uuid not in _own
    try:
        os.kill(server.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:  # it is there, and somebody else's
        return False
    return False


# Who is alive


def is_alive(server: ServerDefinition, now: int, interval_s: float) -> bool:
    """Whether a server is on duty and has beaten lately, by the interval that it names, or this
    one."""
    interval_ms = server.beat_ms or interval_s * 1000
    return server.state in ON_DUTY and now - server.ping_time <= MISSED_BEATS * interval_ms


def own_addresses() -> list[str]:
    """Where this machine is reached by others, as far as it knows; asks no name server."""
    found = []
    for family, elsewhere in _ELSEWHERE:
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((elsewhere, 9))
            found.append(probe.getsockname()[0])
    return found or ["127.0.0.1"]


def _pid_space() -> str:
    """Where the id of this process counts: in one PID namespace, until the machine stops."""
    try:
        boot = _BOOT.read_text(encoding="ascii").strip()
        return f"{boot} {_PID_NAMESPACE.readlink()}"
    except OSError:
        # Other systems have one space for all. A Linux that does not tell may be any container.
        return new_id() if sys.platform == "linux" else ""


def _version() -> str:
    with suppress(PackageNotFoundError):
        return version("afl")
    return ""


def new_server(
    server_id: str,
    *,
    group: str,
    service: str,
    name: str,
    task_list: str,
    topics: Sequence[str],
) -> ServerDefinition:
    """The record of a server of this process."""
    return replace(
        ServerDefinition(server_id, group, service, name),
        server_ips=own_addresses(),
        task_list=task_list,
        topics=list(topics),
        version=_version(),
        manager=_pid_space(),
        host=socket.gethostname(),
        pid=os.getpid(),
    )
