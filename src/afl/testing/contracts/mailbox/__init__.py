"""What every mailbox must do: one class for each subject, and their sum.

A suite of your own backend needs only the fixture `boxes`:

    class TestMyMailbox(MailboxContract):
        @pytest.fixture
        def boxes(self, clock: FakeClock) -> Boxes:
            return lambda name: MyBox(name, clock=clock)
"""

from __future__ import annotations

from afl.testing.contracts.mailbox.arguments import ArgumentContract
from afl.testing.contracts.mailbox.burials import BurialContract
from afl.testing.contracts.mailbox.exam import Boxes, MailboxExam
from afl.testing.contracts.mailbox.leases import LeaseContract
from afl.testing.contracts.mailbox.messages import MessageContract
from afl.testing.contracts.mailbox.queues import QueueContract
from afl.testing.contracts.mailbox.waits import WaitContract

__all__ = [
    "ArgumentContract",
    "Boxes",
    "BurialContract",
    "LeaseContract",
    "MailboxContract",
    "MailboxExam",
    "MessageContract",
    "QueueContract",
    "WaitContract",
]


class MailboxContract(
    QueueContract, LeaseContract, BurialContract, WaitContract, MessageContract, ArgumentContract
):
    """All of it."""
