"""Tools that a model has called, called again: who is not reached then may have acted before."""

from __future__ import annotations

from typing import Any

import pytest
from tests.loops.office import Office, Running
from tests.turns.tooled import Tooled

from afl.agents.adapters.scripted import ScriptedAdapter, calls, says
from afl.agents.budget import Budget
from afl.agents.calling import Blocking, run_blocking
from afl.agents.evaluation import Terms, evaluate
from afl.clock import FakeClock
from afl.loops import Prompt, Session, ToolsSection, tool
from afl.loops.agent_loop import run_shared
from afl.loops.durable_recorder import JournalRecorder
from afl.turns import (
    Kind,
    MemoryTurns,
    NewTurn,
    OutcomeUnknown,
    Turn,
    TurnState,
    TurnSuspended,
    current_effect,
)


class Hasty(FakeClock):
    """Whoever sleeps is awake at once, and it is later."""

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)


class Killed(BaseException):
    """The process ends in the middle of a call."""


class Charging:
    """A turn whose model charges once; what each call of the tool meets is said before."""

    def __init__(self, *meets: Any, **policy: Any) -> None:
        self.clock = Hasty()
        self.store = MemoryTurns(clock=self.clock)
        self.id = self.store.accept(NewTurn("loop", b'"hello"')).id
        self.keys: list[str] = []
        self.model = ScriptedAdapter([calls("charge", {"amount": 30}), says("done")])
        self.session = Session()
        self._meets = list(meets)

        def charge(amount: int) -> str:
            return f"{amount}: {self._met()}"

        async def charge_later(amount: int) -> str:
            return f"{amount}: {self._met()}"

        self.charge, self.charge_later = (tool(**policy)(each) for each in (charge, charge_later))

    def _met(self) -> str:
        effect = current_effect()
        assert effect is not None
        self.keys.append(effect.key)
        met = self._meets.pop(0)
        if isinstance(met, BaseException):
            raise met
        return str(met)

    def attempt(self, function: Any = None) -> Any:
        """As a process does it that gets the turn."""
        turn = Turn(self.store, self.store.begin(self.id, "ann", 30_000), clock=self.clock)
        charge = self.charge if function is None else function
        prompt: Prompt[Any] = Prompt("Charge me.", ToolsSection(charge))
        budget = Budget()
        self.session = Session()
        terms = Terms("m", budget, recorder=JournalRecorder(turn, prompt, budget))
        calling = Blocking(self.model, run_shared)
        return run_blocking(evaluate(prompt, self.session, calling, terms)).output

    @property
    def kinds(self) -> list[Kind]:
        return [each.kind for each in self.store.read(self.id)]

    @property
    def told(self) -> tuple[str, bool]:
        """What the model heard of the charge."""
        (use,) = self.session.tool_uses
        return use.result.content, use.is_error


def away() -> ConnectionRefusedError:
    return ConnectionRefusedError("billing is being deployed")


def test_a_turn_waits_for_a_server_that_may_have_acted_before_its_process_died() -> None:
    life = Charging(Killed(), away(), away(), away(), "charged before", idempotent=True)
    with pytest.raises(Killed):
        life.attempt()
    with pytest.raises(TurnSuspended, match="waits for charge"):
        life.attempt()
    assert life.kinds == [Kind.MODEL, Kind.TOOL_INTENT]
    record = life.store.get(life.id)
    assert (record.state, record.due is not None) == (TurnState.WAITING, True)

    life.clock.advance(30)
    assert life.attempt() == "done"
    assert life.told == ("30: charged before", False)
    assert (len(life.keys), len(set(life.keys))) == (5, 1)


def test_the_same_holds_for_a_coroutine() -> None:
    life = Charging(Killed(), away(), "charged before", idempotent=True)
    with pytest.raises(Killed):
        life.attempt()
    life.charge_later.__name__ = "charge"
    assert life.attempt(life.charge_later) == "done"
    assert life.told == ("30: charged before", False)


def test_who_is_not_reached_at_the_first_attempt_has_done_nothing() -> None:
    life = Charging(away(), idempotent=True)
    assert life.attempt() == "done"
    assert life.told == ("billing is being deployed", True)
    assert life.kinds[2] is Kind.TOOL_FAILED


def test_an_answer_to_a_repeat_is_one_also_if_it_is_an_error() -> None:
    life = Charging(Killed(), ValueError("card refused"), idempotent=True)
    with pytest.raises(Killed):
        life.attempt()
    assert life.attempt() == "done"
    assert life.told == ("card refused", True)


def test_a_loop_asks_again_when_a_server_acted_and_then_is_away(memory_office: Office) -> None:
    keys: list[str] = []

    @tool(idempotent=True)
    def charge(amount: int) -> str:
        effect = current_effect()
        assert effect is not None
        keys.append(effect.key)
        if len(keys) == 1:
            raise OutcomeUnknown("it acts, and dies")
        if len(keys) == 2:
            raise away()
        return f"{amount} charged before"

    adapter = ScriptedAdapter([calls("charge", {"amount": 30}), says("done")])
    memory_office.ask("first")
    agent = Tooled(adapter, memory_office, charge, turns=MemoryTurns())
    with Running(agent):
        assert memory_office.outputs(1) == ["done"]
    assert agent.sessions[-1].tool_uses[0].result.content == "30 charged before"
    assert (len(keys), len(set(keys))) == (3, 1)


# An agent that is a tool of another one


def asking(life: Charging, *errors: Exception) -> Any:
    """A tool that lets another agent charge, who may try twice. The first process dies when it
    has."""
    met = list(errors)

    def pay() -> str:
        life.charge(30)
        if met:
            raise met.pop(0)
        return "paid"

    @tool(idempotent=True)
    def charge(amount: int) -> str:
        model = ScriptedAdapter([calls("pay", {}), calls("pay", {}), says(f"{amount} paid")])
        prompt: Prompt[Any] = Prompt("Pay.", ToolsSection(pay))
        terms, calling = Terms("m"), Blocking(model, run_shared)
        return str(run_blocking(evaluate(prompt, Session(), calling, terms)).output)

    return charge


@pytest.mark.parametrize("error", [away(), OutcomeUnknown("it may have acted")])
def test_an_agent_within_a_repeat_does_not_hear_that_something_failed_that_may_be_done(
    error: Exception,
) -> None:
    life = Charging(Killed(), "", "", "", idempotent=True)
    charge = asking(life, error)
    with pytest.raises(Killed):
        life.attempt(charge)
    assert life.attempt(charge) == "done"
    # Not by another try of the inner agent: the outer call was made again.
    assert life.told == ("30 paid", False)
    assert len(life.keys) == 4


def test_an_agent_within_a_first_attempt_may_try_something_else() -> None:
    life = Charging("", "", idempotent=True)
    assert life.attempt(asking(life, away())) == "done"
    assert (life.told, len(life.keys)) == (("30 paid", False), 2)
