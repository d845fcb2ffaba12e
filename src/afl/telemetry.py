"""Telemetry: the list of everything that happens, and the way to hear of it.

- Each kind of event is one class below, with its fields and what it means; `EVENTS` has them all.
- `emit` tells every subscriber, on the emitter's thread. Nothing is kept and nothing is queued.
- A subscriber that fails is logged once and never disturbs the emitter or the other subscribers.

Logs, metrics, traces and the dashboard are subscribers. Adding a kind of event is one class here.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar, TypeVar, dataclass_transform, get_type_hints

# The standard logger, not afl.log: the modules of this layer do not know each other.
_log = logging.getLogger(__name__)


class Severity(StrEnum):
    #: Of interest while looking for the cause of something.
    DEBUG = "debug"
    #: Normal life.
    INFO = "info"
    #: Somebody should look, and nothing is lost yet.
    WARNING = "warning"
    #: Something that was promised did not happen.
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened, at a time read from the emitter's clock."""

    name: ClassVar[str] = ""
    severity: ClassVar[Severity] = Severity.INFO

    at: Annotated[datetime, "when it happened"]

    @classmethod
    def meaning(cls) -> str:
        """What this kind of event tells, in one sentence."""
        return " ".join((cls.__doc__ or "").split())

    @classmethod
    def field_meanings(cls) -> dict[str, tuple[str, str]]:
        """For each field its type and what it holds, in the order of the class."""
        hints = get_type_hints(cls, include_extras=True)
        described = {each.name: hints[each.name] for each in fields(cls)}
        return {name: (_type_name(hint), hint.__metadata__[0]) for name, hint in described.items()}

    def facts(self) -> dict[str, Any]:
        """The fields as a flat mapping, for log lines and labels."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


def _type_name(hint: Any) -> str:
    inner = hint.__origin__
    return inner.__name__ if isinstance(inner, type) else str(inner)


_E = TypeVar("_E", bound=Event)
_kinds: dict[str, type[Event]] = {}


@dataclass_transform(frozen_default=True, kw_only_default=True)
def _event(name: str, severity: Severity = Severity.INFO) -> Callable[[type[_E]], type[_E]]:
    """Make the class a kind of event and put it on the list."""

    def enlist(cls: type[_E]) -> type[_E]:
        kind = dataclass(frozen=True, slots=True, kw_only=True)(cls)
        kind.name, kind.severity = name, severity
        if _kinds.setdefault(name, kind) is not kind:
            raise ValueError(f"two kinds of event are called {name}")
        return kind

    return enlist


@_event("config_loaded")
class ConfigLoaded(Event):
    """The settings of this process were read and are valid."""

    file: Annotated[str | None, "path of the settings file, or none"]
    overrides: Annotated[int, "settings given by a flag, a variable or the file"]


@_event("program_compiled")
class ProgramCompiled(Event):
    """AFL text was compiled into a program."""

    sources: Annotated[int, "source files read"]
    declarations: Annotated[int, "declarations in the program"]
    duration_s: Annotated[float, "seconds from text to program"]
    warnings: Annotated[int, "warnings shown to the author"]


@_event("run_started")
class RunStarted(Event):
    """A run was accepted: from here on it ends in a recorded outcome."""

    run: Annotated[str, "id of the run"]
    workflow: Annotated[str, "qualified name of the workflow"]


@_event("run_ended")
class RunEnded(Event):
    """A run is over."""

    run: Annotated[str, "id of the run"]
    state: Annotated[str, "completed, failed or cancelled"]
    error: Annotated[str | None, "why it failed, or none"]


@_event("step_ended", Severity.DEBUG)
class StepEnded(Event):
    """A step of a run is over."""

    run: Annotated[str, "id of the run"]
    step: Annotated[str, "id of the step"]
    step_name: Annotated[str, "its name in the text"]
    facet: Annotated[str, "what it called"]
    error: Annotated[str | None, "why it failed, or none"]


@_event("task_queued", Severity.DEBUG)
class TaskQueued(Event):
    """A step waits for its event: a task for it can be claimed."""

    run: Annotated[str, "id of the run"]
    step: Annotated[str, "id of the step"]
    facet: Annotated[str, "what is to be done"]


@_event("task_retried", Severity.WARNING)
class TaskRetried(Event):
    """A handler failed, and the task will be tried again as the program asks."""

    run: Annotated[str, "id of the run"]
    step: Annotated[str, "id of the step"]
    facet: Annotated[str, "what is to be done"]
    failures: Annotated[int, "how often it has failed"]
    error: Annotated[str, "how it failed this time"]


@_event("phase_changed")
class PhaseChanged(Event):
    """A process went on to its next phase."""

    phase: Annotated[str, "init, warmup, ready, drain or terminate"]
    previous: Annotated[str, "the phase before it"]
    duration_s: Annotated[float, "seconds it was in that one"]
    reason: Annotated[str, "what made it go on"]


@_event("check_failed", Severity.WARNING)
class CheckFailed(Event):
    """A dependency cannot be reached, or a warmup step failed; it will be tried again."""

    check: Annotated[str, "name of the dependency or step"]
    reason: Annotated[str, "what went wrong"]


@_event("check_passed")
class CheckPassed(Event):
    """A dependency can be reached, for the first time or again, or a warmup step is done."""

    check: Annotated[str, "name of the dependency or step"]


@_event("timings_contradict", Severity.WARNING)
class TimingsContradict(Event):
    """Configured times do not fit together."""

    reason: Annotated[str, "the rule and the numbers"]


@_event("signal_handler_replaced", Severity.WARNING)
class SignalHandlerReplaced(Event):
    """Something took a signal from our handler, so this process may not hear that it is to stop."""

    signal: Annotated[str, "name of the signal"]
    holder: Annotated[str, "who handles it now"]


@_event("drain_mode_changed")
class DrainModeChanged(Event):
    """A process was told to take no work for a while, or to take work again."""

    is_on: Annotated[bool, "whether it takes no work now"]


@_event("checkpoint_requested")
class CheckpointRequested(Event):
    """A loop was asked to save what is unfinished, because the time of the drain runs out."""

    loop: Annotated[str, "name of the loop"]
    reason: Annotated[str, "what made it urgent"]


@_event("loop_failed", Severity.ERROR)
class LoopFailed(Event):
    """A loop ended with an error, so the whole process stops."""

    loop: Annotated[str, "name of the loop"]
    error: Annotated[str, "what it raised"]


@_event("loop_abandoned", Severity.ERROR)
class LoopAbandoned(Event):
    """A loop did not end in time and is left behind."""

    loop: Annotated[str, "name of the loop"]
    handler: Annotated[str, "what it was running"]
    line: Annotated[str, "where it hangs: file, line and function"]


@_event("loop_stalled", Severity.ERROR)
class LoopStalled(Event):
    """A loop gives no sign of life; the watchdog goes one stage on."""

    loop: Annotated[str, "name of the loop"]
    stage: Annotated[str, "suspected, cancelled, forced or killed"]
    silent_s: Annotated[float, "seconds without a beat and without progress"]
    limit_s: Annotated[float, "seconds it may be silent"]
    handler: Annotated[str, "the function it was running"]
    line: Annotated[str, "where it hangs: file, line and function"]


@_event("loop_recovered")
class LoopRecovered(Event):
    """A loop that seemed to hang gives signs of life again."""

    loop: Annotated[str, "name of the loop"]


#: Every kind of event there is, by name.
EVENTS: tuple[type[Event], ...] = tuple(_kinds[name] for name in sorted(_kinds))

Subscriber = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class TelemetryStatistics:
    subscribers: int
    failures: int


@dataclass(eq=False, slots=True)
class _Subscription:
    callback: Subscriber
    has_failed: bool = False


class Telemetry:
    """A place to emit to and to listen at. Processes have one; tests may have their own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures = 0
        # Replaced as a whole, never changed: who emits walks the list without the lock, so a
        # subscriber may subscribe, unsubscribe and emit.
        self._subscriptions: tuple[_Subscription, ...] = ()

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Call `callback` with each event from now on, on the thread that emits it.

        Returns the function that ends this; calling that again does nothing. An event that is
        being emitted meanwhile may still arrive.
        """
        subscription = _Subscription(callback)
        with self._lock:
            self._subscriptions = (*self._subscriptions, subscription)

        def unsubscribe() -> None:
            with self._lock:
                self._subscriptions = tuple(
                    each for each in self._subscriptions if each is not subscription
                )

        return unsubscribe

    @property
    def is_heard(self) -> bool:
        """Whether anybody listens: events for nobody need not be made."""
        return bool(self._subscriptions)

    def emit(self, event: Event) -> None:
        """Tell every subscriber, in the order of subscription. Never raises an Exception."""
        for subscription in self._subscriptions:
            try:
                subscription.callback(event)
            except Exception:
                self._note_failure(subscription, event)

    def _note_failure(self, subscription: _Subscription, event: Event) -> None:
        with self._lock:
            self._failures += 1
            is_first, subscription.has_failed = not subscription.has_failed, True
        # Once: a broken exporter must not fill the disk with one traceback per event.
        if is_first:
            _log.exception(
                "telemetry subscriber %r failed on %s; later failures of it are only counted",
                subscription.callback,
                event.name,
            )

    def statistics(self) -> TelemetryStatistics:
        with self._lock:
            return TelemetryStatistics(len(self._subscriptions), self._failures)


#: The telemetry of this process.
TELEMETRY = Telemetry()

emit = TELEMETRY.emit
subscribe = TELEMETRY.subscribe
