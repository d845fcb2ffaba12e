"""Turn stores under a machine of workers and operators; and mistakes that it must find.

Each mistake is planted alone into a store that is otherwise right. A search that passes over one
says that nothing would protect us from making it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from msgspec.structs import replace

from afl.clock import FakeClock
from afl.testing.contracts.turns.machine import TurnMachine
from afl.turns import outside, rules
from afl.turns.api import Claim, Delta, Ending, TurnRecord, TurnState, TurnStore
from afl.turns.errors import StaleTurn
from afl.turns.memory import MemoryTurns

IS_STORM = os.environ.get("AFL_TEST_PROFILE") == "storm"


class MemoryMachine(TurnMachine):
    kept: MemoryTurns | None = None

    def open_store(self, clock: FakeClock) -> TurnStore:
        self.kept = self.kept or MemoryTurns(clock=clock)
        return self.kept


class SqliteMachine(TurnMachine):
    folder: Path | None = None

    def open_store(self, clock: FakeClock) -> TurnStore:
        from afl.turns.sqlite import SqliteTurns

        self.folder = self.folder or Path(tempfile.mkdtemp(prefix="afl-"))
        return SqliteTurns(self.folder / "afl.db", clock=clock)

    def teardown(self) -> None:
        super().teardown()
        if self.folder is not None:
            shutil.rmtree(self.folder)


def search(machine: type[TurnMachine], examples: int) -> None:
    found = settings(
        max_examples=examples,
        stateful_step_count=40,
        # The storm looks elsewhere each time.
        derandomize=not IS_STORM,
        database=None,
        deadline=None,
        # The shortest way to a mistake takes minutes to find: that is for the storm.
        phases=[Phase.generate, Phase.shrink] if IS_STORM else [Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=found)


@pytest.mark.timeout(3600 if IS_STORM else 60)
@pytest.mark.parametrize(
    ("machine", "examples"),
    [(MemoryMachine, 10_000 if IS_STORM else 100), (SqliteMachine, 1000 if IS_STORM else 15)],
    ids=["memory", "sqlite"],
)
def test_a_store_keeps_up_with_the_model(machine: type[TurnMachine], examples: int) -> None:
    search(machine, examples)


# Mistakes: what a rule says in their place


def unfenced(turn: TurnRecord, claim: Claim) -> None:
    """Whoever once had a turn may write."""


def fenced_while_running_only(turn: TurnRecord, claim: Claim) -> None:
    """An old claim is good again as soon as somebody runs the turn."""
    if turn.state is not TurnState.RUNNING:
        raise StaleTurn(turn.id, claim.fence, turn.fence)


def stolen(turn: TurnRecord, owner: str, lease_ms: int, now: int) -> TurnRecord:
    """Anybody may begin what somebody does."""
    return BEGAN(replace(turn, lease_until=0), owner, lease_ms, now)


def same_fence(turn: TurnRecord, owner: str, lease_ms: int, now: int) -> TurnRecord:
    """The claims of two owners are the same."""
    return replace(BEGAN(turn, owner, lease_ms, now), fence=1)


def revived(turn: TurnRecord, owner: str, lease_ms: int, now: int) -> TurnRecord:
    """A turn that is over begins again."""
    state = TurnState.SUSPENDED if turn.state.is_end else turn.state
    return BEGAN(replace(turn, state=state), owner, lease_ms, now)


def brought_once(turn: TurnRecord, owner: str, lease_ms: int, now: int) -> TurnRecord:
    """What a dead owner claimed never comes back."""
    return replace(CLAIMED(turn, owner, lease_ms, now), due=None)


def lent_for_ever(turn: TurnRecord, claim: Claim, lease_ms: int, now: int) -> TurnRecord | None:
    """Whoever lost a claim can renew it."""
    return EXTENDED(turn, Claim(turn.id, turn.fence), lease_ms, now)


def untold(turn: TurnRecord, ending: Ending, result: str | None, now: int) -> TurnRecord:
    """An end is forgotten before anybody was told."""
    return replace(FINISHED(turn, ending, result, now), due=None)


def unready(turn: TurnRecord, now: int) -> TurnRecord:
    """An answer is kept, and the turn sleeps on."""
    return turn


def sealed_without_fence(turn: TurnRecord, pause: Any, now: int) -> TurnRecord:
    """A paused turn can still be written to."""
    return replace(PAUSED(turn, pause, now), state=TurnState.RUNNING, fence=turn.fence)


def said_late(turn: TurnRecord, after: int) -> None:
    """Words come after the answer that has them."""


def believed(turn: TurnRecord, entries: Any, *, is_left: bool) -> bool:
    """Whoever reads the words of a turn that was left takes them for good."""
    return IS_VOID(turn, entries, is_left=False)


def believed_further(turn: TurnRecord, entries: Any, *, is_left: bool) -> bool:
    """The words of a call that was given up are good."""
    return is_left and IS_VOID(turn, entries, is_left=True)


def never_whole(turn: TurnRecord, entries: Any) -> bool:
    """Words whose answer is in the journal are taken back."""
    return False


def unmarked(
    turn: TurnRecord, call_id: str, text: str | None, now: int
) -> tuple[TurnRecord, Delta]:
    """Nobody knows that something was said."""
    said, delta = SAID(turn, call_id, text, now)
    return replace(said, saying=""), delta


def numbered_anew(
    turn: TurnRecord, call_id: str, text: str | None, now: int
) -> tuple[TurnRecord, Delta]:
    """Each call counts its words from the beginning."""
    said, delta = SAID(turn, call_id, text, now)
    return (said, delta) if turn.saying else (said, replace(delta, number=1))


def unheard(shelf: Any, turn: TurnRecord, known: int) -> bool:
    """An answer that came while the turn was being done is not noticed when that waits."""
    return False


def overruled(shelf: Any, turn: TurnRecord, entries: Any) -> None:
    """An answer that somebody was thanked for is thrown away."""


IS_VOID, SAID = rules.is_void, rules.said
BEGAN, CLAIMED, EXTENDED = rules.began, rules.claimed, rules.extended
FINISHED, PAUSED = rules.finished, rules.paused

MISTAKES = [
    ("require_current", unfenced),
    ("require_current", fenced_while_running_only),
    ("began", stolen),
    ("began", same_fence),
    ("began", revived),
    ("claimed", brought_once),
    ("extended", lent_for_ever),
    ("finished", untold),
    ("ready", unready),
    ("paused", sealed_without_fence),
    ("require_latest", said_late),
    ("is_void", believed),
    ("is_void", believed_further),
    ("is_whole", never_whole),
    ("said", unmarked),
    ("said", numbered_anew),
]
MISTAKES_WITH_PEOPLE = [("came_since", unheard), ("require_unanswered", overruled)]
ALL_MISTAKES = [
    *((rules, *each) for each in MISTAKES),
    *((outside, *each) for each in MISTAKES_WITH_PEOPLE),
]


@pytest.mark.timeout(3600 if IS_STORM else 300)
@pytest.mark.parametrize(
    ("module", "rule", "mistake"),
    [pytest.param(*each, id=each[-1].__name__) for each in ALL_MISTAKES],
)
def test_the_machine_finds_a_store_whose_turns_are(
    monkeypatch: pytest.MonkeyPatch, module: Any, rule: str, mistake: Any
) -> None:
    monkeypatch.setattr(module, rule, mistake)
    with pytest.raises((AssertionError, ExceptionGroup)):
        # Far more than it takes: the one that is hardest to find takes some 600.
        search(MemoryMachine, 20_000)
