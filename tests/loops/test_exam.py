"""Loops over mailboxes pass the exam of runnables."""

from __future__ import annotations

from typing import Any

import pytest
from tests.loops.office import Office

from afl.loops import MailboxLoop, Turn
from afl.mailbox import Message
from afl.runtime.lifecycle import Runnable
from afl.testing.runnable import RunnableExam


class Echo(MailboxLoop[Any, Any]):
    """The smallest loop."""

    def handle(self, message: Message[Any, Any], turn: Turn) -> Any:
        return message.body

    def failure(self, message: Message[Any, Any], error: BaseException, reason: str) -> Any:
        return reason


class TestMailboxLoop(RunnableExam):
    @pytest.fixture
    def loop(self, office: Office) -> Runnable:
        return Echo(requests=office.requests)


class TestAgentLoop(RunnableExam):
    @pytest.fixture
    def loop(self, office: Office) -> Runnable:
        return office.loop(str.upper)


class TestAsynchronousAgentLoop(RunnableExam):
    @pytest.fixture
    def loop(self, memory_office: Office) -> Runnable:
        async def answer(request: Any) -> Any:
            return request

        return memory_office.loop(answer, concurrency=100)
