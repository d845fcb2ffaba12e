"""Numbers about this process, in the text format that Prometheus reads.

Each family below is one row of the reference. Who knows a number sets it, or has it read whenever
somebody asks; what nobody has set is not shown. Counters come from telemetry.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from afl.log import get_logger
from afl.runtime.phases import Phase
from afl.telemetry import (
    Event,
    HandlerNotLoaded,
    LoopStalled,
    MessageDeadLettered,
    ModelCalled,
    ModelCallRetried,
    PhaseChanged,
    ServerLost,
    ThreadAbandoned,
    TurnEnded,
)

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of number, with the labels that tell its members apart."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()


PHASE = Family("afl_phase", "gauge", "1 for the phase that the process is in, else 0.", ("phase",))
READY = Family("afl_ready", "gauge", "1 while /health/ready answers 200, else 0.")
BEAT_AGE = Family(
    "afl_heartbeat_age_seconds", "gauge", "Seconds since the last beat of a loop.", ("loop",)
)
IN_FLIGHT = Family("afl_in_flight", "gauge", "Pieces of work that a loop has in hand.", ("loop",))
DRAIN = Family(
    "afl_drain_seconds", "gauge", "Seconds since the drain began; 0 while there is none."
)
STALLS = Family(
    "afl_stalls_total",
    "counter",
    "How often the watchdog has gone a stage on with a loop that hangs.",
    ("loop", "stage"),
)
LOOP_LAG = Family(
    "afl_loop_lag_seconds",
    "gauge",
    "How late the supervisor woke last: it grows when threads starve each other.",
)
LEASES_LOST = Family(
    "afl_leases_lost_total", "counter", "Leases that lapsed while a loop worked on them.", ("loop",)
)
SERVERS_LOST = Family(
    "afl_servers_lost_total",
    "counter",
    "Servers that ended without a shutdown, as noticed here.",
    ("service",),
)

HANDLED = Family(
    "afl_handled_total",
    "counter",
    "Pieces of work that a loop has ended, by what they were and how they ended.",
    ("loop", "work", "outcome"),
)
THREADS_ABANDONED = Family(
    "afl_threads_abandoned_total",
    "counter",
    "Threads that were still at work when it was given up.",
)
HANDLERS_NOT_LOADED = Family(
    "afl_handlers_not_loaded_total",
    "counter",
    "Registrations that could not be loaded, each time that this was found.",
    ("facet",),
)
TURNS = Family("afl_turns_total", "counter", "Turns that ended, by how.", ("loop", "status"))
TURN_SECONDS = Family(
    "afl_turn_seconds_total", "counter", "Seconds that the ended turns took.", ("loop",)
)
DEAD_LETTERS = Family(
    "afl_dead_letters_total", "counter", "Messages that became dead letters.", ("mailbox",)
)
MODEL_CALLS = Family("afl_model_calls_total", "counter", "Answers of models.", ("model",))
MODEL_RETRIES = Family(
    "afl_model_retries_total", "counter", "Calls of models that had to be made again.", ("model",)
)
MODEL_TOKENS = Family(
    "afl_model_tokens_total", "counter", "Tokens that models read and wrote.", ("model", "kind")
)

#: Every family there is, in the order of the page.
FAMILIES = (
    PHASE,
    READY,
    BEAT_AGE,
    IN_FLIGHT,
    DRAIN,
    STALLS,
    LOOP_LAG,
    LEASES_LOST,
    HANDLED,
    THREADS_ABANDONED,
    HANDLERS_NOT_LOADED,
    SERVERS_LOST,
    TURNS,
    TURN_SECONDS,
    DEAD_LETTERS,
    MODEL_CALLS,
    MODEL_RETRIES,
    MODEL_TOKENS,
)


class Metrics:
    """The numbers of one process. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[Family, dict[tuple[str, ...], float]] = {each: {} for each in FAMILIES}
        self._readers: tuple[Callable[[], object], ...] = ()

    def set(self, family: Family, value: float, **labels: str) -> None:
        """Let a gauge have this value from now on."""
        with self._lock:
            self._values[family][_key(family, labels)] = value

    def add(self, family: Family, amount: float = 1, **labels: str) -> None:
        """Let a counter grow."""
        key = _key(family, labels)
        with self._lock:
            members = self._values[family]
            members[key] = members.get(key, 0) + amount

    def on_render(self, reader: Callable[[], object]) -> None:
        """Call `reader` before each rendering, to set what changes by itself. It must not wait."""
        with self._lock:
            self._readers = (*self._readers, reader)

    def hear(self, event: Event) -> None:
        """Take what an event tells; for `telemetry.subscribe`."""
        tell = _TOLD_BY.get(type(event))
        if tell is not None:
            tell(self, event)

    def set_phase(self, phase: str) -> None:
        for each in Phase:
            self.set(PHASE, int(each == phase), phase=each)

    def render(self) -> str:
        """All numbers as text. A reader that fails is logged, and the rest is there."""
        for reader in self._readers:
            try:
                reader()
            except Exception:
                _log.exception("metrics_reader_failed", reader=repr(reader))
        with self._lock:
            return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        for family, members in self._values.items():
            yield f"# HELP {family.name} {family.help}"
            yield f"# TYPE {family.name} {family.kind}"
            for key, value in sorted(members.items()):
                yield f"{family.name}{_labels(family, key)} {_number(value)}"


# What events tell


def _hear_turn(metrics: Metrics, event: TurnEnded) -> None:
    metrics.add(TURNS, loop=event.loop, status=event.status)
    metrics.add(TURN_SECONDS, event.duration_s, loop=event.loop)


def _hear_model(metrics: Metrics, event: ModelCalled) -> None:
    metrics.add(MODEL_CALLS, model=event.model)
    metrics.add(MODEL_TOKENS, event.input_tokens, model=event.model, kind="input")
    metrics.add(MODEL_TOKENS, event.output_tokens, model=event.model, kind="output")


_TOLD_BY: dict[type[Event], Callable[[Metrics, Any], object]] = {
    PhaseChanged: lambda metrics, event: metrics.set_phase(event.phase),
    LoopStalled: lambda metrics, event: metrics.add(STALLS, loop=event.loop, stage=event.stage),
    ServerLost: lambda metrics, event: metrics.add(SERVERS_LOST, service=event.service),
    ThreadAbandoned: lambda metrics, _event: metrics.add(THREADS_ABANDONED),
    HandlerNotLoaded: lambda metrics, event: metrics.add(HANDLERS_NOT_LOADED, facet=event.facet),
    TurnEnded: _hear_turn,
    MessageDeadLettered: lambda metrics, event: metrics.add(DEAD_LETTERS, mailbox=event.mailbox),
    ModelCalled: _hear_model,
    ModelCallRetried: lambda metrics, event: metrics.add(MODEL_RETRIES, model=event.model),
}


def _key(family: Family, labels: dict[str, str]) -> tuple[str, ...]:
    if set(labels) != set(family.labels):
        raise ValueError(f"{family.name} has the labels {family.labels}, not {tuple(labels)}")
    return tuple(str(labels[each]) for each in family.labels)


def _labels(family: Family, key: tuple[str, ...]) -> str:
    if not key:
        return ""
    pairs = (f'{name}="{_escaped(value)}"' for name, value in zip(family.labels, key, strict=True))
    return f"{{{','.join(pairs)}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if math.isfinite(value):
        return str(int(value)) if value == int(value) else repr(float(value))
    return "NaN" if math.isnan(value) else f"{'+' if value > 0 else '-'}Inf"
