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
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar, TypeVar, get_type_hints

import msgspec

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


# Structs, because every process makes all these classes when it starts: as dataclasses they took a
# twentieth of that.
class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened, at a time read from the emitter's clock."""

    name: ClassVar[str] = ""
    severity: ClassVar[Severity] = Severity.INFO
    #: Whether its emitter logs it too, so that it is read also where nobody subscribes.
    is_logged: ClassVar[bool] = False

    at: Annotated[datetime, "when it happened"]

    @classmethod
    def meaning(cls) -> str:
        """What this kind of event tells, in one sentence."""
        return " ".join((cls.__doc__ or "").split())

    @classmethod
    def field_meanings(cls) -> dict[str, tuple[str, str]]:
        """For each field its type and what it holds, in the order of the class."""
        hints = get_type_hints(cls, include_extras=True)
        described = {each: hints[each] for each in cls.__struct_fields__}
        return {name: (_type_name(hint), hint.__metadata__[0]) for name, hint in described.items()}

    def facts(self) -> dict[str, Any]:
        """The fields as a flat mapping, for log lines and labels."""
        return msgspec.structs.asdict(self)


def _type_name(hint: Any) -> str:
    inner = hint.__origin__
    return inner.__name__ if isinstance(inner, type) else str(inner)


_E = TypeVar("_E", bound=Event)
_kinds: dict[str, type[Event]] = {}


def _event(
    name: str, severity: Severity = Severity.INFO, *, is_logged: bool = False
) -> Callable[[type[_E]], type[_E]]:
    """Make the class a kind of event and put it on the list."""

    def enlist(kind: type[_E]) -> type[_E]:
        kind.name, kind.severity, kind.is_logged = name, severity, is_logged
        if _kinds.setdefault(name, kind) is not kind:
            raise ValueError(f"two kinds of event are called {name}")
        return kind

    return enlist


@_event("config_loaded")
class ConfigLoaded(Event, frozen=True, kw_only=True):
    """The settings of this process were read and are valid."""

    file: Annotated[str | None, "path of the settings file, or none"]
    overrides: Annotated[int, "settings given by a flag, a variable or the file"]


@_event("program_compiled")
class ProgramCompiled(Event, frozen=True, kw_only=True):
    """AFL text was compiled into a program."""

    sources: Annotated[int, "source files read"]
    declarations: Annotated[int, "declarations in the program"]
    duration_s: Annotated[float, "seconds from text to program"]
    warnings: Annotated[int, "warnings shown to the author"]


@_event("run_started")
class RunStarted(Event, frozen=True, kw_only=True):
    """A run was accepted: from here on it ends in a recorded outcome."""

    run: Annotated[str, "id of the run"]
    workflow: Annotated[str, "qualified name of the workflow"]


@_event("run_ended")
class RunEnded(Event, frozen=True, kw_only=True):
    """A run is over."""

    run: Annotated[str, "id of the run"]
    workflow: Annotated[str, "qualified name of the workflow"]
    state: Annotated[str, "completed, failed or cancelled"]
    error: Annotated[str | None, "why it failed, or none"]
    duration_s: Annotated[float, "seconds since it was accepted"]


@_event("step_ended", Severity.DEBUG)
class StepEnded(Event, frozen=True, kw_only=True):
    """A step of a run is over."""

    run: Annotated[str, "id of the run"]
    step: Annotated[str, "id of the step"]
    step_name: Annotated[str, "its name in the text"]
    facet: Annotated[str, "what it called"]
    error: Annotated[str | None, "why it failed, or none"]
    within: Annotated[str, "id of the step whose blocks it is in"]
    duration_s: Annotated[float, "seconds since the first thing that it waits for was there"]


@_event("task_queued", Severity.DEBUG)
class TaskQueued(Event, frozen=True, kw_only=True):
    """A step waits for its event: a task for it can be claimed."""

    run: Annotated[str, "id of the run"]
    step: Annotated[str, "id of the step"]
    facet: Annotated[str, "what is to be done"]


@_event("task_retried", Severity.WARNING)
class TaskRetried(Event, frozen=True, kw_only=True):
    """A handler failed, and the task will be tried again as the program asks."""

    run: Annotated[str, "id of the run"]
    step: Annotated[str, "id of the step"]
    facet: Annotated[str, "what is to be done"]
    failures: Annotated[int, "how often it has failed"]
    error: Annotated[str, "how it failed this time"]


