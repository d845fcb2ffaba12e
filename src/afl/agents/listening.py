"""Hearing the words of a model before its answer is whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias, runtime_checkable

from afl.agents.model import ModelAnswer, ModelRequest

#: Gets the words of a model as they come.
Listener: TypeAlias = Callable[[str], object]


@runtime_checkable
class QuickListener(Protocol):
    """A listener that never blocks, and can take back what it has heard. So it can be told words
    on an event loop, and an answer that breaks off can be asked for again."""

    def __call__(self, text: str, /) -> object: ...

    def begin_again(self) -> None:
        """What was heard is void: the answer comes anew."""


@runtime_checkable
class StreamingAdapter(Protocol):
    """An adapter that can hand words on before the answer is whole."""

    def stream(self, request: ModelRequest, on_text: Listener) -> ModelAnswer: ...


@runtime_checkable
class AsyncStreamingAdapter(Protocol):
    """The same for coroutines."""

    async def stream_async(self, request: ModelRequest, on_text: QuickListener) -> ModelAnswer: ...


class _Quick:
    def __init__(self, heard: Listener, begin_again: Callable[[], object]) -> None:
        self._heard = heard
        self._begin_again = begin_again

    def __call__(self, text: str, /) -> None:
        self._heard(text)

    def begin_again(self) -> None:
        self._begin_again()


def quick(heard: Listener, begin_again: Callable[[], object] = lambda: None) -> QuickListener:
    """Of two functions that never block."""
    return _Quick(heard, begin_again)


def together(*listeners: Listener | None) -> Listener | None:
    """One who tells all of them; None for nobody. It is quick if all are."""
    given = [each for each in listeners if each is not None]

    def tell(text: str) -> None:
        for each in given:
            each(text)

    def begin_again() -> None:
        for each in given:
            if isinstance(each, QuickListener):
                each.begin_again()

    if not given:
        return None
    is_quick = all(isinstance(each, QuickListener) for each in given)
    return quick(tell, begin_again) if is_quick else tell
