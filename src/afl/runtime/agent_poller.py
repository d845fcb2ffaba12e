"""A worker whose handlers are functions of the program that starts it.

poller = AgentPoller(store, Evaluator(store))
poller.register("shop.Charge", charge)
poller.start()
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from afl.clock import SYSTEM_CLOCK, Clock
from afl.errors import UsageError
from afl.runtime.entities import TaskDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.loading import Handler
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.task_source import Served
from afl.runtime.worker import DRAIN_TIMEOUT_MS, LEASE_MS, TaskWorker


@dataclass
class AgentPollerConfig:
    service_name: str = "afl-agent"
    server_group: str = "default"
    #: By default the name of this machine.
    server_name: str = ""
    task_list: str = "default"
    #: How often to look for work even if nobody announces any.
    poll_interval_ms: int = 2000
    max_concurrent: int = 5
    heartbeat_interval_ms: int = 10000
    _: KW_ONLY
    lease_ms: int = LEASE_MS
    #: Threads for handlers that block; None: `max_concurrent`, at most 64.
    threads: int | None = None
    #: How long handlers at work may go on after a stop.
    drain_timeout_ms: int = DRAIN_TIMEOUT_MS

    def __post_init__(self) -> None:
        self.server_name = self.server_name or socket.gethostname()

    @property
    def drain_ms(self) -> int:
        return self.drain_timeout_ms


class AgentPoller(TaskWorker):
    """Does the tasks of the facets that functions were registered for."""

    def __init__(
        self,
        persistence: PersistenceAPI,
        evaluator: Evaluator,
        config: AgentPollerConfig | None = None,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.config = config or AgentPollerConfig()
        self._lock = threading.Lock()
        super().__init__(persistence, evaluator, self.config, clock=clock)
        self._served = Served({}, more=self.own_names)

    def register(self, facet_name: str, callback: Callable[..., Any]) -> None:
        """Let a function do the tasks of a facet, in place of the one it had. At any time.

        It gets the payload, and a `HandlerContext` if it takes a second parameter; what it
        returns becomes the returns of the step. A coroutine function takes no thread while it
        waits. A short name serves facets of all namespaces, except for those that have a function
        of their own.
        """
        if not callable(callback):
            raise UsageError(
                f"the handler of {facet_name} is of type {type(callback).__name__}; expected a "
                "function"
            )
        source = getattr(callback, "__module__", None) or "here"
        with self._lock:
            known = self._served.handlers
            handlers = {**known, facet_name: Handler(facet_name, callback, source)}
            self._served = Served(handlers, more=self.own_names)
        self.notice_change()

    def register_async(self, facet_name: str, callback: Callable[..., Any]) -> None:
        """Like `register`, for a function whose result is awaited."""
        self.register(facet_name, callback)

    def registered_names(self) -> list[str]:
        return sorted(self._served.handlers)

    @property
    def claimed_names(self) -> Sequence[str]:
        return self._served.names

    def handler_for(self, task: TaskDefinition) -> Handler | None:
        return self._served.handler_for(task.name)
