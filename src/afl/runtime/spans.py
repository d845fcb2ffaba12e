"""Spans of runs, steps, handlers and model calls, for OpenTelemetry.

A run is one trace. Its parts happen in many processes, and nobody carries anything between them:
the ids of the trace and of its spans follow from the ids of the run, its steps and their claims.
The API cannot ask for an id, so the generator of our tracer is wrapped; with a tracer that has
none, spans get ids of their own, and their parents are not found.

Runs and steps are told when they are over, with the time that they began. The span of a handler is
the current one while it works, so that its own spans, and model calls, are below it. Attempts at
the same task are linked.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from hashlib import sha256
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    TracerProvider,
)

from afl.runtime.entities import TaskDefinition
from afl.runtime.persistence import child_id
from afl.telemetry import Event, ModelCalled, ModelCallRetried, RunEnded, StepEnded

_NOBODY = Context()


class Spans:
    """Makes spans. Safe from any thread."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._given = provider
        self._tracer: tuple[TracerProvider, Tracer] | None = None
        self._wanted = _Wanted()

    def hear(self, event: Event) -> None:
        """Take what an event tells; for `telemetry.subscribe`."""
        if isinstance(event, StepEnded):
            self._tell_step(event)
        elif isinstance(event, RunEnded):
            self._tell_run(event)
        elif isinstance(event, ModelCalled):
            self._tell_model_call(event)
        elif isinstance(event, ModelCallRetried):
            trace.get_current_span().add_event(
                event.name, {"attempt": event.attempt, "error": event.error}
            )

    # Handlers

    @contextmanager
    def handling(self, task: TaskDefinition) -> Iterator[None]:
        span = self._handler_span(task)
        with trace.use_span(span, end_on_exit=True):
            yield

    def handled(self, task: TaskDefinition, began: int, ended: int, error: str | None) -> None:
        span = self._handler_span(task, start_time=began * 1_000_000)
        _end(span, error, ended * 1_000_000)

    def _handler_span(self, task: TaskDefinition, start_time: int | None = None) -> Span:
        return self._start(
            f"handler {task.name}",
            task.workflow_id,
            _claim_key(task, task.fence),
            within=task.step_id,
            kind=SpanKind.CONSUMER,
            links=self._earlier_attempts(task),
            start_time=start_time,
            attributes={
                "afl.run": task.workflow_id,
                "afl.step": task.step_id,
                "afl.facet": task.name,
                "afl.attempt": task.failures + max(task.deliveries, 1),
                "afl.idempotency_key": task.idempotency_key,
            },
        )

    def _earlier_attempts(self, task: TaskDefinition) -> list[Link]:
        fence = _fence_before(task)
        if fence < 1:
            return []
        return [Link(self._place(task.workflow_id, _claim_key(task, fence)))]

    # What is over

    def _tell_run(self, event: RunEnded) -> None:
        span = self._start(
            f"run {event.workflow}",
            event.run,
            _root(event.run),
            start_time=_began(event.at, event.duration_s),
            attributes={
                "afl.run": event.run,
                "afl.workflow": event.workflow,
                "afl.state": event.state,
            },
        )
        _end(span, event.error, _nanoseconds(event.at))

    def _tell_step(self, event: StepEnded) -> None:
        span = self._start(
            f"step {event.step_name}",
            event.run,
            event.step,
            within=event.within,
            start_time=_began(event.at, event.duration_s),
            attributes={"afl.run": event.run, "afl.step": event.step, "afl.facet": event.facet},
        )
        _end(span, event.error, _nanoseconds(event.at))

    def _tell_model_call(self, event: ModelCalled) -> None:
        # Emitted by whoever asked the model, in the middle of the handler's span.
        span = self._find_tracer().start_span(
            f"chat {event.model}",
            kind=SpanKind.CLIENT,
            start_time=_began(event.at, event.duration_s),
            attributes={
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": event.model,
                "gen_ai.usage.input_tokens": event.input_tokens,
                "gen_ai.usage.output_tokens": event.output_tokens,
                "afl.attempts": event.attempts,
            },
        )
        span.end(_nanoseconds(event.at))

    # Ids

    def _start(
        self,
        name: str,
        run: str,
        key: str,
        *,
        within: str | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        links: Sequence[Link] = (),
        start_time: int | None = None,
        attributes: dict[str, Any],
    ) -> Span:
        tracer = self._find_tracer()
        parent = _NOBODY
        if within is not None:
            parent = trace.set_span_in_context(NonRecordingSpan(self._place(run, within)), _NOBODY)
        with self._wanted.ids(_trace_id(run), _span_id(key)):
            return tracer.start_span(name, parent, kind, attributes, links, start_time)

    def _place(self, run: str, key: str) -> SpanContext:
        """Where a span is, or will be, whoever makes it."""
        is_sampled = _is_sampled(self._find_tracer(), _trace_id(run))
        flags = TraceFlags(TraceFlags.SAMPLED if is_sampled else TraceFlags.DEFAULT)
        return SpanContext(_trace_id(run), _span_id(key), is_remote=True, trace_flags=flags)

    def _find_tracer(self) -> Tracer:
        """Of the provider at hand: programs may set up OpenTelemetry later than us."""
        provider = self._given or trace.get_tracer_provider()
        known = self._tracer
        if known is not None and known[0] is provider:
            return known[1]
        tracer = provider.get_tracer("afl")
        usual = getattr(tracer, "id_generator", None)
        if usual is not None:
            setattr(tracer, "id_generator", _Ids(usual, self._wanted))  # noqa: B010 - not of the API
        self._tracer = (provider, tracer)
        return tracer


