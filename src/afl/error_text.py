"""What was raised, as text that every store takes.

Errors come from code that is not ours: their text may be no valid Unicode (half of a character that
a model wrote as an escape), and asking for it may raise in turn. What cannot be written down would
never be recorded, and whatever raised it would be done again and again.
"""

from __future__ import annotations

import traceback


def storable(text: str) -> str:
    """The text with backslash escapes in place of what is no Unicode."""
    # Of the class: a subclass may have methods of its own.
    return str.encode(text, "utf-8", "backslashreplace").decode()


def kind_of(error: BaseException) -> str:
    """The name of its class."""
    return type(error).__name__


def message_of(thing: object) -> str:
    """What an error, or another object, says; nothing if it says nothing, or cannot be asked."""
    try:
        return storable(str(thing))
    except KeyboardInterrupt:
        raise
    except BaseException:  # whatever it is, it is not what is to be told
        return ""


def text_of(error: BaseException) -> str:
    """What it says, or else what it is."""
    return message_of(error) or kind_of(error)


def trace_of(error: BaseException) -> str:
    """The whole trace; only what it is, if that cannot be told."""
    try:
        return storable("".join(traceback.format_exception(error)))
    except KeyboardInterrupt:
        raise
    except BaseException:
        return f"{kind_of(error)}\n"
