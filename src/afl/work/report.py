"""What the world is told about a consumer: numbers, logs, events, its heartbeat, its observer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from afl import telemetry
from afl.clock import Clock
from afl.error_text import kind_of, message_of
from afl.errors import StoreError
from afl.log import get_logger
from afl.runtime.heartbeat import Heartbeat
from afl.runtime.stacks import Place
from afl.work.attempts import Attempt
from afl.work.source import W, Work

_log = get_logger(__name__)

W_contra = TypeVar("W_contra", bound=Work, contravariant=True)


class Observer(Protocol[W_contra]):
    """Hears of attempts, on the threads that do the work: it must not wait.

    What it raises is logged and disturbs nobody.
    """

    def began(self, work: W_contra, attempt: Attempt) -> None: ...

    def ended(self, work: W_contra, attempt: Attempt, error: BaseException | None) -> None:
        """It is recorded that it is done, or how it failed."""

    def lost(self, work: W_contra, attempt: Attempt) -> None:
        """Its claim was lost, and with it whatever comes of it."""


class Report(Generic[W]):
    """Of all runs of one consumer. Nothing here waits or raises."""

    def __init__(
        self, clock: Clock, heartbeat: Heartbeat | None, observer: Observer[W] | None
    ) -> None:
        self._clock = clock
        self._heartbeat = heartbeat
        self._observer = observer
        self._lock = threading.Lock()
        self._failures = 0
        #: Changes whenever any work moves on. Not exact: two threads may count the same step.
        self.progress = 0
        self.leases_lost = 0
        #: Why no work can be taken now, or None.
        self.unready_reason: str | None = None

    # The source

    def available(self) -> None:
        if self._failures:
            _log.info("source_is_back", tries=self._failures)
        self._failures, self.unready_reason = 0, None

    def unavailable(self, error: StoreError) -> int:
        """How often that was so in a row."""
        self._failures += 1
        self.unready_reason = f"work cannot be claimed: {error}"
        _log.warning("source_unavailable", error=str(error), tries=self._failures)
        return self._failures

    # Signs of life

    def progressed(self) -> None:
        self.progress += 1

    def beat(self, *, on_loop: bool = False) -> None:
        """A sign of life; `on_loop`, by the shared event loop, so that it shows that one, too."""
        if self._heartbeat is None:
            return
        if on_loop:
            from afl.work.event_loop import shared_loop

            shared_loop().call_soon(self._heartbeat.beat)
        else:
            self._heartbeat.beat()

    # Attempts

    def began(self, attempt: Attempt) -> None:
        self.progress += 1
        observer = self._observer
        if observer is not None:
            self._tell(lambda: observer.began(attempt.work, attempt))

    def ended(self, attempt: Attempt, error: BaseException | None) -> None:
        self.progress += 1
        self.beat()
        observer = self._observer
        if observer is not None:
            self._tell(lambda: observer.ended(attempt.work, attempt, error))

    def lost(self, attempt: Attempt) -> None:
        self.progress += 1
        with self._lock:
            self.leases_lost += 1
        _log.warning("claim_lost", work=attempt.label, id=attempt.work.id)
        telemetry.emit(telemetry.ClaimLost(at=self._clock.now(), work=attempt.label))
        observer = self._observer
        if observer is not None:
            self._tell(lambda: observer.lost(attempt.work, attempt))

    def late(self, attempt: Attempt, error: BaseException | None) -> None:
        """It was given up before it ended; how it did is nobody's concern."""
        how = "it is done" if error is None else f"{kind_of(error)}: {message_of(error)}"
        _log.info("late_result_dropped", work=attempt.label, result=how)

    def unrecorded(self, attempt: Attempt, reason: BaseException | None) -> None:
        """It comes back by itself when its lease has lapsed."""
        self.progress += 1
        why = str(reason) if reason is not None else "the source did not take it in time"
        _log.error("end_not_recorded", work=attempt.label, id=attempt.work.id, error=why)

    def abandoned(self, attempt: Attempt, place: Place, stack: str, reason: str) -> None:
        _log.error(
            "thread_abandoned",
            work=attempt.label,
            reason=reason,
            handler=place.handler,
            line=place.line,
            stack=stack,
        )
        event = telemetry.ThreadAbandoned(
            at=self._clock.now(), work=attempt.label, handler=place.handler, line=place.line
        )
        telemetry.emit(event)

    def _tell(self, tell: Callable[[], None]) -> None:
        try:
            tell()
        except Exception:
            _log.exception("observer_failed")
