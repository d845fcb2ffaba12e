"""Handlers at work in this process: who they are, until when, and who may still record an end.

An attempt ends once: by its own thread, or by whoever gives it up. The table decides who was
first. All of it is safe from any thread.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import datetime

from afl.clock import Clock
from afl.runtime.entities import TaskDefinition
from afl.runtime.persistence import Claim


@dataclass(eq=False)
class Attempt:
    """A claimed task, and the thread that works on it."""

    task: TaskDefinition
    #: The name of the step in the text.
    step: str
    #: When it is given up: by the clock for waiting, and as people read it.
    ends_at: float | None = None
    deadline: datetime | None = None
    cancellation: threading.Event = field(default_factory=threading.Event)
    #: Its end is being recorded; nobody else may record another one.
    is_ending: bool = False

    @property
    def claim(self) -> Claim:
        return Claim(self.task.uuid, self.task.fence)


class Attempts:
    """All that run now."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._running: dict[str, Attempt] = {}
        self._is_waited_for = True

    def __len__(self) -> int:
        with self._changed:
            return len(self._running)

    def all(self) -> list[Attempt]:
        with self._changed:
            return list(self._running.values())

    def add(self, attempt: Attempt) -> None:
        with self._changed:
            self._running[attempt.task.uuid] = attempt

    def begin_end(self, attempt: Attempt) -> bool:
        """Whether the caller is the one who records the end of an attempt."""
        with self._changed:
            is_first, attempt.is_ending = not attempt.is_ending, True
            return is_first

    def remove(self, attempt: Attempt) -> None:
        with self._changed:
            if self._running.get(attempt.task.uuid) is attempt:
                del self._running[attempt.task.uuid]
            self._changed.notify_all()

    def overdue(self) -> list[Attempt]:
        """Those whose time is up, now ended by the caller."""
        now = self._clock.monotonic()
        late = [each for each in self.all() if each.ends_at is not None and each.ends_at <= now]
        return [each for each in late if self.begin_end(each)]

    def until_overdue(self) -> float | None:
        """Seconds until the next one's time is up; None: never."""
        ends = [each.ends_at for each in self.all() if each.ends_at and not each.is_ending]
        return max(0.0, min(ends) - self._clock.monotonic()) if ends else None

    def wait_until_none(self, timeout: float) -> bool:
        """Whether all ended in time; False at once after `stop_waiting`."""
        with self._changed:
            self._clock.wait_for(
                self._changed, lambda: not (self._running and self._is_waited_for), timeout
            )
            return not self._running

    def stop_waiting(self) -> None:
        with self._changed:
            self._is_waited_for = False
            self._changed.notify_all()
