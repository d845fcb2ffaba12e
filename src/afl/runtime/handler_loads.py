"""Loading handlers without waiting for those that hang.

Importing runs code that is not ours: it may take long, or never end. So each handler is loaded on a
thread of its own. Usually the next one waits for it, since modules that import each other on two
threads may see halves of each other; who takes longer than a turn is overtaken. Who takes longer
than the limit is given up, as far as a thread can be: it is left behind, not started again while it
hangs, and welcome if it ends after all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Container
from dataclasses import replace
from typing import TypeAlias

from afl.clock import Clock
from afl.error_text import text_of
from afl.runtime.entities import HandlerRegistration
from afl.runtime.loading import Handler
from afl.runtime.registrations import (
    LOAD_LIMIT_S,
    HandlerLoadError,
    RegistrationLoader,
    not_loaded,
    took_too_long,
)

#: How long the next one waits for one that is being loaded.
TURN_S = 5.0

Outcome: TypeAlias = Handler | HandlerLoadError


def is_same(known: HandlerRegistration, read: HandlerRegistration) -> bool:
    """Whether they say the same, apart from what workers noted."""
    return replace(known, load_error=None) == replace(read, load_error=None)


class Loads:
    """What is being loaded. `ended` is called on other threads, whenever there is news of one that
    was not waited for. For one caller at a time."""

    def __init__(
        self, loader: RegistrationLoader, clock: Clock, ended: Callable[[], object]
    ) -> None:
        self._loader = loader
        self._clock = clock
        self._ended = ended
        self._changed = threading.Condition()
        self._under_way: dict[str, _Load] = {}

    def outcome_of(
        self, registration: HandlerRegistration, stop: threading.Event | None
    ) -> Outcome | None:
        """The handler, or why there is none; None if nobody knows yet. Begins with it, unless it
        is under way; waits for it at most a turn. Once `stop` is set (see `wake`), it begins with
        none and waits for none.

        Without `stop` it is loaded on this thread, however long that takes.
        """
        name = registration.facet_name
        load = self._under_way.get(name)
        if load is None or not is_same(load.registration, registration):
            if stop is None:
                return self._loaded(registration)
            if stop.is_set():
                return None
            load = self._begun(registration, stop)
        if load.outcome is not None:
            del self._under_way[name]
            return load.outcome
        if self._seconds_left(load) <= 0:
            load.is_given_up = True
            return not_loaded(registration, took_too_long())
        return None

    def keep(self, names: Container[str]) -> None:
        """Forget those of other facets."""
        self._under_way = {name: each for name, each in self._under_way.items() if name in names}

    def wake(self) -> None:
        """Let whoever waits look at its `stop`."""
        with self._changed:
            self._changed.notify_all()

    def seconds_to_limit(self) -> float | None:
        """Until the next one is to be given up; None if there is nothing to wait for."""
        waiting = [each for each in list(self._under_way.values()) if not each.is_given_up]
        return min(map(self._seconds_left, waiting), default=None)

    def _seconds_left(self, load: _Load) -> float:
        return load.began + LOAD_LIMIT_S - self._clock.monotonic()

    def _begun(self, registration: HandlerRegistration, stop: threading.Event) -> _Load:
        """After its turn."""
        load = _Load(registration, self._clock.monotonic())
        name = f"loop-worker-load-{registration.facet_name}"
        threading.Thread(target=self._do, args=(load,), name=name, daemon=True).start()
        self._under_way[registration.facet_name] = load
        with self._changed:
            self._clock.wait_for(
                self._changed, lambda: load.outcome is not None or stop.is_set(), TURN_S
            )
            load.is_awaited = False
        return load

    def _do(self, load: _Load) -> None:
        try:
            outcome = self._loaded(load.registration)
        except BaseException as error:  # this thread is nobody else's: it is about the module
            outcome = not_loaded(load.registration, text_of(error))
        with self._changed:
            load.outcome = outcome
            self._changed.notify_all()
            is_awaited = load.is_awaited
        if not is_awaited:
            self._ended()

    def _loaded(self, registration: HandlerRegistration) -> Outcome:
        try:
            return self._loader.load(registration)
        except HandlerLoadError as error:
            return error


class _Load:
    """One registration, on its way to a handler."""

    def __init__(self, registration: HandlerRegistration, began: float) -> None:
        self.registration = registration
        #: By the monotonic clock.
        self.began = began
        self.outcome: Outcome | None = None
        #: Whether somebody waits for its turn to end.
        self.is_awaited = True
        #: Whether somebody was told that it took too long.
        self.is_given_up = False
