"""What processes of the laboratory do with turns. Each may be killed at any commit."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

from tests.engine.jobs import CommitCounter, ShiftedClock
from tests.turns.agent import PLAN, Agent, RemoteModel, Shop
from tests.turns.world import World

from afl.clock import SYSTEM_CLOCK, Clock, now_ms
from afl.ids import new_id
from afl.loops import AgentLoopRequest, AgentLoopResult, TurnStatus
from afl.mailbox.sqlite import SqliteMailbox
from afl.turns import (
    Kind,
    MongoTurns,
    NewEntry,
    Outcome,
    PostgresTurns,
    SqliteTurns,
    TurnState,
    TurnStore,
    tool_calls,
    writing,
)
from afl.turns.effects import Effect
from afl.turns.values import decode, encode

_LEASE_S = 10.0


def turns_at(place: str, clock: Clock = SYSTEM_CLOCK) -> TurnStore:
    """The turns at a place; on a server by the server's clock, unless another one is given."""
    told = None if clock is SYSTEM_CLOCK else lambda: now_ms(clock)
    if place.startswith("postgresql:"):
        return PostgresTurns(place, told=told)
    if place.startswith("mongodb:"):
        return MongoTurns(place, told=told)
    return SqliteTurns(place, clock=clock)


def prepare(path: str, turn: str, *, place: str = "") -> int:
    """Ask for one turn, which is kept at the place, or with its mailboxes."""
    with ExitStack() as opened:
        requests = opened.enter_context(closing(_requests(path)))
        replies = opened.enter_context(closing(_replies(path)))
        store = opened.enter_context(closing(turns_at(place or path)))
        store.secret()
        requests.send(AgentLoopRequest("sell the lamp", request_id=turn), reply_to=replies)
    return 0


def attempt(
    path: str,
    turn: str,
    model_port: int,
    tools_port: int,
    *,
    place: str = "",
    life: int = 0,
    deadly: int = 0,
    side: str = "",
    defect: str = "",
) -> int:
    """Bring the turn to its end, wherever it stands, and check everything; how many commits that
    took. Dies `before` or `after` its commit number `deadly`. A `defect` is a mistake that a
    journal could make."""
    if defect:
        DEFECTS[defect]()
    counter = CommitCounter(deadly, side)
    counter.watch()
    clock = ShiftedClock(hours=life)
    with ExitStack() as opened:
        requests = opened.enter_context(closing(_requests(path, clock)))
        store = opened.enter_context(closing(turns_at(place or path, clock)))
        model = opened.enter_context(closing(World(model_port)))
        tools = opened.enter_context(closing(World(tools_port)))
        agent = Agent(
            Shop(tools, turn),
            adapter=RemoteModel(model, turn),
            requests=requests,
            turns=store,
            lease_s=_LEASE_S,
            clock=clock,
        )
        answers = _journaled_answers(store)
        paid = model.ask("calls", turn=turn)
        agent.run(max_iterations=1, wait_time_seconds=0)
        while unsettled := store.effects():
            _settle(store, tools, turn, unsettled)
            agent.run(max_iterations=1, wait_time_seconds=0)
        # Nothing that was in the journal was asked again.
        assert model.ask("calls", turn=turn) - paid == len(PLAN) + 1 - answers
        _check_end(store, tools, turn)
        replies = opened.enter_context(closing(_replies(path, clock)))
        _check_replies(replies)
    return counter.count


def _journaled_answers(store: TurnStore) -> int:
    entries = [entry for turn in store.list() for entry in store.read(turn.id)]
    return sum(each.kind is Kind.MODEL for each in entries)


def _settle(store: TurnStore, tools: World, turn: str, unsettled: Any) -> None:
    """A person looks at the ledger."""
    (effect,) = unsettled
    assert effect.name == "fax", "of all others it can be known"
    is_done = ["fax", PLAN[2][1]] in tools.ask("ledger", turn=turn)
    outcome = Outcome.DONE if is_done else Outcome.AGAIN
    store.settle(effect.turn_id, effect.call_id, outcome, encode("a person knows"))


def _check_end(store: TurnStore, tools: World, turn: str) -> None:
    (record,) = store.list()
    assert (record.state, record.key) == (TurnState.DONE, turn), record
    assert [tuple(each) for each in tools.ask("ledger", turn=turn)] == PLAN
    words = decode(store.value(record.result or ""))
    last = [each for each in store.read(record.id) if each.kind is Kind.MODEL][-1]
    assert words in last.value.decode()


def _check_replies(replies: SqliteMailbox[Any, Any]) -> None:
    """All that say an end say the same one, and the last one does."""
    bodies = [each.body for each in replies.peek()]
    ends = [each.output for each in bodies if each.status is not TurnStatus.SUSPENDED]
    assert ends
    assert set(ends) == {ends[0]}
    assert all(each.resume_token for each in bodies if each.status is TurnStatus.SUSPENDED)


def _requests(path: str, clock: Any = None) -> SqliteMailbox[Any, Any]:
    options = {} if clock is None else {"clock": clock}
    return SqliteMailbox("requests", path, body_type=AgentLoopRequest[str], **options)


def _replies(path: str, clock: Any = None) -> SqliteMailbox[Any, Any]:
    options = {} if clock is None else {"clock": clock}
    return SqliteMailbox("replies", path, body_type=AgentLoopResult[Any], **options)


# Mistakes that the laboratory must find


def _fresh_keys() -> None:
    """A call that is made again has a new key."""

    def fresh(call_id: str, _key: str, *rest: Any, **options: Any) -> Effect:
        return Effect(call_id, new_id(), *rest, **options)

    setattr(tool_calls, "Effect", fresh)  # noqa: B010


def _doubts_are_ignored() -> None:
    """Whatever may have been done is done again."""

    async def make_again(*_anything: Any) -> None:
        return None

    setattr(tool_calls.ToolCalls, "_found_out", make_again)  # noqa: B010


def _answers_come_late() -> None:
    """The answer of a model is written after its tools were called, with their results."""
    append = writing.JournalWriter.append
    held: list[NewEntry] = []

    async def late(self: Any, *entries: NewEntry) -> Any:
        if entries[0].kind is Kind.MODEL and b"tool_call" in entries[0].value:
            held.extend(entries)
            return []
        if entries[0].kind is Kind.TOOL_DONE:
            entries = (*held, *entries)
            held.clear()
        return await append(self, *entries)

    setattr(writing.JournalWriter, "append", late)  # noqa: B010


DEFECTS: dict[str, Callable[[], None]] = {
    "fresh keys": _fresh_keys,
    "doubts are ignored": _doubts_are_ignored,
    "answers come late": _answers_come_late,
}

JOBS: dict[str, Callable[..., int]] = {"prepare turn": prepare, "attempt turn": attempt}
