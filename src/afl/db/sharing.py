"""Connections to servers that a process shares: one object for each address, closed by its last
holder.

A forked child must not use what it inherited: both processes would read from one connection. It
opens its own.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from afl.db.forks import ForkSafeLock
from afl.errors import ConfigurationError, StoreClosed, StoreMisused


class Held(ABC):
    """Counts its holders. The one who makes it is the first."""

    def __init__(self, place: str) -> None:
        #: Where the server is, for people: without secrets.
        self.place = place
        self._pid = os.getpid()
        self._holding = threading.Lock()
        self._holders = 1

    @property
    def is_closed(self) -> bool:
        return self._holders == 0

    def check(self) -> None:
        """Raises StoreClosed after `close`, StoreMisused in a forked child."""
        if self._is_inherited:
            raise StoreMisused(
                f"the connection to {self.place} belongs to process {self._pid}, from which this "
                f"process ({os.getpid()}) was forked; open it here again"
            )
        if not self._holders:
            raise StoreClosed(f"{self.place} was closed in this process")

    def hold(self) -> bool:
        """Count one more holder, who will call `close`; False if it is closed already."""
        with self._holding:
            if self._holders:
                self._holders += 1
            return self._holders > 0

    def close(self) -> None:
        """Let go. With the last holder all waits end and connections are closed."""
        if self._is_inherited:
            return
        with self._holding:
            was_last = self._holders == 1
            self._holders = max(self._holders - 1, 0)
        if was_last:
            self._end()

    @property
    def _is_inherited(self) -> bool:
        return os.getpid() != self._pid

    @abstractmethod
    def _end(self) -> None: ...


H = TypeVar("H", bound=Held)


class Registry(Generic[H]):
    """What is open in this process."""

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._open: dict[str, tuple[H, tuple[object, ...]]] = {}
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget_all)

    def open(self, address: str, settings: tuple[object, ...], make: Callable[[], H]) -> H:
        """What is open at `address`, with one holder more; else what `make` makes.

        Raises ConfigurationError if it is open already with other settings.
        """
        with self._lock:
            self._forget_closed()
            found, known = self._open.get(address, (None, ()))
            if found is not None and found.hold():
                if known == settings:
                    return found
                found.close()
                raise ConfigurationError(
                    f"{found.place} is open already in this process with other settings, such as "
                    "another clock; open it everywhere with the same"
                )
            made = make()
            self._open[address] = (made, settings)
            return made

    def _forget_closed(self) -> None:
        for address in [each for each, (held, _) in self._open.items() if held.is_closed]:
            del self._open[address]

    def _forget_all(self) -> None:
        # Not closed: the connections are the parent's. Kept alive, because what is collected
        # would say goodbye to the server in the parent's name.
        _inherited.extend(self._open.values())
        self._open = {}


_inherited: list[object] = []
