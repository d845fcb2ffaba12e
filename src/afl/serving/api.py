"""The turn API of a service: it is the last to leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from afl.clock import SYSTEM_CLOCK
from afl.gateway import TurnApi
from afl.runtime.lifecycle import Runnable


class ServedApi(TurnApi):
    """Goes on until the other loops have ended, also when the time of a drain runs out and all are
    asked at once: their last words, such as the token of a suspended turn, are read here. Whatever
    the others do, it stays no longer than `stay_s` seconds after it was first asked."""

    def __init__(
        self, *args: Any, others: Sequence[Runnable], stay_s: float, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self._others = others
        self._stay_s = stay_s
        self._asked_at: float | None = None

    def expect_run(self) -> None:
        self._asked_at = None
        super().expect_run()

    def request_stop(self) -> None:
        # A group asks again and again. Real time, as the group waits in it.
        now = SYSTEM_CLOCK.monotonic()
        if self._asked_at is None:
            self._asked_at = now
        is_needed = any(each.running for each in self._others)
        if not is_needed or now - self._asked_at >= self._stay_s:
            super().request_stop()
