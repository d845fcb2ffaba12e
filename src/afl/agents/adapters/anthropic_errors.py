"""What an error of the Anthropic client means: try again, or tell the caller."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import Any

from afl.agents.adapters.anthropic_wire import Truncated
from afl.clock import Clock

_TRANSIENT_STATUSES = frozenset({408, 409, 429})
#: Errors in the middle of a stream come under the status 200.
_TRANSIENT_TYPES = frozenset({"overloaded_error", "api_error", "rate_limit_error", "timeout_error"})
_KEY_STATUSES = frozenset({401, 403})
_WRONG_KEY = 401
_OVERLOADED = 529


def is_of_service(error: Exception) -> bool:
    """Whether it is about the call; else it is a mistake in somebody's code."""
    import anthropic

    return isinstance(error, Truncated | anthropic.AnthropicError) or _is_of_http(error)


def is_transient(error: Exception) -> bool:
    """Whether the same request may succeed later."""
    import anthropic

    if isinstance(error, anthropic.APIStatusError):
        if error.status_code < 400:
            return _type_of(error) in _TRANSIENT_TYPES
        return error.status_code in _TRANSIENT_STATUSES or error.status_code >= 500
    return isinstance(error, Truncated | anthropic.APIConnectionError) or _is_of_http(error)


def is_there(error: Exception) -> bool:
    """Whether whoever refused like this could answer others: it is busy, or has no such list."""
    status = getattr(error, "status_code", None)
    return status is not None and status != _WRONG_KEY and (status < 500 or status == _OVERLOADED)


def _is_of_http(error: Exception) -> bool:
    """A connection that breaks within a stream shows through as an error of the HTTP library."""
    return type(error).__module__.partition(".")[0].startswith("httpx")


def retry_after(error: Exception, clock: Clock) -> float:
    """Seconds that the service wants to be left alone; 0 if it says nothing."""
    response = getattr(error, "response", None)
    value = response.headers.get("retry-after") if response is not None else None
    if value is None:
        return 0.0
    try:
        return max(0.0, float(value))
    except ValueError:
        return _until(value, clock)


def described(error: Exception) -> str:
    """The error in one sentence, with the advice that fits it."""
    status = getattr(error, "status_code", None)
    kind = _type_of(error) or type(error).__name__
    message = _message_of(error)
    text = f"{kind}: {message}" if status is None else f"{status} {kind}: {message}"
    if status in _KEY_STATUSES:
        text += "; check ANTHROPIC_API_KEY, and that it may use this model"
    return text


def _until(date: str, clock: Clock) -> float:
    try:
        return max(0.0, (parsedate_to_datetime(date) - clock.now()).total_seconds())
    except (ValueError, TypeError):  # neither a number nor a date with a time zone
        return 0.0


def _body_error(error: Exception) -> dict[str, Any]:
    body = getattr(error, "body", None)
    found = body.get("error") if isinstance(body, dict) else None
    return found if isinstance(found, dict) else {}


def _type_of(error: Exception) -> str:
    return str(_body_error(error).get("type") or "")


def _message_of(error: Exception) -> str:
    return str(_body_error(error).get("message") or error or type(error).__name__)
