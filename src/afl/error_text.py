"""What was raised, as text that every store takes.

Errors come from code that is not ours: their text may be no valid Unicode (half of a character that
a model wrote as an escape), and asking for it may raise in turn. What cannot be written down would
never be recorded, and whatever raised it would be done again and again.
"""

from __future__ import annotations

import traceback


class BareError(Exception):
    """Base of errors that stand for one whose text is bare: see `is_bare`."""


#: Their text is the value that they were raised with: a key, an exit code, a result.
_BARE = (BareError, SystemExit, StopIteration, StopAsyncIteration)


def storable(text: str) -> str:
    """The text with backslash escapes in place of what is no Unicode."""
    # Of the class: a subclass may have methods of its own.
    return str.encode(text, "utf-8", "backslashreplace").decode()


def kind_of(error: BaseException) -> str:
    """The name of its class."""
    return type(error).__name__


def with_article(name: str) -> str:
    """The name of a class as a sentence has it: `a list`, `an int`."""
    # `a UUID`, `a Union`: most names with U are spoken like that.
    return f"{'an' if name[:1].lower() in set('aeio') else 'a'} {name}"


def message_of(thing: object) -> str:
    """What an error, or another object, says; nothing if it says nothing, or cannot be asked."""
    try:
        return storable(str(thing))
    except KeyboardInterrupt:
        raise
    except BaseException:  # whatever it is, it is not what is to be told
        return ""


def is_bare(error: BaseException) -> bool:
    """Whether what it says is only a value, which tells nobody what went wrong."""
    kind = type(error)  # of the class: attributes of the error may be code that is not ours
    # A subclass of KeyError may write sentences.
    return issubclass(kind, _BARE) or kind.__str__ is KeyError.__str__


def text_of(error: BaseException) -> str:
    """What it says, or else what it is; both if it says nothing by itself (`KeyError: 'kg'`)."""
    message = message_of(error)
    if not message.strip():
        return kind_of(error)
    has_words = any(map(str.isalpha, message))
    return message if has_words and not is_bare(error) else f"{kind_of(error)}: {message}"


def trace_of(error: BaseException) -> str:
    """The whole trace; only what it is, if that cannot be told."""
    try:
        return storable("".join(traceback.format_exception(error)))
    except KeyboardInterrupt:
        raise
    except BaseException:
        return f"{kind_of(error)}\n"
