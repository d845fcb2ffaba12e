"""A service as the others see it: a server record beside those of workers, with its phase."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from afl import telemetry
from afl.config import UNSET
from afl.ids import new_id
from afl.loops import AgentLoop
from afl.runtime.entities import ServerDefinition, ServerState
from afl.runtime.fleet import ServerRecord, new_server
from afl.runtime.lifecycle import LoopGroup
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.phases import Phase

SERVICE = "afl-serve"
_GROUP = "default"
_BEAT_S = 10.0


class Presence:
    """The record of one service. It is stopped, and not drained: its API would go as well."""

    def __init__(
        self,
        store: PersistenceAPI,
        group: LoopGroup,
        agents: Sequence[AgentLoop[Any, Any]],
        name: str,
    ) -> None:
        self._group = group
        self._agents = agents
        server = new_server(
            new_id(),
            group=_GROUP,
            service=SERVICE,
            name=socket.gethostname() if name == UNSET else name,
            # It does turns, not tasks: it takes none from any list.
            task_list="",
            topics=[each.name for each in agents],
        )
        self._record = ServerRecord(
            store, server, _BEAT_S, measure=self._measure, on_wanted=_ignore
        )

    @contextmanager
    def shown(self) -> Iterator[None]:
        """While the group runs: from before its first phase to after its last one."""
        unsubscribe = telemetry.subscribe(self._hear)
        try:
            with self._record.on_duty():
                yield
        finally:
            unsubscribe()

    def _hear(self, event: telemetry.Event) -> None:
        if isinstance(event, telemetry.PhaseChanged):
            self._record.tell_soon()

    def _measure(self, server: ServerDefinition) -> None:
        phase = self._group.phase
        if server.state == ServerState.STARTUP and phase in (Phase.READY, Phase.DRAIN):
            server.state = ServerState.RUNNING
        server.phase = str(phase)
        server.in_flight = sum(each.in_flight for each in self._agents)


def _ignore(_wanted: str) -> None:
    """Nothing can be asked of it."""