@_event("task_discarded", Severity.WARNING)
class TaskDiscarded(Event, frozen=True, kw_only=True):
    """An operator gave a task up: nobody will do it."""

    run: Annotated[str, "id of the run"]
    step: Annotated[str, "id of the step"]
    facet: Annotated[str, "what was to be done"]
    reason: Annotated[str, "what the operator said"]


@_event("result_undeclared", Severity.WARNING)
class ResultUndeclared(Event, frozen=True, kw_only=True):
    """A handler gave other values than its event facet declares; the run goes on with them."""

    run: Annotated[str, "id of the run"]
    step: Annotated[str, "id of the step"]
    facet: Annotated[str, "what was done"]
    missing: Annotated[str, "names that were declared and not given"]
    undeclared: Annotated[str, "names that were given and not declared"]


@_event("phase_changed")
class PhaseChanged(Event, frozen=True, kw_only=True):
    """A process went on to its next phase."""

    phase: Annotated[str, "init, warmup, ready, drain or terminate"]
    previous: Annotated[str, "the phase before it"]
    duration_s: Annotated[float, "seconds it was in that one"]
    reason: Annotated[str, "what made it go on"]


@_event("check_failed", Severity.WARNING)
class CheckFailed(Event, frozen=True, kw_only=True):
    """A dependency cannot be reached, or a warmup step failed; it will be tried again."""

    check: Annotated[str, "name of the dependency or step"]
    reason: Annotated[str, "what went wrong"]


@_event("check_passed")
class CheckPassed(Event, frozen=True, kw_only=True):
    """A dependency can be reached, for the first time or again, or a warmup step is done."""

    check: Annotated[str, "name of the dependency or step"]


@_event("health_served")
class HealthServed(Event, frozen=True, kw_only=True):
    """Probes are answered from now on."""

    host: Annotated[str, "address it listens at"]
    port: Annotated[int, "port it listens at"]


@_event("timings_contradict", Severity.WARNING, is_logged=True)
class TimingsContradict(Event, frozen=True, kw_only=True):
    """Configured times do not fit together."""

    reason: Annotated[str, "the rule and the numbers"]


@_event("signal_handler_replaced", Severity.WARNING, is_logged=True)
class SignalHandlerReplaced(Event, frozen=True, kw_only=True):
    """Something took a signal from our handler, so this process may not hear that it is to stop."""

    signal: Annotated[str, "name of the signal"]
    holder: Annotated[str, "who handles it now"]


@_event("drain_mode_changed")
class DrainModeChanged(Event, frozen=True, kw_only=True):
    """A process was told to take no work for a while, or to take work again."""

    is_on: Annotated[bool, "whether it takes no work now"]


@_event("checkpoint_requested")
class CheckpointRequested(Event, frozen=True, kw_only=True):
    """A loop was asked to save what is unfinished, because the time of the drain runs out."""

    loop: Annotated[str, "name of the loop"]
    reason: Annotated[str, "what made it urgent"]


@_event("loop_failed", Severity.ERROR)
class LoopFailed(Event, frozen=True, kw_only=True):
    """A loop ended with an error, so the whole process stops."""

    loop: Annotated[str, "name of the loop"]
    error: Annotated[str, "what it raised"]


@_event("loop_abandoned", Severity.ERROR, is_logged=True)
class LoopAbandoned(Event, frozen=True, kw_only=True):
    """A loop did not end in time and is left behind."""

    loop: Annotated[str, "name of the loop"]
    handler: Annotated[str, "what it was running"]
    line: Annotated[str, "where it hangs: file, line and function"]


@_event("loop_stalled", Severity.ERROR)
class LoopStalled(Event, frozen=True, kw_only=True):
    """A loop gives no sign of life; the watchdog goes one stage on."""

    loop: Annotated[str, "name of the loop"]
    stage: Annotated[str, "suspected, cancelled, forced or killed"]
    silent_s: Annotated[float, "seconds without a beat and without progress"]
    limit_s: Annotated[float, "seconds it may be silent"]
    handler: Annotated[str, "the function it was running"]
    line: Annotated[str, "where it hangs: file, line and function"]