class _Wanted(threading.local):
    """The ids that the next span of this thread is to have; 0: any."""

    trace_id = 0
    span_id = 0

    @contextmanager
    def ids(self, trace_id: int, span_id: int) -> Iterator[None]:
        self.trace_id, self.span_id = trace_id, span_id
        try:
            yield
        finally:
            self.trace_id = self.span_id = 0


class _Ids:
    """The generator of a tracer, which gives the ids that are wanted, if any are."""

    def __init__(self, usual: Any, wanted: _Wanted) -> None:
        self._usual = usual
        self._wanted = wanted

    def generate_trace_id(self) -> int:
        return self._wanted.trace_id or int(self._usual.generate_trace_id())

    def generate_span_id(self) -> int:
        return self._wanted.span_id or int(self._usual.generate_span_id())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._usual, name)


def _is_sampled(tracer: Tracer, trace_id: int) -> bool:
    """Whether the trace is kept, as far as its id decides that: in all processes alike."""
    sampler = getattr(tracer, "sampler", None)
    if sampler is None:
        return True
    return bool(sampler.should_sample(_NOBODY, trace_id, "run").decision.is_sampled())


def _trace_id(run: str) -> int:
    return _number(f"run {run}", 16)


def _span_id(key: str) -> int:
    return _number(f"span {key}", 8)


def _number(text: str, size: int) -> int:
    """Evenly spread, as samplers expect; and 0 is no id."""
    return int.from_bytes(sha256(text.encode()).digest()[:size], "big") or 1


def _root(run: str) -> str:
    return child_id(run, "root")


def _claim_key(task: TaskDefinition, fence: int) -> str:
    return f"{task.uuid} {fence}"


def _fence_before(task: TaskDefinition) -> int:
    """The fence of the attempt before this one; below 1 if it is the first.

    Claims count the fence up, and so does an end, after which an operator may have tried again.
    """
    is_first_of_its_life = task.failures + max(task.deliveries, 1) == 1
    return task.fence - 2 if is_first_of_its_life else task.fence - 1


# Times and ends


def _nanoseconds(at: datetime) -> int:
    return round(at.timestamp() * 1_000_000) * 1000


def _began(at: datetime, duration_s: float) -> int:
    return _nanoseconds(at) - round(duration_s * 1_000_000) * 1000


def _end(span: Span, error: str | None, at: int) -> None:
    if error is not None:
        span.set_status(Status(StatusCode.ERROR, error))
    span.end(at)
