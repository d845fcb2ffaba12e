"""How a run ended, for people and for programs: what `afl run` and `afl submit --wait` print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from afl.cli.common import INTERRUPTED, OK, PROBLEMS, write_out

if TYPE_CHECKING:
    from afl.runtime.entities import RunnerDefinition


def report(
    record: RunnerDefinition,
    outputs: dict[str, Any],
    as_json: bool,
    more: Mapping[str, Any] | None = None,
) -> int:
    """Print how a run stands, for programs with `more`; the exit code that says so."""
    from afl.runtime.entities import RunnerState

    if as_json:
        write_out(_as_json(record, outputs, more or {}))
    elif record.state == RunnerState.COMPLETED:
        write_out(_as_text(outputs))
    if record.state == RunnerState.FAILED:
        typer.echo(f"Run {record.workflow_id} failed: {_failure(record)}", err=True)
    if record.state == RunnerState.CANCELLED:
        typer.echo(f"Run {record.workflow_id} was cancelled.", err=True)
    if not record.is_over:
        return INTERRUPTED
    return OK if record.state == RunnerState.COMPLETED else PROBLEMS


def _as_json(record: RunnerDefinition, outputs: dict[str, Any], more: Mapping[str, Any]) -> str:
    from json import dumps

    answer = {
        "run": record.workflow_id,
        "status": record.state,
        "outputs": outputs,
        "error": record.error,
        "duration_s": record.duration / 1000 if record.is_over else None,
        **more,
    }
    return dumps(answer, indent=2, ensure_ascii=False)


def _as_text(outputs: dict[str, Any]) -> str:
    from json import dumps

    width = max(map(len, outputs), default=0)
    lines = []
    for name, value in outputs.items():
        text = value if isinstance(value, str) else dumps(value, ensure_ascii=False)
        # Further lines stand below the first one.
        below = text.replace("\n", "\n" + " " * (width + 2))
        lines.append(f"{name:<{width}}  {below}".rstrip())
    return "\n".join(lines)


def _failure(record: RunnerDefinition) -> str:
    """Why a run failed, and where in the text."""
    from afl.lang.diagnostics import display_name

    error = record.error or {}
    message = str(error.get("message") or "for no recorded reason")
    if "line" not in error:
        return message
    place = f"{display_name(error.get('source'))}:{error['line']}:{error.get('column', 1)}"
    step = f"step {error['step']}: " if error.get("step") else ""
    return f"{place}: {step}{message}"
