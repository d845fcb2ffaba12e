"""Texts that every place can keep: whatever works on one backend works on the others."""

from __future__ import annotations

from afl.errors import ConfigurationError

#: Servers keep names in indexes and announcements, which are short.
MAX_NAME = 500


def storable(text: str) -> str:
    """The same, or what any place can keep of it. A message of an error may have anything in it,
    and must not keep its letter from being buried."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


def is_storable(text: object) -> bool:
    return isinstance(text, str) and storable(text) == text


def require_name(name: str) -> str:
    """Raises ConfigurationError for what cannot be the name of a mailbox."""
    if not is_storable(name) or len(name) > MAX_NAME:
        raise ConfigurationError(
            f"no mailbox can have the name {ascii(name)[:60]}: expected text of at most "
            f"{MAX_NAME} characters, with no NUL and no half of a surrogate pair"
        )
    return name
