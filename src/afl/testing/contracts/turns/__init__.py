"""What every turn store must do: one class for each subject, and their sum.

A suite of your own store needs only the fixture `stores`:

    class TestMyTurns(TurnContract):
        @pytest.fixture
        def stores(self, clock: FakeClock) -> Stores:
            return lambda: MyTurns(clock=clock)
"""

from __future__ import annotations

from afl.testing.contracts.turns.beginning import BeginningContract
from afl.testing.contracts.turns.dues import DueContract
from afl.testing.contracts.turns.exam import Stores, TurnExam
from afl.testing.contracts.turns.journals import JournalContract
from afl.testing.contracts.turns.moving import MovingContract
from afl.testing.contracts.turns.people import PeopleContract
from afl.testing.contracts.turns.streams import (
    StreamContract,
    StreamPlaceContract,
    TakerContract,
)

__all__ = [
    "BeginningContract",
    "DueContract",
    "JournalContract",
    "MovingContract",
    "PeopleContract",
    "Stores",
    "StreamContract",
    "StreamPlaceContract",
    "TakerContract",
    "TurnContract",
    "TurnExam",
]


class TurnContract(
    BeginningContract,
    JournalContract,
    StreamContract,
    StreamPlaceContract,
    PeopleContract,
    DueContract,
    TakerContract,
    MovingContract,
):
    """All of it."""
