"""A place with a mailbox for requests and one for replies, and loops that run there."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from afl.ids import new_id
from afl.loops import AgentLoop, AgentLoopRequest, AgentLoopResult, MailboxLoop
from afl.mailbox import Mailbox, Message, open_mailbox
from afl.runtime.lifecycle import wait_until

#: Longer than anything takes here, on a busy machine too.
PATIENCE_S = 20.0

Results = list[AgentLoopResult[Any]]


def eventually(predicate: Callable[[], object], *, patience_s: float | None = None) -> None:
    """Raises AssertionError unless it comes true within the patience of tests, or this one."""
    timeout = PATIENCE_S if patience_s is None else patience_s
    assert wait_until(lambda: bool(predicate()), timeout=timeout, poll_interval=0.002)


class Office:
    """Mailboxes at a URL. Their names are new, since tests share servers."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._mark = new_id()[-8:]
        self._opened = ExitStack()

    def __enter__(self) -> Office:
        self.requests: Mailbox[Any, Any] = self.open("requests", AgentLoopRequest[Any])
        self.replies: Mailbox[Any, Any] = self.open("replies", AgentLoopResult[Any])
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.requests.purge()
        self.replies.purge()
        self._opened.close()

    def open(self, name: str, body_type: Any = None, **options: Any) -> Mailbox[Any, Any]:
        """Each call is as another process would do it: another object."""
        box = open_mailbox(self.url, f"{name}-{self._mark}", body_type=body_type, **options)
        self._opened.callback(box.close)
        return box

    def ask(self, *bodies: Any) -> list[str]:
        """Send requests; their ids."""
        requests = [AgentLoopRequest(each) for each in bodies]
        for each in requests:
            self.requests.send(each, reply_to=self.replies)
        return [each.request_id for each in requests]

    def loop(self, function: Callable[..., Any], **options: Any) -> AgentLoop[Any, Any]:
        """A loop on mailboxes of its own, as in another process."""
        requests = self.open("requests", AgentLoopRequest[Any])
        return AgentLoop.from_function(function, **{"requests": requests, **options})

    def answers(self, count: int) -> Results:
        """Wait for so many replies, and no more."""
        found: Results = []
        while len(found) < count:
            found += self.some_answers()
        assert len(found) == count, f"{len(found)} replies came, and not {count}: {found}"
        return found

    def some_answers(self) -> Results:
        """Wait for a reply; it, and others that are there."""
        messages = self.replies.receive(max_messages=10, wait_time_seconds=PATIENCE_S)
        assert messages, "no reply came"
        for each in messages:
            each.acknowledge()
        return [each.body for each in messages]

    def outputs(self, count: int) -> list[Any]:
        return [each.output for each in self.answers(count)]

    def take(self, lease_s: float = 30.0) -> Message[Any, Any]:
        """Receive a request, as another loop would."""
        (message,) = self.requests.receive(visibility_timeout=lease_s, wait_time_seconds=PATIENCE_S)
        return message


class Gate:
    """Work that waits until it may end, and tells that it has begun."""

    def __init__(self) -> None:
        self.begun: list[Any] = []
        self.may_end = threading.Event()

    def __call__(self, request: Any) -> Any:
        self.begun.append(request)
        assert self.may_end.wait(PATIENCE_S)
        return request

    def wait_for(self, count: int) -> None:
        eventually(lambda: len(self.begun) >= count)


class Running:
    """Runs a loop from the beginning of a `with` to its end, and raises there what it raised."""

    def __init__(self, loop: MailboxLoop[Any, Any], **options: Any) -> None:
        self.loop = loop
        self.error: BaseException | None = None
        self._options = options
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Running:
        self.loop.expect_run()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.loop.request_stop()
        if kind is not None:
            self.loop.checkpoint()
        self.join()
        if self.error is not None and kind is None:
            raise self.error

    def stop(self) -> None:
        """Ask for the stop; it is heard when this returns, as it is not on a main thread."""
        asking = threading.Thread(target=self.loop.request_stop)
        asking.start()
        asking.join()

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def join(self) -> None:
        self._thread.join(PATIENCE_S)
        assert self.is_over, "the run does not end"

    def _run(self) -> None:
        try:
            self.loop.run(**self._options)
        except BaseException as error:
            self.error = error
