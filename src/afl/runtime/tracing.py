"""Traces: off and free until `install` is called, which needs the extra `otel`.

Nothing here is imported from OpenTelemetry before; `afl.runtime.spans` makes the spans.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from afl.errors import UsageError
from afl.runtime.entities import TaskDefinition
from afl.telemetry import TELEMETRY, Telemetry

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from afl.runtime.spans import Spans

_NOTHING = nullcontext()
_installing = threading.Lock()
_spans: Spans | None = None


def install(
    telemetry: Telemetry = TELEMETRY, provider: TracerProvider | None = None
) -> Callable[[], None]:
    """Make spans of runs, steps, handlers and model calls in this process from now on.

    They go to `provider`, or to the one that OpenTelemetry is set up with. Returns the function
    that ends this. Raises UsageError without the extra, and if it is installed already.
    """
    try:
        from afl.runtime.spans import Spans
    except ImportError as error:
        raise UsageError(
            f"traces need OpenTelemetry ({error}); install it with: pip install 'afl[otel]'"
        ) from error
    global _spans
    with _installing:
        if _spans is not None:
            raise UsageError("traces are on already; end them first, or leave them on")
        spans = _spans = Spans(provider)
    unsubscribe = telemetry.subscribe(spans.hear)

    def uninstall() -> None:
        global _spans
        unsubscribe()
        with _installing:
            if _spans is spans:
                _spans = None

    return uninstall


def is_on() -> bool:
    return _spans is not None


def handling(task: TaskDefinition) -> AbstractContextManager[object]:
    """What a handler does in here is part of the span of its task."""
    spans = _spans
    return _NOTHING if spans is None else spans.handling(task)


def handled(task: TaskDefinition, began: int, ended: int, error: str | None) -> None:
    """A handler has done a task elsewhere, between these milliseconds since 1970."""
    if _spans is not None:
        _spans.handled(task, began, ended, error)
