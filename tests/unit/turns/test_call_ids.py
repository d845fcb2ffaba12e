"""The ids of calls: whatever names code gives, a call is never taken for part of another one."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.turns.life import Life

from afl.turns import JournalMismatch, Kind, Outcome, Policy, Turn, TurnSuspended
from afl.turns.driving import run_blocking
from afl.turns.effects import effect_key

#: Like ids that are built of others: calls within a call, repeats, and calls after a restart.
NAMES = ["orders", "orders/refund", "orders/refund/all", "orders#2", "orders~2", "orders"]
#: Those of calls that are no tools.
OTHERS = ["model/a", "sleep/a", "input/a", "model#2", "model", "sleep", "input"]


def use(turn: Turn, life: Life, names: list[str], **options: Any) -> None:
    for number, name in enumerate(names):
        turn.tool(name, {"number": number}, life.does(name), **options)


@pytest.mark.parametrize("names", [NAMES, NAMES[::-1], OTHERS])
def test_tools_with_any_names_act_once(life: Life, names: list[str]) -> None:
    for _ in range(3):
        turn = life.begin()
        turn.model(life.does("said"))
        turn.sleep(0.5)
        use(turn, life, names)
        turn.model(life.does("said"))
    assert life.done == ["said", *names, "said"]
    assert len(set(life.ids())) == len(names)


def test_a_process_may_die_after_any_of_them(life: Life) -> None:
    for number in range(len(NAMES)):
        use(life.begin(), life, NAMES[: number + 1])
    use(life.begin(), life, NAMES)
    assert life.done == NAMES


def test_ids_that_models_give_may_look_like_any_others(life: Life) -> None:
    for _ in range(2):
        turn = life.begin()
        for call_id in NAMES:
            turn.tool("charge", {}, life.does(call_id), call_id=call_id)
    assert life.done == NAMES


def test_a_call_beside_those_within_is_kept_apart_from_them(life: Life) -> None:
    """It has the id that a call within the other one has, too."""

    def work(turn: Turn) -> None:
        def orders() -> str:
            use(turn, life, ["refund", "refund"])
            return "done"

        turn.tool("orders", {}, orders)
        use(turn, life, ["orders/refund", "orders/refund"])
        turn.model(life.does("said"))

    for _ in range(3):
        work(life.begin())
    assert life.done == ["refund", "refund", "orders/refund", "orders/refund", "said"]


def test_what_a_settled_call_did_within_is_not_asked_for_and_what_follows_is(life: Life) -> None:
    def work(turn: Turn) -> None:
        def orders() -> str:
            use(turn, life, ["refund"])
            raise KeyboardInterrupt

        turn.tool("orders", {}, orders)
        use(turn, life, ["orders/refund"])

    with pytest.raises(KeyboardInterrupt):
        work(life.begin())
    with pytest.raises(TurnSuspended):
        work(life.begin())
    life.store.settle(life.id, "orders", Outcome.DONE, b'"done"')
    for _ in range(2):
        work(life.begin())
    assert life.done == ["refund", "orders/refund"]


def test_names_like_these_act_once_after_a_restart_too(life: Life) -> None:
    use(life.begin(), life, NAMES)
    changed = life.begin()
    with pytest.raises(JournalMismatch) as mismatch:
        changed.model(life.does("said"))
    run_blocking(changed.restart(mismatch.value))
    for _ in range(2):
        turn = life.begin()
        turn.model(life.does("said"))
        use(turn, life, NAMES)
    assert life.done == [*NAMES, "said"]


def test_ids_are_as_they_always_were(life: Life) -> None:
    """Turns that are under way find their calls, and servers their keys."""

    def look(turn: Turn) -> str:
        turn.tool("inner", {}, life.does("inner"))
        return str(turn.model(life.does("said")))

    turn = life.begin()
    turn.model(life.does("said"))
    turn.tool("outer", {}, lambda: look(turn), policy=Policy(idempotent=True))
    turn.tool("outer", {}, lambda: look(turn))
    turn.tool("orders/refund", {}, life.does("refund"))
    turn.sleep(0.5)
    entries = life.store.read(life.id)
    found = [each.call_id for each in entries if each.kind is not Kind.TOOL_DONE]
    assert found == [
        "model",
        "outer",
        "outer/inner",
        "outer/model",
        "outer#2",
        "outer#2/inner",
        "outer#2/model",
        "orders/refund",
        "sleep",
    ]
    keys = {effect_key(life.id, each).encode() for each in life.ids()}
    intents = [each.value for each in entries if each.kind is Kind.TOOL_INTENT]
    assert all(any(key in value for key in keys) for value in intents)
