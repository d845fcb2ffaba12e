"""Numbers with which a worker could not work are refused, by name, before it starts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from afl.errors import ConfigurationError
from afl.runtime.agent_poller import AgentPoller, AgentPollerConfig
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore
from afl.runtime.registry_runner import RegistryRunner, RegistryRunnerConfig
from afl.runtime.runner import RunnerConfig, RunnerService
from afl.runtime.worker_numbers import LEAST_LEASE_MS
from afl.work.options import Options

WORKERS: list[tuple[Any, Any]] = [
    (AgentPoller, AgentPollerConfig),
    (RegistryRunner, RegistryRunnerConfig),
    (RunnerService, RunnerConfig),
]


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    store = MemoryStore()
    yield store
    store.close()


@pytest.mark.parametrize(("kind", "config"), WORKERS)
@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [
        ("lease_ms", 0, "give 50 or more"),
        ("lease_ms", -5, "give 50 or more"),
        ("lease_ms", LEAST_LEASE_MS - 1, "give 50 or more"),
        ("heartbeat_interval_ms", 0, "give 1 or more"),
        ("heartbeat_interval_ms", -1, "give 1 or more"),
        ("poll_interval_ms", 0, "give 1 or more"),
        ("poll_interval_ms", -1, "give 1 or more"),
        ("max_concurrent", 0, "give 1 or more"),
        ("threads", 0, "give 1 or more"),
    ],
)
def test_a_number_that_no_worker_can_have_is_refused(
    store: MemoryStore, kind: Any, config: Any, name: str, value: int, advice: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} is {value}, .*{advice}"):
        kind(store, Evaluator(store), config(**{name: value}))


@pytest.mark.parametrize(
    ("kind", "config", "name"),
    [
        (*WORKERS[0], "drain_timeout_ms"),
        (*WORKERS[1], "drain_timeout_ms"),
        (*WORKERS[2], "shutdown_timeout_ms"),
    ],
)
def test_no_stop_ends_before_it_begins(
    store: MemoryStore, kind: Any, config: Any, name: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} is -1, .*give 0 or more"):
        kind(store, Evaluator(store), config(**{name: -1}))
    kind(store, Evaluator(store), config(**{name: 0}))


@pytest.mark.parametrize(("kind", "config"), WORKERS)
def test_the_least_numbers_are_taken(store: MemoryStore, kind: Any, config: Any) -> None:
    least = config(
        lease_ms=LEAST_LEASE_MS,
        heartbeat_interval_ms=1,
        poll_interval_ms=1,
        max_concurrent=1,
        threads=1,
    )
    kind(store, Evaluator(store), least)


def test_a_consumer_does_not_drain_for_less_than_nothing() -> None:
    with pytest.raises(ConfigurationError, match=r"drain_s is -0\.5; expected 0 seconds or more"):
        Options(drain_s=-0.5)


# The locks of a runner


@pytest.mark.parametrize(
    ("duration", "interval"), [(10_000, 3333), (50, 16), (60_000, 20_000), (600_000, 20_000)]
)
def test_a_lock_whose_length_alone_is_given_is_extended_in_time(
    duration: int, interval: int
) -> None:
    assert RunnerConfig(lock_duration_ms=duration).lock_extend_interval_ms == interval


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ({"lock_duration_ms": 0}, "lock_duration_ms is 0, .*give 50 or more"),
        ({"lock_duration_ms": -1}, "lock_duration_ms is -1, .*give 50 or more"),
        ({"lock_extend_interval_ms": 0}, "lock_extend_interval_ms is 0, .*give 1 or more"),
        (
            {"lock_duration_ms": 500, "lock_extend_interval_ms": 1000},
            "lock_extend_interval_ms is 1000, but a lock lasts only lock_duration_ms, 500: .*"
            "give 250 or less, or leave it out",
        ),
        # A single late commit, and it has lapsed.
        (
            {"lock_duration_ms": 1000, "lock_extend_interval_ms": 990},
            "lock_extend_interval_ms is 990, .*give 500 or less",
        ),
        ({"lock_extend_interval_ms": 60_000}, "lock_extend_interval_ms is 60000, "),
    ],
)
def test_a_lock_that_would_lapse_is_refused(given: dict[str, int], advice: str) -> None:
    with pytest.raises(ConfigurationError, match=advice):
        RunnerConfig(**given)  # type: ignore[arg-type]


def test_locks_are_looked_at_again_when_the_service_is_made(store: MemoryStore) -> None:
    config = RunnerConfig()
    config.lock_duration_ms = 10_000
    with pytest.raises(ConfigurationError, match="lock_extend_interval_ms is 20000"):
        RunnerService(store, Evaluator(store), config)
