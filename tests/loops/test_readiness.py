"""When a loop says that it takes work."""

from __future__ import annotations

import threading
from typing import Any

from tests.loops.office import PATIENCE_S, Running, eventually

from afl.loops import AgentLoop
from afl.mailbox import InMemoryMailbox, Message
from afl.runtime.lifecycle import LoopGroup


class Slow(InMemoryMailbox[Any, Any]):
    """Does not answer until it may."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked, self.may_answer = threading.Event(), threading.Event()

    def receive(self, **options: Any) -> list[Message[Any, Any]]:
        self.is_asked.set()
        assert self.may_answer.wait(PATIENCE_S)
        return super().receive(**options)


def test_a_loop_is_ready_once_its_mailbox_has_answered_and_not_before() -> None:
    requests = Slow()
    loop = AgentLoop.from_function(str.upper, requests=requests)
    assert loop.unready_reason is None
    for _ in range(2):  # the answers of one run say nothing about the next
        with Running(loop):
            assert requests.is_asked.wait(PATIENCE_S)
            assert loop.unready_reason == "starting: its first claim is not answered yet"
            requests.may_answer.set()
            eventually(lambda: loop.unready_reason is None)
        requests.is_asked.clear()
        requests.may_answer.clear()


def test_a_group_says_so() -> None:
    requests = Slow()
    group = LoopGroup([AgentLoop.from_function(str.upper, requests=requests, name="mail")])
    running = threading.Thread(target=lambda: group.run(install_signals=False))
    running.start()
    try:
        assert requests.is_asked.wait(PATIENCE_S)
        reasons = ("mail: starting: its first claim is not answered yet",)
        eventually(lambda: group.ready().reasons == reasons)
        requests.may_answer.set()
        eventually(lambda: group.ready().ok)
    finally:
        requests.may_answer.set()
        group.shutdown()
        running.join(PATIENCE_S)
