"""The end of a group: all loops, in their order, inside one deadline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from afl import telemetry
from afl.clock import Clock
from afl.runtime.lifecycle.coordinator import Urgency
from afl.runtime.lifecycle.members import Member
from afl.runtime.lifecycle.news import News


@dataclass(frozen=True, slots=True)
class DrainTimes:
    """In seconds from the start of the drain."""

    #: When all is over, whoever still runs.
    deadline: float
    #: This long before the deadline, unfinished work is saved.
    reserve: float
    #: The process stays at least this long to answer those who have not noticed yet.
    settle: float = 0.0


@dataclass(slots=True)
class Pressure:
    """What those who want the end have said so far. It only grows."""

    urgency: Urgency = Urgency.DRAIN
    #: Seconds that somebody who asked for the stop is ready to wait.
    patience: float = 0.0


class Drain:
    """Asks the loops to end and waits for them, on the thread of `run`."""

    def __init__(
        self,
        members: Sequence[Member],
        times: DrainTimes,
        pressure: Pressure,
        news: News,
        clock: Clock,
        *,
        tick_s: float,
        on_tick: Callable[[], None],
    ) -> None:
        self._members = members
        self._times = times
        self._pressure = pressure
        self._news = news
        self._clock = clock
        #: How often to look around when nothing happens, and whom to tell.
        self._tick_s = tick_s
        self._on_tick = on_tick
        self._started_at = clock.monotonic()
        #: When it became urgent, in seconds from the start; None until then.
        self._urgent_at: float | None = None

    def run(self) -> list[Member]:
        """End the loops; those that had to be left behind."""
        self._ask_some()
        while not self._is_over():
            self._news.wait(self._pause())
            self._on_tick()
            self._ask_some()
        return self._alive()

    # What time it is

    def _elapsed(self) -> float:
        return self._clock.monotonic() - self._started_at

    def _deadline(self) -> float:
        deadline = max(self._times.deadline, self._pressure.patience)
        if self._pressure.urgency >= Urgency.CHECKPOINT and self._urgent_at is not None:
            # A second signal leaves the time that a checkpoint takes, and no more.
            return min(deadline, self._urgent_at + self._times.reserve)
        return deadline

    def _is_over(self) -> bool:
        if self._pressure.urgency >= Urgency.EXIT:
            return True
        if not self._alive():
            return self._is_settled() or self._pressure.urgency >= Urgency.CHECKPOINT
        return self._elapsed() >= self._deadline()

    def _is_settled(self) -> bool:
        return self._elapsed() >= self._times.settle

    def _is_urgent(self) -> bool:
        if self._urgent_at is None and (
            self._pressure.urgency >= Urgency.CHECKPOINT or self._elapsed() >= self._reserve_at()
        ):
            self._urgent_at = self._elapsed()
        return self._urgent_at is not None

    def _reserve_at(self) -> float:
        return max(self._deadline() - self._times.reserve, 0.0)

    def _pause(self) -> float:
        """Until the next moment at which something is to be done."""
        moments = [self._times.settle, self._reserve_at(), self._deadline()]
        ahead = [each - self._elapsed() for each in moments]
        return min([self._tick_s, *(each for each in ahead if each > 0)])

    # What to do

    def _alive(self) -> list[Member]:
        return [each for each in self._members if each.is_alive]

    def _ask_some(self) -> None:
        if self._is_urgent():
            self._hurry()
        else:
            self._ask_next()

    def _ask_next(self) -> None:
        """Ask those with the lowest stop order; the later ones keep answering meanwhile."""
        alive = self._alive()
        if not alive:
            return
        first = min(each.stop_order for each in self._members)
        lowest = min(each.stop_order for each in alive)
        if lowest == first or self._is_settled():
            self._ask([each for each in alive if each.stop_order == lowest])

    def _hurry(self) -> None:
        """No time for order: ask all, and have saved what can be saved."""
        self._ask(self._alive())
        is_told = self._pressure.urgency >= Urgency.CHECKPOINT
        reason = "second signal" if is_told else "the deadline is near"
        for member in self._alive():
            if member.ask_checkpoint():
                telemetry.emit(
                    telemetry.CheckpointRequested(
                        at=self._clock.now(), loop=member.name, reason=reason
                    )
                )

    def _ask(self, members: Sequence[Member]) -> None:
        left = max(self._deadline() - self._elapsed(), 0.0)
        for member in members:
            member.ask(left)
