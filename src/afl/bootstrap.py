"""Putting things together: from settings to the objects that they choose.

The only module that knows concrete stores. Each is imported when it is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from afl.backoff import parse_duration
from afl.db.drivers import driver_wanted
from afl.db.urls import hint
from afl.errors import ConfigurationError, UsageError
from afl.log import redact

if TYPE_CHECKING:
    from afl.config import Config
    from afl.runtime.evaluator import Evaluator
    from afl.runtime.lifecycle import LoopGroup, Runnable
    from afl.runtime.persistence import PersistenceAPI
    from afl.runtime.registry_runner import RegistryRunnerConfig

_SCHEMES = ("memory", "sqlite", "postgresql", "postgres", "mongodb", "mongodb+srv")
_FORMS = (
    "expected memory: for a store that dies with the process, sqlite:///relative/path.db, "
    "sqlite:////absolute/path.db, postgresql://user:password@host:5432/database or "
    "mongodb://user:password@host:27017/database"
)

_NO_DEADLINE = (
    "{who} needs a drain deadline: how long {what} may take to end after SIGTERM. Give "
    "--drain-deadline, AFL_LIFECYCLE_DRAIN_DEADLINE or lifecycle.drain_deadline: {values}; and let "
    "the platform wait 10 s longer before it kills"
)

#: The share of a worker's drain in which unfinished tasks are given back, and its bounds.
_RESERVE_SHARE, _LEAST_RESERVE_S, _MOST_RESERVE_S = 0.2, 2.0, 5.0


def open_store(url: str) -> PersistenceAPI:
    """The store behind a URL. Raises ConfigurationError if there is no such kind, or its driver
    is not installed; StoreUnavailable if it cannot be reached."""
    scheme = url.partition(":")[0].lower()
    if url.lower() == "memory:":
        from afl.runtime.memory_store import MemoryStore

        return MemoryStore()
    if scheme == "sqlite":
        from afl.runtime.sql_store import SqliteStore

        return SqliteStore(url)
    if scheme in ("postgresql", "postgres"):
        with driver_wanted(url):
            from afl.runtime.postgres_store import PostgresStore
        return PostgresStore(url)
    if scheme in ("mongodb", "mongodb+srv"):
        with driver_wanted(url):
            from afl.runtime.mongo_store import MongoStore
        return MongoStore(url)
    raise ConfigurationError(
        f"{redact(url)!r} is no store that can be opened here; {_FORMS}{hint(url, _SCHEMES)}"
    )


def evaluator(store: PersistenceAPI, config: Config) -> Evaluator:
    """The engine on a store, as the settings want it; from here on, this process makes traces if
    they do."""
    from afl.runtime import tracing
    from afl.runtime.evaluator import Evaluator
    from afl.runtime.script_executor import ScriptExecutor

    if config.telemetry.traces and not tracing.is_on():
        tracing.install()
    scripts = config.scripts
    executor = ScriptExecutor(parse_duration(scripts.timeout)) if scripts.enabled else None
    return Evaluator(store, scripts=executor)


def group_options(config: Config) -> dict[str, Any]:
    """What the settings say of a group, for `LoopGroup(loops, **group_options(config))`.

    What is unset is left out, so that the group's own default holds.
    """
    from afl.config import UNSET

    given = config.lifecycle
    times = {
        "drain_deadline_seconds": given.drain_deadline,
        "settle_seconds": given.settle,
        "max_processing_seconds": given.max_processing,
        "termination_grace_seconds": given.termination_grace,
        "pre_stop_seconds": given.pre_stop,
    }
    options = {name: parse_duration(time) for name, time in times.items() if time != UNSET}
    return options if given.health_port == UNSET else options | {"health_port": given.health_port}


def log_events() -> Callable[[], None]:
    """Write telemetry to the log from now on, except for what its emitter logs itself. Returns the
    function that ends this."""
    from afl import log, telemetry

    logger = log.get_logger("afl")

    def write(event: telemetry.Event) -> None:
        if event.is_logged:
            return
        facts = event.facts()
        del facts["at"]  # log lines have a time of their own
        getattr(logger, event.severity.value)(event.name, **facts)

    return telemetry.subscribe(write)


def worker_group(
    store: PersistenceAPI,
    config: Config,
    sources: Sequence[str] = (),
    *,
    functions: Mapping[str, Callable[..., Any]] | None = None,
) -> LoopGroup:
    """A worker as the settings want it: handlers that are registered in the store, those that the
    modules or files of `sources` list or mark, and `functions`, by their facets.

    Raises ConfigurationError without a drain deadline, and UsageError if the sources have no
    handlers.
    """
    from afl.runtime.dependencies import store_dependency
    from afl.runtime.lifecycle import LoopGroup

    options = worker_options(config)
    workers = worker_loops(store, config, sources, functions=functions)
    loops = [*workers, retention_loop(store, config)]
    return LoopGroup(loops, dependencies=[store_dependency(store)], **options)


def worker_options(config: Config) -> dict[str, Any]:
    """What the settings say of the group of a worker. Raises ConfigurationError without a drain
    deadline."""
    values = "30s for short tasks, 2m to 5m for model calls and tools, 30m for research"
    return service_options(config, "a worker", "running tasks", values)


def service_options(config: Config, who: str, what: str, values: str) -> dict[str, Any]:
    """What the settings say of a group that is deployed: it must know how long it may drain.

    Raises ConfigurationError that names sensible values.
    """
    from afl.config import UNSET

    if config.lifecycle.drain_deadline == UNSET:
        raise ConfigurationError(_NO_DEADLINE.format(who=who, what=what, values=values))
    options = group_options(config)
    reserve = _reserve(options["drain_deadline_seconds"])
    return {"checkpoint_reserve_seconds": reserve, **options}


def _reserve(deadline_s: float) -> float:
    """What is kept of a drain to give work back: handlers have a moment to end when told so."""
    return min(max(deadline_s * _RESERVE_SHARE, _LEAST_RESERVE_S), _MOST_RESERVE_S, deadline_s)


def worker_loops(
    store: PersistenceAPI,
    config: Config,
    sources: Sequence[str] = (),
    *,
    functions: Mapping[str, Callable[..., Any]] | None = None,
) -> list[Runnable]:
    """What does the tasks of a store: handlers that are registered there, those of `sources`, and
    `functions`. One loop does them all, so that topics, concurrency and what an operator asks for
    hold for the whole of it. Raises UsageError if the sources have no handlers."""
    from afl.runtime.registrations import RegistrationLoader, allowed_places
    from afl.runtime.registry_runner import RegistryRunner

    runner = RegistryRunner(
        store,
        evaluator(store, config),
        _worker_config(config),
        loader=RegistrationLoader(allowed_places(config.handlers.paths)),
        functions={**worker_functions(sources), **(functions or {})},
    )
    return [runner]


def worker_functions(sources: Sequence[str]) -> dict[str, Callable[..., Any]]:
    """What the modules or files list or mark, by the facets that it serves. Raises UsageError if
    that is nothing, although there are sources."""
    if not sources:
        return {}
    from afl.runtime.loading import load_handlers

    # No program is known here, so only names that the sources themselves say can be served.
    table = load_handlers(sources, ())
    handlers = [handler for each in table.names() if (handler := table.handler_for(each))]
    if not handlers:
        raise UsageError(
            f"{', '.join(sources)}: no handlers are listed in HANDLERS or marked with "
            "@afl.handler; a worker does not guess them from the names of functions"
        )
    return {each.facet: each.call for each in handlers}


def retention_loop(store: PersistenceAPI, config: Config) -> Runnable:
    """What removes old runs, as the settings say."""
    from afl.operations.retention import RetentionLoop

    return RetentionLoop(store, config.retention.runs)


def _worker_config(config: Config) -> RegistryRunnerConfig:
    from afl.runtime.registry_runner import RegistryRunnerConfig

    given = config.worker
    return RegistryRunnerConfig(
        topics=list(given.topics),
        task_list=given.task_list,
        max_concurrent=given.concurrency,
        lease_ms=round(parse_duration(given.lease) * 1000),
    )