@_event("loop_recovered")
class LoopRecovered(Event, frozen=True, kw_only=True):
    """A loop that seemed to hang gives signs of life again."""

    loop: Annotated[str, "name of the loop"]


@_event("model_called")
class ModelCalled(Event, frozen=True, kw_only=True):
    """A model answered."""

    model: Annotated[str, "name of the model that was asked"]
    input_tokens: Annotated[int, "tokens of the request, also those that were cached"]
    output_tokens: Annotated[int, "tokens of the answer"]
    duration_s: Annotated[float, "seconds from the first attempt to the answer"]
    attempts: Annotated[int, "how often the service was called for it"]


@_event("model_call_retried", Severity.WARNING)
class ModelCallRetried(Event, frozen=True, kw_only=True):
    """A model service could not answer; it will be called again."""

    model: Annotated[str, "name of the model that was asked"]
    attempt: Annotated[int, "which one failed, counted from 1"]
    wait_s: Annotated[float, "seconds until the next one"]
    error: Annotated[str, "what went wrong"]


@_event("message_dead_lettered", Severity.WARNING)
class MessageDeadLettered(Event, frozen=True, kw_only=True):
    """A message that cannot be handled waits for a person among the dead letters."""

    mailbox: Annotated[str, "name of the mailbox that it was sent to"]
    message: Annotated[str, "id of the message"]
    deliveries: Annotated[int, "how often it was delivered"]
    reason: Annotated[str, "why it cannot be handled"]


@_event("dead_letter_mailbox_failed", Severity.ERROR)
class DeadLetterMailboxFailed(Event, frozen=True, kw_only=True):
    """A dead letter could not be sent to the mailbox meant for it; it stays with its own."""

    mailbox: Annotated[str, "name of the mailbox that the message was sent to"]
    message: Annotated[str, "id of the message"]
    target: Annotated[str, "name of the mailbox for dead letters"]
    reason: Annotated[str, "why it did not take the letter"]


@_event("dead_letters_redriven")
class DeadLettersRedriven(Event, frozen=True, kw_only=True):
    """Dead letters were sent again."""

    mailbox: Annotated[str, "name of the mailbox"]
    count: Annotated[int, "how many it were"]


@_event("reply_unresolved", Severity.ERROR)
class ReplyUnresolved(Event, frozen=True, kw_only=True):
    """A message asks for replies to a mailbox that cannot be found."""

    mailbox: Annotated[str, "name of the mailbox that it was sent to"]
    message: Annotated[str, "id of the message"]
    reply_to: Annotated[str, "name of the mailbox that waits for the reply"]
    reason: Annotated[str, "why it cannot be found"]


@_event("reply_not_sent", Severity.ERROR)
class ReplyNotSent(Event, frozen=True, kw_only=True):
    """What came of a message could not be told to whoever waits for it."""

    mailbox: Annotated[str, "name of the mailbox that the message was sent to"]
    message: Annotated[str, "id of the message"]
    reason: Annotated[str, "why the reply could not be sent"]


@_event("turn_ended")
class TurnEnded(Event, frozen=True, kw_only=True):
    """An agent is done with a request, or failed; its reply follows."""

    loop: Annotated[str, "name of the loop"]
    request: Annotated[str, "id of the request"]
    attempt: Annotated[int, "which delivery of the request it was, counted from 1"]
    status: Annotated[str, "done, failed or suspended"]
    error: Annotated[str | None, "why it failed, or none"]
    duration_s: Annotated[float, "seconds since the turn began"]


@_event("sample_evaluated")
class SampleEvaluated(Event, frozen=True, kw_only=True):
    """An agent was tried on a sample; its result follows."""

    loop: Annotated[str, "name of the loop"]
    request: Annotated[str, "id of the request"]
    evaluation: Annotated[str | None, "id of the evaluation, or none"]
    experiment: Annotated[str, "name of the experiment"]
    sample: Annotated[str, "id of the sample"]
    passed: Annotated[bool, "whether it passed"]
    error: Annotated[str | None, "why it has no score, or none"]
    duration_s: Annotated[float, "seconds that the agent took; 0 if it failed"]


