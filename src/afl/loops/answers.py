"""Answers of models as values that can be JSON, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import msgspec

from afl.agents.model import ModelAnswer, Opaque, Part, StopReason, Text, ToolCall, Usage

#: Which class each kind of part is; their names are in journals, so they stay.
_PARTS: dict[str, type[Text] | type[ToolCall] | type[Opaque]] = {
    "text": Text,
    "tool_call": ToolCall,
    "opaque": Opaque,
}
_KINDS = {part: kind for kind, part in _PARTS.items()}


def answer_to_json(answer: ModelAnswer) -> dict[str, Any]:
    return {
        "parts": [_part_to_json(each) for each in answer.parts],
        "stop": answer.stop.value,
        "usage": asdict(answer.usage),
        "model": answer.model,
    }


def answer_from_json(value: Mapping[str, Any]) -> ModelAnswer:
    parts = tuple(msgspec.convert(each, _PARTS[kind]) for kind, each in value["parts"])
    usage = msgspec.convert(value["usage"], Usage)
    return ModelAnswer(parts, StopReason(value["stop"]), usage, value["model"])


def _part_to_json(part: Part) -> tuple[str, Any]:
    kind = _KINDS.get(type(part))  # type: ignore[arg-type]
    assert kind is not None, "models answer with text, tool calls and what only they understand"
    return kind, msgspec.to_builtins(part)
