"""How the parts of a store reach what it keeps, and hear of changes."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Concatenate, Generic, ParamSpec, Protocol, TypeVar

from afl.clock import Clock

P = ParamSpec("P")
T = TypeVar("T")
#: What is asked, and what is changed in a transaction.
R = TypeVar("R")
W = TypeVar("W")
#: The same, for functions that take them.
R_contra = TypeVar("R_contra", contravariant=True)
W_contra = TypeVar("W_contra", contravariant=True)


class Reading(ABC, Generic[R]):
    """A store that can be asked."""

    @abstractmethod
    def _read(
        self, query: Callable[Concatenate[R, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T: ...


class Bell(Protocol):
    """What is rung for a topic: `afl.db` has one for each kind of database."""

    def count(self, topic: str) -> int: ...

    def wait(
        self, topic: str, seen: int, timeout: float, stop: threading.Event | None = None
    ) -> bool: ...

    def attend(self, topic: str, told: Callable[[], None]) -> Callable[[], None]: ...


class Ringing(Protocol):
    @property
    def bell(self) -> Bell: ...


class Storing(Reading[R], Generic[R, W]):
    """A store in a database that says what has changed."""

    #: Waiters look again after so many seconds, whatever they were told.
    look_s: float
    database: Ringing
    _clock: Clock

    @abstractmethod
    def _require_open(self) -> None: ...

    @abstractmethod
    def _write(
        self, change: Callable[Concatenate[W, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    @abstractmethod
    def _wait(
        self,
        topic: str,
        seconds_left: Callable[[R], float],
        timeout: float | None,
        stop: threading.Event | None,
    ) -> bool:
        """Wait until nothing is left to wait for: True. `seconds_left` is asked at all news."""

    def _heard_as(self, topic: str) -> str:
        """What the bell rings for a topic."""
        return topic
