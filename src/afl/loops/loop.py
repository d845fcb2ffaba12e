"""Loops over mailboxes: they receive requests, do them, and reply."""

from __future__ import annotations

import math
import os
import socket
import threading
from abc import abstractmethod
from functools import partial
from typing import Any, Generic, TypeVar

from afl.agents.deadline import Deadline
from afl.agents.recording import TurnSuspended
from afl.clock import SYSTEM_CLOCK, Clock
from afl.log import get_logger
from afl.loops.mailbox_source import LEASE_S, MessageSource, MessageWork, text_of
from afl.loops.turn import Turn, taking
from afl.mailbox.api import Mailbox, Message, require_visibility, require_wait
from afl.mailbox.errors import InvalidParameterError
from afl.mailbox.failure import DLQPolicy
from afl.runtime.lifecycle import BaseLoop
from afl.runtime.watchdog import StallStage
from afl.work.attempts import Attempt
from afl.work.consumer import Consumer, Observer, Options, why_unready
from afl.work.source import InThread, Job, OnLoop

_log = get_logger(__name__)

Req = TypeVar("Req")
Res = TypeVar("Res")

#: Waits end by announcement; who asks for shorter ones only looks in vain.
_SHORTEST_WAIT_S = 1.0


class MailboxLoop(BaseLoop, Generic[Req, Res]):
    """Does the requests of a mailbox, up to `concurrency` at once. Say in `handle` how.

    What `handle` returns is the reply. It goes to the mailbox that the message names, or to
    `responses`. With a policy in `dlq`, what fails is tried again and given up as it says; without
    one, every failure is answered, once.

    A run ends when it is stopped, after `max_iterations` polls, or when the mailbox is closed.
    What is in hand is finished first, as long as nobody calls `checkpoint`. Its
    `visibility_timeout` is the longest time that a request may go without a sign of progress;
    underneath, a lease of `lease_s` seconds is kept as long as this process lives.
    """

    #: Whether a failure is a warning in the log, with its trace; else only who debugs sees it.
    warns_of_failures = True

    def __init__(
        self,
        *,
        requests: Mailbox[Req, Res],
        responses: Mailbox[Res, Any] | None = None,
        dlq: DLQPolicy[Req] | None = None,
        worker_id: str | None = None,
        concurrency: int = 1,
        name: str | None = None,
        lease_s: float = LEASE_S,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(name, clock=clock)
        self.worker_id = worker_id or f"{socket.gethostname()}-{os.getpid()}"
        self._requests = requests
        self._responses = responses
        self._dlq = dlq
        self._concurrency = concurrency
        self._lease_s = lease_s
        self._clock = clock
        self._options(1.0)  # what can never run is refused now
        #: Of the run that goes on, or the last one; and what those before it had come to.
        self._consumer: Consumer[MessageWork[Req, Res]] | None = None
        self._past_progress = self._past_lost = 0
        self._patience_s = 0.0

    # What subclasses say

    @abstractmethod
    def handle(self, message: Message[Req, Res], turn: Turn) -> Res | None:
        """Do one request; the reply, or None for none. May block its thread."""

    async def handle_async(self, message: Message[Req, Res], turn: Turn) -> Res | None:
        """The same for loops that are `is_async`: thousands may wait on one event loop."""
        raise NotImplementedError(f"{type(self).__name__} says is_async and has no handle_async")

    @property
    def is_async(self) -> bool:
        """Whether `handle_async` is called, and not `handle`."""
        return False

    @abstractmethod
    def failure(self, message: Message[Req, Res], error: BaseException, reason: str) -> Res | None:
        """The reply for a request that failed for good; None for none."""

    def incoming(self) -> Mailbox[Req, Res]:
        """Where a run gets its messages from."""
        return self._requests

    def deadline_of(self, message: Message[Req, Res]) -> Deadline | None:  # noqa: ARG002
        """When a request is given up. What this raises is its failure."""
        return None

    # Running

    def work(
        self,
        stop: threading.Event,
        *,
        max_iterations: int | None,
        visibility_timeout: int,
        wait_time_seconds: int,
    ) -> None:
        self._patience_s = _require_patience(visibility_timeout)
        wait_s = require_wait(wait_time_seconds)
        # Who counts polls wants each of them to wait; else waiting is the consumer's.
        source = MessageSource(
            self.incoming(),
            self,
            stop,
            responses=self._responses,
            policy=self._dlq,
            lease_s=self._lease_s,
            wait_s=None if max_iterations is None else wait_s,
            clock=self._clock,
        )
        self._past_progress, self._past_lost = self.progress, self.leases_lost
        options = self._options(max(wait_s, _SHORTEST_WAIT_S))
        self._consumer = Consumer(source, options, _Failures(self.name, self.warns_of_failures))
        self._consumer.run(stop, max_iterations=max_iterations)

    def _options(self, poll_interval_s: float) -> Options:
        return Options(
            concurrency=self._concurrency,
            poll_interval_s=poll_interval_s,
            drain_s=math.inf,
            clock=self._clock,
            heartbeat=self._heartbeat,
        )

    def checkpoint(self) -> None:
        """The time of a drain is over: give back what is unfinished, and let the run end."""
        if self._consumer is not None:
            self._consumer.checkpoint()

    def _stop_claiming(self) -> None:
        if self._consumer is not None:
            self._consumer.stop_claiming()

    def rescue(self, stage: StallStage) -> None:
        """Asked by the watchdog, before it kills this process."""
        if self._consumer is None:
            return
        if stage is StallStage.CANCELLED:
            self._consumer.cancel_all()
        else:
            self._consumer.kill_all()

    # What is seen of it

    @property
    def in_flight(self) -> int:
        """Requests in hand."""
        return 0 if self._consumer is None else self._consumer.in_flight

    @property
    def progress(self) -> int:
        """Changes whenever any request moves on."""
        return self._past_progress + (0 if self._consumer is None else self._consumer.progress)

    @property
    def leases_lost(self) -> int:
        """How many messages were lost to others; only grows."""
        return self._past_lost + (0 if self._consumer is None else self._consumer.leases_lost)

    @property
    def unready_reason(self) -> str | None:
        """Why no request can be taken now, or None."""
        return why_unready(self._consumer, is_running=self.running)

    # How one message is done

    def job(self, message: Message[Req, Res]) -> Job:
        """For the source."""
        deadline = self.deadline_of(message)
        left = None if deadline is None else deadline.require_rest(self._clock)
        if self.is_async:
            return Job(OnLoop(partial(self._do_async, message, deadline)), left, self._patience_s)
        return Job(InThread(partial(self._do, message, deadline)), left, self._patience_s)

    def _do(
        self, message: Message[Req, Res], deadline: Deadline | None, attempt: Attempt
    ) -> Res | None:
        with taking(_turn_of(message, deadline, attempt)) as turn:
            return self.handle(message, turn)

    async def _do_async(
        self, message: Message[Req, Res], deadline: Deadline | None, attempt: Attempt
    ) -> Res | None:
        with taking(_turn_of(message, deadline, attempt)) as turn:
            return await self.handle_async(message, turn)


class _Failures(Observer[MessageWork[Any, Any]]):
    """Logs what failed, with its trace: whoever asked hears no more than the message."""

    def __init__(self, loop: str, is_warning: bool) -> None:
        self._loop = loop
        self._tell = _log.warning if is_warning else _log.debug

    def began(self, work: MessageWork[Any, Any], attempt: Attempt) -> None:
        """Nothing to tell."""

    def ended(
        self,
        work: MessageWork[Any, Any],
        attempt: Attempt,  # noqa: ARG002
        error: BaseException | None,
    ) -> None:
        if error is None or isinstance(error, TurnSuspended):
            return
        self._tell(
            "message_failed",
            loop=self._loop,
            message=work.label,
            delivery=work.message.delivery_count,
            error=text_of(error),
            exc_info=error,
        )

    def lost(self, work: MessageWork[Any, Any], attempt: Attempt) -> None:
        """Told already."""


def _turn_of(message: Message[Any, Any], deadline: Deadline | None, attempt: Attempt) -> Turn:
    return Turn(
        attempt=message.delivery_count,
        deadline=deadline,
        cancellation=attempt.cancellation,
        on_beat=attempt.beat,
    )


def _require_patience(visibility_timeout: float) -> float:
    if require_visibility(visibility_timeout) <= 0:
        raise InvalidParameterError(
            "visibility_timeout is the longest time without progress, and so more than 0 seconds"
        )
    return visibility_timeout
