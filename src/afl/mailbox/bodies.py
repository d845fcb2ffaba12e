"""Bodies as JSON, checked against their type at both ends."""

from __future__ import annotations

import json
from typing import Any, Generic, TypeVar

import msgspec

from afl.mailbox.errors import SerializationError

T = TypeVar("T")

#: How deep receivers can read, however deep they are in calls themselves.
MAX_DEPTH = 500
_ROUND = bytes.maketrans(b"[{]}", b"(())")
_NO_MARK = bytes(set(range(256)) - set(b'[{]}"'))


class JsonBodies(Generic[T]):
    """Writes and reads bodies of one type: whatever msgspec reads, such as dataclasses, structs,
    unions and builtins; None for plain JSON values.

    Raises SerializationError for a type that cannot be read.
    """

    def __init__(self, body_type: Any = None) -> None:
        self._type = Any if body_type is None else body_type
        self._encoder = msgspec.json.Encoder()
        try:
            self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(self._type)
        except TypeError as error:
            raise SerializationError(f"no body can be a {body_type}: {error}") from error

    def write(self, body: T) -> bytes:
        """Raises SerializationError if it cannot be written, or receivers could not read it."""
        try:
            text = self._encoder.encode(body)
            if b"null" in text:  # which is also how numbers are written that JSON does not have
                _require_finite(body)
        except Exception as error:  # bodies may have code of their own
            raise SerializationError(
                f"a body of type {type(body).__name__} cannot be written as JSON: {error}"
            ) from error
        if is_deeper(text, MAX_DEPTH):
            raise SerializationError(
                f"a body of type {type(body).__name__} is nested more than {MAX_DEPTH} levels "
                "deep: receivers might not be able to read it"
            )
        if self._type is not Any:
            self.read(text)  # rather tell the sender now than the receivers later
        return text

    def read(self, text: bytes) -> T:
        """Raises SerializationError if this is no such body."""
        try:
            body: T = self._decoder.decode(text)
        except Exception as error:  # bodies may have code of their own
            name = getattr(self._type, "__name__", str(self._type))
            raise SerializationError(f"this is no body of type {name}: {error}") from error
        return body

    def show(self, text: bytes) -> Any:
        """For people: the raw text if it is no such body."""
        try:
            return self.read(text)
        except SerializationError:
            return text.decode("utf-8", "replace")

    def plain(self, text: bytes) -> Any:
        """The value of JSON of any type; the raw text if it is no JSON."""
        return _ANYTHING.show(text)


_ANYTHING: JsonBodies[Any] = JsonBodies()


def _require_finite(body: Any) -> None:
    try:
        plain = msgspec.to_builtins(body, str_keys=True, enc_hook=_written_already)
        json.dumps(plain, allow_nan=False)
    except ValueError:
        raise ValueError(
            "NaN and infinity are no numbers of JSON; use None or a text in their place"
        ) from None


def _written_already(_: msgspec.Raw) -> None:
    """JSON that stands for itself has no such numbers."""


def is_deeper(text: bytes, most: int) -> bool:
    """Whether JSON is nested more levels deep. Done without a step of Python for each character:
    bodies may be large."""
    if text.count(b"[") + text.count(b"{") <= most:
        return False
    no_escapes = text.replace(rb"\\", b"").replace(rb"\"", b"")
    marks = no_escapes.translate(_ROUND, _NO_MARK).replace(b'""', b"")
    brackets = b"".join(marks.split(b'"')[::2])  # what is left between quotes is text
    levels = 0
    while brackets and levels < most:
        brackets = brackets.replace(b"()", b"")  # the innermost level
        levels += 1
    return bool(brackets)
