"""What every store must do: one class for each part of the port, and their sum.

A suite of your own store needs only the fixture `store`:

    class TestMyStore(StoreContract):
        @pytest.fixture
        def store(self, clock: FakeClock) -> MyStore:
            return MyStore(clock=clock)
"""

from __future__ import annotations

from afl.testing.contracts.store.claims import ClaimContract
from afl.testing.contracts.store.directory import DirectoryContract
from afl.testing.contracts.store.fleet import FleetContract
from afl.testing.contracts.store.following import FollowContract
from afl.testing.contracts.store.leases import LeaseContract
from afl.testing.contracts.store.lists import ListContract
from afl.testing.contracts.store.locks import LockContract
from afl.testing.contracts.store.records import RecordContract
from afl.testing.contracts.store.runs import RunContract
from afl.testing.contracts.store.steps import StepContract
from afl.testing.contracts.store.tasks import TaskContract
from afl.testing.contracts.store.transactions import TransactionContract
from afl.testing.contracts.store.waits import WaitContract

__all__ = [
    "ClaimContract",
    "DirectoryContract",
    "FleetContract",
    "FollowContract",
    "LeaseContract",
    "ListContract",
    "LockContract",
    "RecordContract",
    "RunContract",
    "StepContract",
    "StoreContract",
    "TaskContract",
    "TransactionContract",
    "WaitContract",
]


class StoreContract(
    TransactionContract,
    StepContract,
    TaskContract,
    ClaimContract,
    LeaseContract,
    WaitContract,
    LockContract,
    RunContract,
    DirectoryContract,
    FleetContract,
    ListContract,
    FollowContract,
    RecordContract,
):
    """All of it."""
