"""Finding what a call names, with words for whoever can only call again."""

from __future__ import annotations

from afl.errors import NotFound
from afl.mcp.backend import Backend
from afl.operations import handlers, records
from afl.runtime.entities import HandlerRegistration, RunnerDefinition
from afl.runtime.step import StepDefinition


def required_run(backend: Backend, text: str, what: str = "Run") -> RunnerDefinition:
    """Raises NotFound, UsageError."""
    try:
        return records.runner(backend.store, text)
    except NotFound:
        raise NotFound(f"{what} '{text}' not found; afl_runs lists those there are") from None


def required_step(backend: Backend, text: str) -> StepDefinition:
    """Raises NotFound."""
    try:
        return records.step(backend.store, text)
    except NotFound:
        raise NotFound(
            f"Step '{text}' not found; afl_runs with a workflow_id and steps lists them"
        ) from None


def required_handler(backend: Backend, facet: str) -> HandlerRegistration:
    """Raises NotFound."""
    try:
        return handlers.find(backend.store, facet)
    except NotFound:
        raise NotFound(
            f"Handler '{facet}' not found; afl_manage_handlers with action list shows those there "
            "are"
        ) from None
