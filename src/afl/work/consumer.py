"""The consumer of leased work: claims for its free slots, does it, records how it ended.

Nothing is claimed after a stop; what was not begun is given back, what runs may go on for a
while. Leases are renewed until the last end is durable. An outage of the source makes the
consumer unready and never ends it.
"""

from __future__ import annotations

import threading
from typing import Any, Generic

from afl.work.attempts import Attempt
from afl.work.inline import InlinePoll
from afl.work.options import Options
from afl.work.report import Observer, Report
from afl.work.run import ConsumerRun
from afl.work.source import Source, W

__all__ = ["Consumer", "Observer", "Options", "why_unready"]


class Consumer(Generic[W]):
    """Does the work of a source. All but `run` and `poll_once` is safe from any thread."""

    def __init__(
        self,
        source: Source[W],
        options: Options | None = None,
        observer: Observer[W] | None = None,
    ) -> None:
        self._source = source
        self._options = options or Options()
        self._report = Report(self._options.clock, self._options.heartbeat, observer)
        self._run: ConsumerRun[W] | None = None
        self._poll: InlinePoll[W] | None = None

    def run(self, stop: threading.Event, *, max_iterations: int | None = None) -> None:
        """Work until `stop` is set, or `max_iterations` polls are made and what they brought is
        done. Raises what keeps the source from working, except an outage, after all came to
        rest."""
        run = self._run = ConsumerRun(self._source, self._options, self._report, stop)
        try:
            run.go(max_iterations)
        finally:
            self._run = None

    def poll_once(self) -> int:
        """Claim up to `concurrency` pieces and do them on this thread, one after the other; how
        many there were. No thread is started: asynchronous work has a loop of its own, and what
        took too long fails after it. Raises StoreUnavailable."""
        poll = self._poll = InlinePoll(self._source, self._options, self._report)
        try:
            return poll.go()
        finally:
            self._poll = None

    def stop_claiming(self) -> None:
        """Take no more; what is in hand goes on, and `run` returns after it."""
        run = self._run
        if run is not None:
            run.stop_claiming()

    def checkpoint(self) -> None:
        """The time is over: cancel, kill and give back what is unfinished; `run` returns."""
        run = self._run
        if run is not None:
            run.checkpoint()

    def cancel_all(self) -> None:
        """Tell all that runs to end; what does, has failed."""
        for each in self.attempts():
            if each.is_running:
                each.cancel()

    def kill_all(self) -> None:
        """Like `cancel_all`, and end the processes that do the work."""
        for each in self.attempts():
            if each.is_running:
                each.kill()

    def notify(self) -> None:
        """Something changed for the source, such as the names that it serves: look again now."""
        run = self._run
        if run is not None:
            run.notify()

    def attempts(self) -> list[Attempt]:
        """What is in hand, in the order of the claims."""
        run, poll = self._run, self._poll
        if run is not None:
            return run.attempts.all()
        return poll.attempts if poll is not None else []

    @property
    def in_flight(self) -> int:
        """Pieces in hand."""
        run = self._run
        return len(run.attempts) if run is not None else len(self.attempts())

    @property
    def progress(self) -> int:
        """Changes whenever any work moves on."""
        return self._report.progress

    @property
    def leases_lost(self) -> int:
        """How many claims were lost; only grows."""
        return self._report.leases_lost

    @property
    def is_running(self) -> bool:
        """Whether a `run` goes on."""
        return self._run is not None

    @property
    def unready_reason(self) -> str | None:
        """Why no work can be taken now, or None."""
        run, reason = self._run, self._report.unready_reason
        if reason is None and run is not None and not run.is_answered:
            return "starting: its first claim is not answered yet"
        return reason


def why_unready(consumer: Consumer[Any] | None, *, is_running: bool) -> str | None:
    """Why a loop with this consumer takes no work now, or None. The loop itself says whether it
    `is_running`: what comes before and after its consumer may take long."""
    if is_running and (consumer is None or not consumer.is_running):
        return "starting or ending: it takes no work"
    return None if consumer is None else consumer.unready_reason
