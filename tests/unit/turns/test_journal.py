"""A turn and its journal: what is done is not done again, and what changed is noticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.turns.life import Life

from afl.turns import (
    Done,
    JournalMismatch,
    Kind,
    NotDone,
    Outcome,
    OutcomeUnknown,
    Policy,
    StaleTurn,
    ToolFailed,
    Turn,
    TurnState,
    TurnSuspended,
    checkpoint,
    current_effect,
)
from afl.turns.driving import run_blocking
from afl.turns.effects import effect_key
from afl.turns.values import encode

IDEMPOTENT = Policy(idempotent=True)


def test_what_is_in_the_journal_is_not_done_again(life: Life) -> None:
    for _ in range(3):
        turn = life.begin()
        assert turn.model(life.does({"say": "hi"})) == {"say": "hi"}
        assert turn.tool("charge", {"sum": 3}, life.does("paid")) == "paid"
        assert turn.model(life.does("bye")) == "bye"
    assert life.done == [{"say": "hi"}, "paid", "bye"]


def test_the_key_of_a_call_is_known_before_and_while_it_is_made(life: Life) -> None:
    keys = []

    def charge() -> None:
        effect = current_effect()
        assert effect is not None
        keys.append(effect.key)
        (pending,) = checkpoint(life.store, life.id)["pending"]
        assert pending["idempotency_key"] == effect.key

    life.begin().tool("charge", {}, charge, call_id="call-1")
    assert keys == [effect_key(life.id, "call-1")]
    assert current_effect() is None


def test_models_that_repeat_their_ids_get_different_keys(life: Life) -> None:
    turn = life.begin()
    for _ in range(2):
        turn.tool("charge", {"sum": 3}, life.does("paid"), call_id="call")
    again = life.begin()
    for _ in range(2):
        again.tool("charge", {"sum": 3}, life.does("paid"), call_id="call")
    assert life.done == ["paid", "paid"]
    keys = {each["call_id"] for each in checkpoint(life.store, life.id)["tool_results"]}
    assert keys == {"call", "call#2"}


def test_an_interrupted_call_of_an_idempotent_tool_is_made_again(life: Life) -> None:
    with pytest.raises(KeyboardInterrupt):
        life.begin().tool("charge", {}, life.crashes("paid"), policy=IDEMPOTENT)
    assert life.begin().tool("charge", {}, life.does("paid"), policy=IDEMPOTENT) == "paid"
    assert life.done == ["paid", "paid"]


def test_a_call_that_is_made_again_knows_it(life: Life) -> None:
    seen: list[bool] = []

    def charge() -> str:
        effect = current_effect()
        assert effect is not None
        seen.append(effect.is_repeat)
        if len(seen) == 2:
            raise OutcomeUnknown("the line broke")
        return "paid"

    with pytest.raises(KeyboardInterrupt):
        life.begin().tool("mail", {}, life.crashes("mailed"), policy=IDEMPOTENT)
    turn = life.begin()
    turn.tool("mail", {}, charge, policy=IDEMPOTENT)
    turn.tool("charge", {}, charge, policy=IDEMPOTENT)
    assert seen == [True, False, True]


def test_who_cannot_be_reached_again_has_not_failed(life: Life) -> None:
    """They may have acted before. Told that they failed, a model would plan the effect anew."""

    def refused() -> str:
        life.done.append("tried")
        raise ConnectionRefusedError("nobody there")

    with pytest.raises(KeyboardInterrupt):
        life.begin().tool("charge", {}, life.crashes("paid"), policy=IDEMPOTENT)
    with pytest.raises(TurnSuspended, match="waits for charge, which gave no answer"):
        life.begin().tool("charge", {}, refused, policy=IDEMPOTENT)
    assert life.store.get(life.id).state is TurnState.WAITING
    life.clock.advance(60)
    turn = life.begin()
    assert turn.tool("charge", {}, life.does("kept"), policy=IDEMPOTENT) == "kept"
    with pytest.raises(ToolFailed, match="nobody there"):  # nothing was sent before
        turn.tool("mail", {}, refused, policy=IDEMPOTENT)
    assert life.done == ["paid", "tried", "tried", "tried", "kept", "tried"]


@pytest.mark.parametrize(
    ("verdict", "result", "made"), [(Done("found"), "found", 1), (NotDone(), "paid", 2)]
)
def test_an_interrupted_call_is_reconciled_under_its_key(
    life: Life, verdict: Any, result: str, made: int
) -> None:
    asked: list[str] = []

    def reconcile(key: str) -> Any:
        asked.append(key)
        return verdict

    policy = Policy(reconcile=reconcile)
    with pytest.raises(KeyboardInterrupt):
        life.begin().tool("charge", {}, life.crashes("paid"), policy=policy)
    for _ in range(2):
        assert life.begin().tool("charge", {}, life.does("paid"), policy=policy) == result
    assert asked == [effect_key(life.id, "charge")]
    assert len(life.done) == made


def failing(_key: str) -> Any:
    raise OSError("no network")


@pytest.mark.parametrize(
    "policy", [Policy(), Policy(reconcile=lambda _: None), Policy(reconcile=failing)]
)
def test_what_nobody_knows_waits_for_a_person(life: Life, policy: Policy) -> None:
    with pytest.raises(KeyboardInterrupt):
        life.begin().tool("charge", {}, life.crashes("paid"), policy=policy)
    with pytest.raises(TurnSuspended):
        life.begin().tool("charge", {}, life.does("paid"), policy=policy)
    assert life.store.get(life.id).state is TurnState.WAITING
    (effect,) = life.store.effects()
    life.store.settle(life.id, effect.call_id, Outcome.FAILED, encode("the bank says no"))
    with pytest.raises(ToolFailed, match="the bank says no"):
        life.begin().tool("charge", {}, life.does("paid"), policy=policy)
    assert life.done == ["paid"]


def test_a_second_doubt_about_the_same_call_is_a_doubt_again(life: Life) -> None:
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            life.begin().tool("charge", {}, life.crashes("paid"))
        with pytest.raises(TurnSuspended):
            life.begin().tool("charge", {}, life.does("never"))
        life.store.settle(life.id, "", Outcome.AGAIN, encode(None))
    assert life.begin().tool("charge", {}, life.does("paid")) == "paid"
    assert life.done == ["paid"] * 3


def test_a_tool_that_raises_has_failed_for_good(life: Life) -> None:
    def refuse() -> None:
        life.done.append("tried")
        raise ValueError("card refused")

    for _ in range(2):
        with pytest.raises(ToolFailed, match="card refused"):
            life.begin().tool("charge", {}, refuse)
    assert life.done == ["tried"]


@pytest.mark.parametrize(
    ("act", "wanted"),
    [
        (lambda turn: turn.tool("refund", {"sum": 3}, list), "the tool refund"),
        (lambda turn: turn.tool("charge", {"sum": 4}, list), "the tool charge"),
        (lambda turn: turn.model(list), "an answer of the model"),
        (lambda turn: turn.sleep(1), "a sleep"),
        (lambda turn: turn.wait_for_input("?"), "the question"),
    ],
)
def test_code_that_does_something_else_is_told_both_sides(
    life: Life, act: Callable[[Turn], object], wanted: str
) -> None:
    life.begin().tool("charge", {"sum": 3}, life.does("paid"))
    with pytest.raises(JournalMismatch) as mismatch:
        act(life.begin())
    assert mismatch.value.recorded == "the tool charge (charge)"
    assert mismatch.value.wanted.startswith(wanted)


def test_the_order_of_keys_in_arguments_does_not_matter(life: Life) -> None:
    life.begin().tool("charge", {"a": 1, "b": 2}, life.does("paid"))
    life.begin().tool("charge", {"b": 2, "a": 1}, life.does("paid"))
    assert life.done == ["paid"]


def test_notes_and_memories_are_kept_once_and_never_in_the_way(life: Life) -> None:
    turn = life.begin()
    turn.note("begun")
    turn.remember({"name": "Ann"})
    turn.model(life.does("hi"))
    again = life.begin()
    assert again.memory == [{"name": "Ann"}]
    again.note("another note of new code")
    again.note("begun")
    again.remember({"name": "Ann"})
    again.model(life.does("hi"))
    again.remember({"name": "Ann"})
    assert life.done == ["hi"]
    assert life.kinds().count(Kind.NOTE) == 2
    assert checkpoint(life.store, life.id)["memory"] == [{"name": "Ann"}] * 2


def test_who_lost_the_turn_does_nothing_more(life: Life) -> None:
    zombie, current = life.begin(), life.begin()
    with pytest.raises(StaleTurn):
        zombie.tool("charge", {}, life.does("paid"))
    with pytest.raises(StaleTurn):
        zombie.note("I am still here")
    current.model(life.does("hi"))
    assert life.done == ["hi"]


def test_a_suspension_is_heard_at_the_next_call_and_not_while_replaying(life: Life) -> None:
    life.begin().model(life.does("hi"))
    turn = life.begin()
    turn.request_suspend("is drained")
    assert turn.suspend_requested
    assert turn.model(life.does("hi")) == "hi"
    with pytest.raises(TurnSuspended, match="is drained"):
        turn.tool("charge", {}, life.does("paid"))
    assert life.kinds() == [Kind.MODEL, Kind.SEAL]
    assert life.begin().model(life.does("hi")) == "hi"
    assert life.done == ["hi"]


def test_tools_within_a_tool_are_not_asked_for_once_it_is_over(life: Life) -> None:
    def work(turn: Turn) -> None:
        def outer() -> str:
            return str(turn.tool("inner", {}, life.does("inside"))) + "!"

        assert turn.tool("outer", {}, outer) == "inside!"
        assert turn.model(life.does("hi")) == "hi"

    work(life.begin())
    work(life.begin())
    assert life.done == ["inside", "hi"]


def test_a_restart_sets_aside_what_does_not_fit_and_reuses_what_was_done(life: Life) -> None:
    turn = life.begin()
    turn.model(life.does("plan one"))
    turn.tool("mail", {}, life.does("mailed"))
    turn.tool("charge", {"sum": 3}, life.does("paid"), call_id="a")
    turn.remember("charged")
    changed = life.begin()
    changed.model(life.does("plan one"))
    with pytest.raises(JournalMismatch) as mismatch:
        changed.tool("charge", {"sum": 3}, life.does("paid"), call_id="b")
    run_blocking(changed.restart(mismatch.value))
    for _ in range(2):
        again = life.begin()
        again.model(life.does("plan one"))
        assert again.memory == []
        assert again.tool("charge", {"sum": 3}, life.does("paid"), call_id="b") == "paid"
        assert (
            again.tool("charge", {"sum": 3}, life.does("paid twice"), call_id="c") == "paid twice"
        )
    assert life.done == ["plan one", "mailed", "paid", "paid twice"]


def test_an_effect_that_a_restart_left_open_waits_for_a_person(life: Life) -> None:
    from afl.turns import Ending

    with pytest.raises(KeyboardInterrupt):
        life.begin().tool("fax", {}, life.crashes("faxed"))
    changed = life.begin()
    with pytest.raises(JournalMismatch) as mismatch:
        changed.tool("mail", {}, life.does("mailed"))
    run_blocking(changed.restart(mismatch.value))
    again = life.begin()
    again.tool("mail", {}, life.does("mailed"))
    run_blocking(again.finish(Ending(TurnState.DONE)))
    (left,) = life.store.effects()
    assert left.name == "fax"


def test_a_journal_grows_with_the_conversation_and_not_with_its_square() -> None:
    def grown(answers: int) -> int:
        life = Life()
        turn = life.begin()
        for number in range(answers):
            turn.model(lambda: f"{number:0800}")  # noqa: B023
            turn.tool("look", {"at": number}, lambda: f"{number:0800}")  # noqa: B023
        return life.store.size().bytes

    assert grown(400) <= 4.1 * grown(100)
