"""Between our messages and those of the Anthropic API. Knows the format, calls nobody."""

from __future__ import annotations

from typing import Any

from afl.agents.model import (
    ANY_TOOL,
    Message,
    ModelAnswer,
    ModelRequest,
    Opaque,
    Part,
    StopReason,
    Text,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
)
from afl.agents.text import readable
from afl.error_text import storable

_STOPS = {
    "end_turn": StopReason.END,
    "stop_sequence": StopReason.END,
    "tool_use": StopReason.TOOL_USE,
    "max_tokens": StopReason.MAX_TOKENS,
    "model_context_window_exceeded": StopReason.MAX_TOKENS,
    "refusal": StopReason.REFUSAL,
}


class Truncated(Exception):  # noqa: N818 - becomes a ModelUnavailable
    """The answer ends before its end."""


def arguments_of(request: ModelRequest) -> dict[str, Any]:
    """What `messages.create` and `messages.stream` are called with."""
    arguments: dict[str, Any] = {
        "model": request.model,
        "max_tokens": request.max_tokens,
        "messages": [_message(each) for each in request.messages],
    }
    if request.system:
        arguments["system"] = request.system
    if request.tools:
        arguments["tools"] = [_tool(each) for each in request.tools]
    if request.must_use == ANY_TOOL:
        arguments["tool_choice"] = {"type": "any"}
    elif request.must_use is not None:
        arguments["tool_choice"] = {"type": "tool", "name": request.must_use}
    # Text that is no Unicode cannot be sent, and would end a turn whose tools have acted.
    return {name: readable(value) for name, value in arguments.items()}


def answer_of(message: Any) -> ModelAnswer:
    """What the service answered. Raises Truncated: the client takes a stream that was cut, and a
    body that is no message at all, for an answer."""
    stop = getattr(message, "stop_reason", None)
    if stop is None:
        raise Truncated("the connection ended in the middle of the answer")
    return ModelAnswer(
        tuple(_part(each) for each in message.content or ()),
        _STOPS.get(stop, StopReason.OTHER),
        _usage(getattr(message, "usage", None)),
        getattr(message, "model", None) or "",
    )


def heard(stream: Any) -> Any:
    """The message of a stream that is over. Raises Truncated if it never began."""
    try:
        return stream.current_message_snapshot
    except AssertionError:
        raise Truncated("the connection ended before the answer") from None


def _message(message: Message) -> dict[str, Any]:
    return {"role": str(message.role), "content": [_block(each) for each in message.parts]}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": dict(tool.schema),
    }


def _block(part: Part) -> dict[str, Any]:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case ToolCall(call_id, name, arguments):
            return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
        case ToolResult(call_id, content, is_error):
            result = {"type": "tool_result", "tool_use_id": call_id, "content": content}
            return {**result, "is_error": True} if is_error else result
        case Opaque(data):
            return dict(data)


def _part(block: Any) -> Part:
    if block.type == "text":
        return Text(storable(block.text))
    if block.type == "tool_use":
        return ToolCall(block.id, block.name, readable(block.input))
    return Opaque(block.model_dump(mode="json", exclude_unset=True))


def _usage(usage: Any) -> Usage:
    def count(name: str) -> int:
        return getattr(usage, name, None) or 0

    return Usage(
        count("input_tokens"),
        count("output_tokens"),
        count("cache_read_input_tokens"),
        count("cache_creation_input_tokens"),
    )
