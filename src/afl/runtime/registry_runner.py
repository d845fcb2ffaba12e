"""A worker that finds its handlers in the store: register them there, and start this anywhere.

Registrations that are added, changed, disabled or removed are noticed at once. One that cannot be
loaded says so in the store and in the log, and nobody else is disturbed by it.

It may have functions of its own beside them, which whoever starts it has named: for one facet, the
function goes first.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from afl import telemetry
from afl.backoff import Backoff
from afl.clock import SYSTEM_CLOCK, Clock, condition_of
from afl.error_text import text_of
from afl.errors import StoreClosed, StoreError, UsageError
from afl.log import get_logger
from afl.runtime.entities import HandlerRegistration, Isolation, OnLost, TaskDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.handler_loads import Loads, Outcome, is_same
from afl.runtime.loading import Handler
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.registrations import HandlerLoadError, RegistrationLoader
from afl.runtime.task_source import Served
from afl.runtime.worker import DRAIN_TIMEOUT_MS, LEASE_MS, TaskWorker
from afl.runtime.worker_numbers import require_sound_refresh

_log = get_logger(__name__)

_BACKOFF = Backoff(initial=0.2, factor=2.0, maximum=10.0, jitter=0.5)
#: How long the end of a run waits for a refresh that is under way.
_LAST_REFRESH_S = 1.0
#: How often it says that it is alive while it waits for the first one.
_BEAT_S = 5.0


@dataclass
class RegistryRunnerConfig:
    service_name: str = "afl-registry-runner"
    server_group: str = "default"
    #: By default the name of this machine.
    server_name: str = ""
    task_list: str = "default"
    #: How often to look for work even if nobody announces any.
    poll_interval_ms: int = 2000
    max_concurrent: int = 5
    heartbeat_interval_ms: int = 10000
    #: How often to read the registrations even if nobody announces a change.
    registry_refresh_interval_ms: int = 30000
    #: Patterns of facet names to handle; none: all.
    topics: list[str] = field(default_factory=list)
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


class RegistryRunner(TaskWorker):
    """Does the tasks of all facets that have a registration and fit its topics.

    `loader` says where code may come from; by default, from `usual_places()`. `functions` are
    facets that it does itself, with functions as `AgentPoller.register` takes them, as far as they
    fit the topics: what is registered for the same name is left to other workers, and not even
    loaded here. Raises ConfigurationError for numbers with which it could not work.
    """

    def __init__(
        self,
        persistence: PersistenceAPI,
        evaluator: Evaluator,
        config: RegistryRunnerConfig | None = None,
        *,
        loader: RegistrationLoader | None = None,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.config = config or RegistryRunnerConfig()
        require_sound_refresh(self.config.registry_refresh_interval_ms)
        super().__init__(
            persistence, evaluator, self.config, topics=self.config.topics, clock=clock
        )
        self._registry = Registry(
            persistence,
            loader or RegistrationLoader(),
            self.config.topics,
            _handlers_of(functions or {}, self.config.topics),
            server_id=self.server_id,
            own_names=self.own_names,
            clock=clock,
        )
        self._refresh_s = self.config.registry_refresh_interval_ms / 1000
        #: Why registrations could not be read the last time.
        self._unread: str | None = None

    def register_handler(
        self,
        facet_name: str,
        module_uri: str,
        entrypoint: str = "handle",
        version: str = "1.0.0",
        checksum: str = "",
        timeout_ms: int = 30000,
        requirements: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        *,
        isolation: str = Isolation.THREAD,
        on_lost: str = OnLost.REDELIVER,
    ) -> None:
        """Save where the handler of a facet is. All workers on the store notice it."""
        self.persistence.register_handler(
            facet_name,
            module_uri,
            entrypoint,
            version=version,
            checksum=checksum,
            timeout_ms=timeout_ms,
            requirements=requirements or (),
            metadata=metadata,
            isolation=isolation,
            on_lost=on_lost,
        )

    def registered_names(self) -> list[str]:
        """The facets that this worker serves: those of its functions, and what is registered,
        enabled and not known to be impossible to load; all of them among its topics."""
        return self._registry.names()

    def poll_once(self) -> int:
        self._registry.refresh_if_due(self._refresh_s)
        return super().poll_once()

    # As a worker

    @property
    def claimed_names(self) -> Sequence[str]:
        return self._registry.served.names

    def handler_for(self, task: TaskDefinition) -> Handler | None:
        return self._registry.served.handler_for(task.name)

    @property
    def unready_reason(self) -> str | None:
        if self._is_opening and self._unread is not None:
            return f"starting: its handlers are not known: {self._unread}"
        return super().unready_reason

    def open(self, stack: ExitStack, stop: threading.Event) -> None:
        """Have registrations loaded on a thread of its own, and wait until all of them are loaded
        or given up: who takes work before would leave tasks that it serves to others. Raises
        StoreClosed if there is nowhere to read them from."""
        over, settled = threading.Event(), condition_of(stop)
        is_settled, closed = False, None

        def settle(problem: StoreClosed | None = None) -> None:
            nonlocal is_settled, closed
            with settled:
                is_settled, closed = True, problem
                settled.notify_all()

        def end() -> None:
            over.set()
            self._registry.wake()

        follower = threading.Thread(
            target=self._follow, args=(over, settle), name="loop-worker-registry", daemon=True
        )
        follower.start()
        stack.callback(follower.join, _LAST_REFRESH_S)
        stack.callback(end)
        while not (is_settled or stop.is_set()):
            with settled:
                self._clock.wait_for(settled, lambda: is_settled or stop.is_set(), _BEAT_S)
            self._heartbeat.beat()
        # Who closes a store and stops its workers at once means no harm.
        if closed is not None and not stop.is_set():
            raise closed

    def _follow(self, over: threading.Event, settle: Callable[..., object]) -> None:
        registry, failures = self._registry, 0
        while not registry.is_over(over):
            try:
                if registry.refresh(over):
                    self.notice_change()
                failures, self._unread = 0, None
                if not registry.is_loading:
                    settle()
                registry.wait(self._refresh_s)
            except StoreClosed as error:
                self._unread = text_of(error)
                settle(error)
                return
            except Exception as error:  # nothing may end this thread: nobody else would notice
                is_usual = isinstance(error, StoreError)
                self._unread = text_of(error)
                _log.warning("registry_not_read", error=self._unread, exc_info=not is_usual)
                failures += 1
                self._clock.wait(over, _BACKOFF.delay(failures))


class Registry:
    """The registrations that a worker serves, with their handlers, beside functions of its own.
    Safe from any thread."""

    def __init__(
        self,
        store: PersistenceAPI,
        loader: RegistrationLoader,
        topics: Sequence[str],
        functions: Mapping[str, Handler],
        *,
        server_id: str,
        own_names: Sequence[str],
        clock: Clock,
    ) -> None:
        self._store = store
        self._topics = topics
        self._functions = functions
        self._server_id = server_id
        self._own_names = own_names
        self._clock = clock
        self._lock = threading.Lock()
        #: Ends the wait of whoever follows.
        self._news = threading.Event()
        self._loads = Loads(loader, clock, self._news.set)
        self._version = -1
        self._refreshed_at = 0.0
        #: Facet → its registration as it was read, and the handler or why there is none.
        self._known: dict[str, tuple[HandlerRegistration, Outcome]] = {}
        self.served = Served(functions, more=own_names)

    def names(self) -> list[str]:
        known = self._known
        failed = {name for name, (_, each) in known.items() if isinstance(each, HandlerLoadError)}
        registered = {each.facet_name for each in self._wanted()}
        return sorted(registered - failed | self._functions.keys())

    @property
    def is_loading(self) -> bool:
        """Whether something is being loaded that was not given up yet."""
        return self._loads.seconds_to_limit() is not None

    def is_over(self, over: threading.Event) -> bool:
        """Whether who follows is to end. Else what happens from here on ends its next `wait`."""
        self._news.clear()
        if not over.is_set():
            return False
        self._news.set()  # perhaps it was for another run
        return True

    def wake(self) -> None:
        """Let who follows look whether it is to end."""
        self._news.set()
        self._loads.wake()

    def wait(self, timeout: float) -> None:
        """Until a registration was changed since the last refresh, until there is news of what is
        being loaded, or for so many seconds."""
        limit = self._loads.seconds_to_limit()
        seconds = timeout if limit is None else max(0.0, min(timeout, limit))
        self._store.wait_for_registrations(self._version, seconds, stop=self._news)

    def refresh_if_due(self, interval_s: float) -> None:
        """Load on this thread what is new."""
        is_old = self._clock.monotonic() - self._refreshed_at >= interval_s
        if is_old or self._store.registrations_version() != self._version:
            self.refresh(None)

    def refresh(self, over: threading.Event | None) -> bool:
        """Read all registrations and load what is new or could not be loaded before; whether
        that changed who serves what. Waits for none that hangs, and begins with none once it is
        `over`; without `over`, they are loaded on this thread. Raises StoreError."""
        with self._lock:
            # Before reading: what is changed from here on is noticed by the next `wait`.
            version = self._store.registrations_version()
            before = self._handlers()
            wanted = self._wanted()
            found = {each.facet_name: self._found(each, over) for each in wanted}
            self._known = {name: each for name, each in found.items() if each is not None}
            self._loads.keep(found)
            self._version, self._refreshed_at = version, self._clock.monotonic()
            handlers = self._handlers()
            if handlers == before:
                return False
            self.served = Served({**handlers, **self._functions}, more=self._own_names)
            return True

    def _handlers(self) -> dict[str, Handler]:
        known = self._known.items()
        return {name: each for name, (_, each) in known if isinstance(each, Handler)}

    def _wanted(self) -> list[HandlerRegistration]:
        registrations = self._store.list_handler_registrations()
        return [each for each in registrations if each.is_enabled and self._is_wanted(each)]

    def _is_wanted(self, registration: HandlerRegistration) -> bool:
        name = registration.facet_name
        # What a function does is not loaded: its code would run for nothing, and a problem of it
        # would be reported as if its tasks had to wait.
        return name not in self._functions and _is_topical(name, self._topics)

    def _found(
        self, registration: HandlerRegistration, over: threading.Event | None
    ) -> tuple[HandlerRegistration, Outcome] | None:
        known = self._known.get(registration.facet_name)
        if known is not None and is_same(known[0], registration) and isinstance(known[1], Handler):
            return known
        outcome = self._loads.outcome_of(registration, over)
        if outcome is None:
            return known  # until the new one is there, the old one goes on
        if isinstance(outcome, HandlerLoadError):
            self._report(registration, outcome)
        elif registration.load_error is not None:
            self._note(registration, None)
        return registration, outcome

    def _note(self, registration: HandlerRegistration, message: str | None) -> None:
        """On the registration. Who cannot write that goes on with the others, and tries it again
        with the next refresh."""
        try:
            details = None
            if message is not None:
                now = self._store.now_ms()
                details = {"message": message, "server": self._server_id, "time": now}
            self._store.set_load_error(registration, details)
        except StoreClosed:
            raise
        except Exception as error:
            facet = registration.facet_name
            _log.warning("load_error_not_written", facet=facet, error=text_of(error))

    def _report(self, registration: HandlerRegistration, error: HandlerLoadError) -> None:
        message, facet = text_of(error), registration.facet_name
        told: Mapping[str, Any] = registration.load_error or {}
        if told.get("message") != message:
            self._note(registration, message)
        known = self._known.get(facet)
        if known is not None and isinstance(known[1], Exception) and text_of(known[1]) == message:
            return  # said before; it is tried again with every refresh
        _log.error("handler_not_loaded", facet=facet, error=message)
        telemetry.emit(
            telemetry.HandlerNotLoaded(
                at=self._clock.now(), facet=facet, server=self._server_id, error=message
            )
        )


def _handlers_of(
    functions: Mapping[str, Callable[..., Any]], topics: Sequence[str]
) -> dict[str, Handler]:
    """Those that fit the topics. Raises UsageError for what cannot be called."""
    for facet, function in functions.items():
        if not callable(function):
            raise UsageError(
                f"the handler of {facet} is of type {type(function).__name__}; expected a function"
            )
    return {
        facet: Handler(facet, function, getattr(function, "__module__", None) or "here")
        for facet, function in functions.items()
        if _is_topical(facet, topics)
    }


def _is_topical(facet: str, topics: Sequence[str]) -> bool:
    return not topics or any(fnmatchcase(facet, each) for each in topics)