@_event("turn_checkpointed")
class TurnCheckpointed(Event, frozen=True, kw_only=True):
    """A turn was left before its end; what is known about it is kept, and it can go on."""

    turn: Annotated[str, "id of the turn"]
    loop: Annotated[str, "name of the loop"]
    checkpoint: Annotated[str, "id of the checkpoint: the turn, and how far its journal goes"]
    state: Annotated[str, "suspended, waiting or mismatched"]
    reason: Annotated[str, "why it was left"]


@_event("turn_handed_over")
class TurnHandedOver(Event, frozen=True, kw_only=True):
    """A loop that stops has left a turn to another one that is ready: it goes on there."""

    turn: Annotated[str, "id of the turn"]
    loop: Annotated[str, "name of the loop"]
    checkpoint: Annotated[str, "id of the checkpoint: the turn, and how far its journal goes"]
    taker: Annotated[str, "who has said to be ready; another one may be faster"]


@_event("turn_accepted")
class TurnAccepted(Event, frozen=True, kw_only=True):
    """A turn came over HTTP, and is kept: from here on it ends in a recorded outcome."""

    turn: Annotated[str, "id of the turn"]
    loop: Annotated[str, "name of the loop that is to do it"]
    caller: Annotated[str, "name of the token that it came with"]


@_event("stream_opened", Severity.DEBUG)
class StreamOpened(Event, frozen=True, kw_only=True):
    """Somebody follows a turn over HTTP."""

    turn: Annotated[str, "id of the turn"]
    loop: Annotated[str, "name of the loop"]
    caller: Annotated[str, "name of the token"]
    after: Annotated[str, "place behind which it begins; 0 is the beginning"]


@_event("stream_closed", Severity.DEBUG)
class StreamClosed(Event, frozen=True, kw_only=True):
    """Nobody follows a turn any more, here."""

    turn: Annotated[str, "id of the turn"]
    loop: Annotated[str, "name of the loop"]
    caller: Annotated[str, "name of the token"]
    events: Annotated[int, "events that were sent"]
    reason: Annotated[str, "why it ended"]
    duration_s: Annotated[float, "seconds that it was open"]


@_event("operator_acted")
class OperatorActed(Event, frozen=True, kw_only=True):
    """Somebody did something by the dashboard, its API or MCP, or tried to."""

    caller: Annotated[str, "name of the token; of MCP, the role"]
    action: Annotated[str, "what was done, such as cancel_run, or the tool"]
    subject: Annotated[str, "what it was done to"]
    outcome: Annotated[str, "done, or why not"]


@_event("bundle_not_written", Severity.WARNING)
class BundleNotWritten(Event, frozen=True, kw_only=True):
    """What is known about a turn could not be kept for debugging; the turn itself is fine."""

    request: Annotated[str, "id of the request"]
    reason: Annotated[str, "what went wrong"]


@_event("claim_lost", Severity.WARNING, is_logged=True)
class ClaimLost(Event, frozen=True, kw_only=True):
    """Somebody else has a piece of work now, or it is over, so what was done here is refused."""

    work: Annotated[str, "what it was, as people name it"]


@_event("thread_abandoned", Severity.ERROR, is_logged=True)
class ThreadAbandoned(Event, frozen=True, kw_only=True):
    """A thread was still at work when that was given up: it may hang, or end a moment later;
    another one takes its place."""

    work: Annotated[str, "what it was, as people name it"]
    handler: Annotated[str, "what it was running"]
    line: Annotated[str, "where it was then: file, line and function"]


@_event("server_lost", Severity.ERROR, is_logged=True)
class ServerLost(Event, frozen=True, kw_only=True):
    """A server ended without a shutdown; who took its place noticed."""

    server: Annotated[str, "id of the server"]
    service: Annotated[str, "name of its service"]
    host: Annotated[str, "machine it ran on"]
    pid: Annotated[int, "its process there"]
    reason: Annotated[str, "what shows that it is gone"]


@_event("handler_not_loaded", Severity.ERROR, is_logged=True)
class HandlerNotLoaded(Event, frozen=True, kw_only=True):
    """A registration names a handler that a worker cannot load, so it does not serve the facet."""

    facet: Annotated[str, "the facet of the registration"]
    server: Annotated[str, "id of the worker's server"]
    error: Annotated[str, "what went wrong"]


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
