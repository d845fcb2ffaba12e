"""Turn stores on servers under a machine of workers and operators."""

from __future__ import annotations

from typing import ClassVar

import pytest
from tests.contracts.remote_turns import PLACES, Open
from tests.contracts.test_turns_machine import IS_STORM, search

from afl.clock import FakeClock
from afl.testing.contracts.turns.machine import TurnMachine
from afl.turns.api import TurnStore


class RemoteMachine(TurnMachine):
    kind: ClassVar[str]
    url: ClassVar[str]
    place: Open | None = None

    def open_store(self, clock: FakeClock) -> TurnStore:
        self.place = self.place or PLACES[self.kind](self.url)
        return self.place(clock)


@pytest.mark.timeout(3600 if IS_STORM else 120)
@pytest.mark.parametrize("kind", list(PLACES))
def test_a_store_keeps_up_with_the_model(kind: str, request: pytest.FixtureRequest) -> None:
    class Machine(RemoteMachine):
        pass

    Machine.kind, Machine.url = kind, request.getfixturevalue(f"{kind}_url")
    search(Machine, 500 if IS_STORM else 5)
