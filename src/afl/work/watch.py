"""Watching the time of what runs, and the stop of who runs it: one thread for both."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

from afl.clock import Clock, condition_of
from afl.log import get_logger
from afl.work.pool import PREFIX, join

_log = get_logger(__name__)

#: Times that end closer together than this are looked at together.
_GRAIN_S = 0.01


class Watch:
    """Calls `stopped` once after `stop` was set, and `look` whenever the time has come that it
    last gave (by the monotonic clock; None: never) or that `expect` was told since."""

    def __init__(
        self,
        stop: threading.Event,
        stopped: Callable[[], object],
        look: Callable[[], float | None],
        clock: Clock,
    ) -> None:
        self._stop = stop
        self._stopped = stopped
        self._look = look
        self._clock = clock
        # Waiting on it hears of the stop, and of all else here.
        self._changed = condition_of(stop)
        self._next = math.inf
        self._is_told = False
        self._is_over = False
        self._thread = threading.Thread(target=self._watch, name=f"{PREFIX}-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self, timeout: float) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        join(self._thread, timeout)

    def expect(self, time: float) -> None:
        """Look no later than at this time."""
        # Asked first without the lock: nearly always, something else ends sooner.
        if time < self._next:
            with self._changed:
                self._next = min(time, self._next)
                self._changed.notify_all()

    def _watch(self) -> None:
        while self._wait():
            try:
                self._act()
            except Exception:  # a defect; time goes on
                _log.exception("watch_disturbed")

    def _wait(self) -> bool:
        with self._changed:
            while not (self._is_over or self._has_news()):
                seen = self._next

                def is_new(seen: float = seen) -> bool:
                    return self._is_over or self._has_news() or self._next < seen

                left = None if seen == math.inf else seen - self._clock.monotonic()
                self._clock.wait_for(self._changed, is_new, left)
            return not self._is_over

    def _has_news(self) -> bool:
        if self._stop.is_set() and not self._is_told:
            return True
        return self._next <= self._clock.monotonic()

    def _act(self) -> None:
        if self._stop.is_set() and not self._is_told:
            self._is_told = True
            self._stopped()
        # From here on, whoever begins finds that nothing is expected, and says its own time.
        self._next = math.inf
        following = self._look()
        if following is not None:
            self.expect(max(following, self._clock.monotonic() + _GRAIN_S))
