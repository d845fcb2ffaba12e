"""What a model is told about a step: the words of its `prompt`, or ours where it has none."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

#: `{name}` stands for a parameter; `{{` and `}}` are braces.
_PLACE = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}")


def fill(template: str, values: Mapping[str, Any]) -> str:
    """The template with its placeholders filled in; one that has no value stays as it is."""

    def filled(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return match[0][0]
        return as_text(values[name]) if name in values else match[0]

    return _PLACE.sub(filled, template)


def as_text(value: Any) -> str:
    """Text as it is, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def parameters_of(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a step, without what the runtime adds to them."""
    return {name: each for name, each in payload.items() if not name.startswith("_")}


def usual_system(workflow: str) -> str:
    within = f" of the workflow {workflow}" if workflow else ""
    return (
        f"You do one step{within}. Answer with the tool that you are given; its fields are the "
        "result of the step, and nothing else of your answer is kept."
    )


def usual_prompt(facet: str, values: Mapping[str, Any]) -> str:
    lines = [f"Step: {facet}"] if facet else []
    lines += ["Parameters:", *(f"- {name}: {as_text(each)}" for name, each in values.items())]
    return "\n".join(lines if values else lines[:-1]) or "There are no parameters."


def with_task(system: str, task: str | None) -> str:
    """The system text, with what the whole run is about."""
    return f"{system}\n\nThe task that this is a part of: {task}" if task else system
