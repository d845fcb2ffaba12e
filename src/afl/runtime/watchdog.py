"""The watchdog: finds loops that hang, and ends the process when nothing else helps.

A loop hangs when it gives no sign of life and no work of it moves on for longer than it may. Each
further check that finds it so goes one stage on: it is named and not ready, its work is cancelled,
the processes of its work are killed, and last this whole process, because a thread cannot be. A
process that was frozen for hours (a suspended machine, SIGSTOP) so has time to show that it lives.

Before the end the stacks of all threads go to standard error, with the loop, the handler and the
line that hangs, and the logs are flushed. Nothing that belongs to others, be it a hook, a lock of
the logs or a pipe that nobody reads, keeps the watchdog from its work for longer than seconds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial

from afl import telemetry
from afl.clock import SYSTEM_CLOCK, Clock
from afl.errors import ConfigurationError
from afl.log import get_logger
from afl.runtime.bounded import BoundedCalls
from afl.runtime.heartbeat import Heartbeat
from afl.runtime.last_words import kill_process, write_logs, write_stacks
from afl.runtime.stacks import place_of
from afl.runtime.stalls import BareLoop, LoopView, Rescuable, Stall, StallStage

__all__ = ["LoopView", "Stall", "StallStage", "Watchdog"]

_log = get_logger(__name__)

_RESCUES = (StallStage.CANCELLED, StallStage.FORCED)


class Watchdog:
    """Watches loops, or bare heartbeats, on a daemon thread of its own.

    `loop_names` are for heartbeats, which have none. `on_stall` hears of every stage, on a thread
    of its own. `kill` is the last stage. `last_words_s` is how long it waits for each thing that
    is not its own. A turn that a loop declared may take as long as it said plus one interval.

    Raises ConfigurationError for times that are not positive and names that do not fit.
    """

    def __init__(
        self,
        loops: Sequence[Heartbeat | LoopView],
        *,
        stall_threshold: float = 720.0,
        check_interval: float = 60.0,
        loop_names: Sequence[str] | None = None,
        clock: Clock = SYSTEM_CLOCK,
        on_stall: Callable[[Stall], object] | None = None,
        kill: Callable[[], object] = kill_process,
        last_words_s: float = 5.0,
    ) -> None:
        _require_positive("stall_threshold", stall_threshold)
        _require_positive("check_interval", check_interval)
        self._watches = [_Watch(each) for each in _views(loops, loop_names)]
        self._threshold_s = stall_threshold
        self._interval_s = check_interval
        self._clock = clock
        self._on_stall = on_stall
        self._kill = kill
        self._last_words_s = last_words_s
        self._calls = self._new_calls()
        #: Its own sign of life, one for each check: who watches the watchdog looks here.
        self.heartbeat = Heartbeat(clock)
        # Reentrant, because `kill` may stop us. Never held while a loop is asked something.
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._is_started = False

    def start(self) -> None:
        """Check every interval from now on, first after one. Does nothing if it does already."""
        with self._lock:
            if self._is_started:
                return
            self._is_started = True
            self._stop, self._calls = threading.Event(), self._new_calls()
            stop, calls = self._stop, self._calls
        calls.open()
        self._begin_anew()
        threading.Thread(target=self._run, args=(stop, calls), name="watchdog", daemon=True).start()

    def stop(self) -> None:
        """Check no more; when this returns, nothing is killed any more. Waits for nobody."""
        with self._lock:
            self._is_started = False
            self._stop.set()

    def stalls(self) -> list[Stall]:
        """The loops that hang now, as far as one can see: for readiness, which fails early."""
        found = []
        for watch in self._watches:
            watch.look()
            stall = self._stall(watch)
            if stall is not None:
                found.append(stall._replace(stage=watch.stage or StallStage.SUSPECTED))
        return found

    def check(self) -> None:
        """Look at every loop, and go one stage on with those that hang.

        For who does not `start` it; its own thread does the same every interval.
        """
        try:
            self._check()
        finally:
            self._calls.close()

    def _check(self) -> None:
        self.heartbeat.beat()
        doomed = []
        for watch in self._watches:
            stall = self._escalated(watch)
            if stall is not None:
                self._act(watch.loop, stall)
                if stall.stage is StallStage.KILLED:
                    doomed.append(stall)
        if doomed:
            self._end(doomed)

    # The thread

    def _run(self, stop: threading.Event, calls: BoundedCalls) -> None:
        while not self._clock.wait(stop, self._interval_s):
            try:
                self._check()
            except Exception:
                # A watchdog that dies in silence is worse than none.
                _log.exception("watchdog_check_failed")
        calls.close()

    def _new_calls(self) -> BoundedCalls:
        return BoundedCalls("watchdog-calls", self._last_words_s)

    def _begin_anew(self) -> None:
        now = self._clock.monotonic()
        self.heartbeat.beat()
        for watch in self._watches:
            watch.moved_at, watch.stage = now, None

    # Looking

    def _escalated(self, watch: _Watch) -> Stall | None:
        """The loop at its next stage, if it hangs."""
        self._calls.call(watch.look)
        watch.note(self._clock.monotonic())
        stall = self._stall(watch)
        if stall is None:
            if watch.stage is not None:
                self._calls.call(partial(self._tell_recovered, watch.loop.name))
            watch.stage = None
            return None
        watch.stage = StallStage.after(watch.stage)
        return stall._replace(stage=watch.stage)

    def _stall(self, watch: _Watch) -> Stall | None:
        silent_s, limit_s = watch.silent_s(self._clock.monotonic()), self._limit_s(watch)
        if silent_s <= limit_s:
            return None
        place = place_of(_thread_of(watch.loop))
        return Stall(watch.loop.name, StallStage.SUSPECTED, silent_s, limit_s, *place)

    def _limit_s(self, watch: _Watch) -> float:
        if watch.longest_turn_s is None:
            return self._threshold_s
        return max(self._threshold_s, watch.longest_turn_s + self._interval_s)

    # Acting

    def _act(self, loop: LoopView, stall: Stall) -> None:
        self._calls.call(partial(self._tell_stalled, stall))
        if self._on_stall is not None:
            self._calls.call(partial(self._on_stall, stall))
        if isinstance(loop, Rescuable) and stall.stage in _RESCUES:
            self._calls.call(partial(loop.rescue, stall.stage))

    def _tell_stalled(self, stall: Stall) -> None:
        telemetry.emit(telemetry.LoopStalled(at=self._clock.now(), **stall._asdict()))

    def _tell_recovered(self, name: str) -> None:
        telemetry.emit(telemetry.LoopRecovered(at=self._clock.now(), loop=name))

    def _end(self, stalls: Sequence[Stall]) -> None:
        # Apart from each other: the lock of a log, or a full pipe, may be what hangs.
        self._calls.call(partial(write_stacks, stalls))
        self._calls.call(partial(write_logs, stalls))
        with self._lock:
            if not self._stop.is_set():
                self._kill()


class _Watch:
    """What the watchdog knows of a loop."""

    def __init__(self, loop: LoopView) -> None:
        self.loop = loop
        self.stage: StallStage | None = None
        self._asking = threading.Lock()
        # As last seen. A loop that cannot be asked has not moved on.
        self.is_watched = False
        self.longest_turn_s: float | None = None
        self.progress = 0
        # As of the last check.
        self.noted_progress = 0
        self.moved_at = 0.0

    def look(self) -> None:
        """Ask the loop. What it says until it fails or hangs is kept."""
        if not self._asking.acquire(blocking=False):
            return  # one thread that waits for the answer is enough
        try:
            self.is_watched = self.loop.is_watched()
            self.longest_turn_s = self.loop.longest_turn_s()
            self.progress = self.loop.progress()
        finally:
            self._asking.release()

    def note(self, now: float) -> None:
        """Remember how far it has come, and that its time does not run while it is not watched."""
        if self.progress != self.noted_progress or not self.is_watched:
            self.noted_progress, self.moved_at = self.progress, now

    def silent_s(self, now: float) -> float:
        """Seconds since it last beat or moved on; 0 if it does not have to."""
        heartbeat = self.loop.heartbeat
        if heartbeat is None or not self.is_watched or self.progress != self.noted_progress:
            return 0.0
        return min(heartbeat.elapsed(), now - self.moved_at)


def _thread_of(loop: LoopView) -> int | None:
    thread: threading.Thread | None = getattr(loop, "thread", None)
    if thread is not None:
        return thread.ident
    return loop.heartbeat.beaten_by if loop.heartbeat is not None else None


def _views(loops: Sequence[Heartbeat | LoopView], names: Sequence[str] | None) -> list[LoopView]:
    if names is not None and len(names) != len(loops):
        raise ConfigurationError(
            f"the watchdog has {len(loops)} loops but {len(names)} loop_names; give one for each"
        )
    return [
        BareLoop(names[index] if names else f"loop-{index}", each)
        if isinstance(each, Heartbeat)
        else each
        for index, each in enumerate(loops)
    ]


def _require_positive(name: str, value: float) -> None:
    if not value > 0:
        raise ConfigurationError(f"the watchdog's {name} is {value}; it must be above 0 seconds")
