"""Bodies as JSON, checked against their type at both ends."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from afl.mailbox.errors import SerializationError

T = TypeVar("T")


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
        except Exception as error:  # bodies may have code of their own
            raise SerializationError(
                f"a body of type {type(body).__name__} cannot be written as JSON: {error}"
            ) from error
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
