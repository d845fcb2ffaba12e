"""What people do about turns, and the commands for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.in_process import afl, afl_json
from tests.acceptance.test_cli_json import keys, section_of

from afl.errors import UsageError
from afl.operations import turns as operations
from afl.turns import (
    Ending,
    InvalidToken,
    NewTurn,
    OutcomeUnknown,
    SqliteTurns,
    Tokens,
    Turn,
    TurnEnded,
    TurnState,
    TurnSuspended,
)
from afl.turns.values import encode


class Desk:
    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path}"
        self.store = SqliteTurns(path)

    def turn(self, key: str = "one") -> Turn:
        record = self.store.accept(NewTurn("shop", encode({"say": "hi"}), key))
        return Turn(self.store, self.store.begin(record.id, key, 30_000))

    def asking(self) -> str:
        return self.asking_of("one")

    def asking_of(self, key: str) -> str:
        turn = self.turn(key)
        with pytest.raises(TurnSuspended):
            turn.wait_for_input("which one?")
        return turn.id

    def doubting(self) -> str:
        def fax() -> None:
            raise OutcomeUnknown("the line broke")

        turn = self.turn()
        with pytest.raises(TurnSuspended):
            turn.tool("fax", {"text": "hi"}, fax)
        return turn.id

    def afl(self, *args: str) -> Any:
        return afl_json("turns", *args, "--store", self.url)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path / "afl.db")
    with closing(desk.store):
        yield desk


def test_turns_are_listed_by_their_state(desk: Desk) -> None:
    asking = desk.asking()
    desk.turn("two")
    assert [each["id"] for each in desk.afl("list", "--state", "waiting")] == [asking]
    assert len(desk.afl("list")) == 2
    assert desk.afl("list", "--loop", "another") == []
    with pytest.raises(UsageError, match="expected one of accepted"):
        operations.list_turns(desk.store, state="asleep")


def test_turns_are_listed_page_by_page(desk: Desk) -> None:
    ids = [desk.turn(str(number)).id for number in range(3)]
    first = [each["id"] for each in desk.afl("list", "--limit", "2")]
    rest = [each["id"] for each in desk.afl("list", "--before", first[-1][:13])]
    assert [*first, *rest] == ids[::-1]


def test_turns_are_named_by_the_beginning_of_their_id(desk: Desk) -> None:
    asking = desk.asking()
    done = afl("turns", "show", asking[:13], "--store", desk.url)
    assert (done.code, asking in done.out) == (0, True)
    assert desk.afl("answer", asking[:13], "red")["id"] == asking
    assert desk.afl("cancel", asking[:13])["state"] == "cancelled"
    gone = afl("turns", "show", "nowhere", "--store", desk.url)
    assert (gone.code, "nowhere" in gone.err) == (2, True)


def test_a_list_for_people_says_what_a_turn_waits_for(desk: Desk) -> None:
    desk.asking()
    done = afl("turns", "list", "--store", desk.url)
    assert (done.code, "waits for an answer" in done.out) == (0, True)


def test_a_turn_is_shown_as_its_checkpoint(desk: Desk) -> None:
    import json

    asking = desk.asking()
    done = afl("turns", "show", asking, "--store", desk.url)
    shown = json.loads(done.out)
    assert (shown["turn"]["id"], shown["request"]) == (asking, {"say": "hi"})
    assert shown["trace"][0]["value"]["question"] == "which one?"


def test_a_checkpoint_has_times_and_no_internals(desk: Desk) -> None:
    shown = desk.afl("show", desk.doubting())
    assert keys(section_of("`afl turns show`")) == list(shown)
    assert_is_a_turn(shown["turn"])
    for each in shown["trace"]:
        assert list(each) == ["seq", "kind", "name", "call_id", "value", "at"]
        assert is_time(each["at"])
    [pending] = shown["pending"]
    assert list(pending) == ["call_id", "name", "arguments", "idempotency_key", "state"]


def assert_is_a_turn(shown: dict[str, Any]) -> None:
    of_list = keys(section_of("`afl turns list`"))
    of_one = keys(section_of("`afl turns cancel`, `answer`, `settle` and `resume`"))
    assert list(shown) == [*of_list, *of_one]
    assert is_time(shown["created"])
    assert is_time(shown["changed"])
    assert shown["ended"] is None or is_time(shown["ended"])


def is_time(text: object) -> bool:
    return re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(text)) is not None


def test_a_turn_in_a_list_is_as_its_page_says(desk: Desk) -> None:
    desk.asking()
    [shown] = desk.afl("list")
    assert list(shown) == keys(section_of("`afl turns list`"))
    assert is_time(shown["created"])
    assert (shown["state"], shown["attempt"], shown["entries"]) == ("waiting", 1, 1)


def test_whoever_acts_is_shown_the_turn_as_its_page_says(desk: Desk) -> None:
    asking, doubting = desk.asking_of("two"), desk.doubting()
    assert desk.afl("show", asking)["turn"]["waiting"]["question"] == "which one?"
    for shown in (
        desk.afl("answer", asking, "red"),
        desk.afl("settle", doubting, "done"),
        desk.afl("resume", doubting),
        desk.afl("cancel", asking),
    ):
        assert_is_a_turn(shown)
        assert shown["waiting"] is None


def test_a_turn_that_is_done_is_shown_with_its_answer(desk: Desk) -> None:
    record = desk.store.accept(NewTurn("shop", encode({"say": "hi"})))
    claim = desk.store.begin(record.id, "one", 30_000).claim
    desk.store.finish(claim, Ending(TurnState.DONE, result=encode({"say": "bye"})))
    shown = desk.afl("show", record.id)["turn"]
    assert_is_a_turn(shown)
    assert (shown["state"], shown["result"]) == ("done", {"say": "bye"})
    assert is_time(shown["ended"])


def test_effects_are_as_their_page_says(desk: Desk) -> None:
    desk.doubting()
    [shown] = desk.afl("effects")
    assert list(shown) == keys(section_of("`afl turns effects`"))
    assert is_time(shown["since"])


def test_a_question_is_answered_with_json_or_text(desk: Desk) -> None:
    desk.afl("answer", desk.asking(), "the red one")
    assert desk.turn().wait_for_input("which one?") == "the red one"
    other = desk.turn("two")
    with pytest.raises(TurnSuspended):
        other.wait_for_input("how many?")
    desk.afl("answer", other.id, "3")
    assert desk.turn("two").wait_for_input("how many?") == 3


@pytest.mark.parametrize("text", ["NaN", "Infinity", "[NaN]", "1e400", ""])
def test_what_python_reads_as_a_number_and_json_does_not_is_text(desk: Desk, text: str) -> None:
    desk.afl("answer", desk.asking(), text)
    assert desk.turn().wait_for_input("which one?") == text


def test_an_effect_is_found_and_settled(desk: Desk) -> None:
    doubting = desk.doubting()
    (effect,) = desk.afl("effects")
    assert (effect["tool"], effect["arguments"]) == ("fax", {"text": "hi"})
    desk.afl("settle", doubting, "done", "it arrived")
    assert desk.afl("effects") == []
    assert desk.turn().tool("fax", {"text": "hi"}, list) == "it arrived"
    with pytest.raises(UsageError, match="expected one of done, failed, again"):
        operations.settle_effect(desk.store, doubting, "perhaps")


def test_a_turn_is_resumed_and_cancelled(desk: Desk) -> None:
    asking = desk.asking()
    assert desk.afl("resume", asking)["state"] == "suspended"
    assert desk.afl("cancel", asking, "--reason", "not wanted")["reason"] == "not wanted"
    again = afl("turns", "cancel", asking, "--store", desk.url)
    assert (again.code, "is over" in again.err) == (2, True)


def test_nothing_is_made_where_there_is_no_store(tmp_path: Path) -> None:
    done = afl("turns", "list", "--store", f"sqlite:///{tmp_path}/nothing.db")
    assert done.code == 2
    assert not (tmp_path / "nothing.db").exists()


def test_a_token_lets_a_turn_go_on_once(desk: Desk) -> None:
    asking = desk.asking()
    token = Tokens([desk.store.secret()]).issue(asking)
    first = operations.resume_by_token(desk.store, token)
    again = operations.resume_by_token(desk.store, token)
    assert first == again
    assert first.state is TurnState.SUSPENDED
    operations.cancel_turn(desk.store, asking)
    with pytest.raises(TurnEnded):
        operations.resume_by_token(desk.store, token)
    with pytest.raises(InvalidToken):
        operations.resume_by_token(desk.store, token[:-1])


def test_old_turns_are_removed_when_somebody_says_so(desk: Desk) -> None:
    desk.store.cancel(desk.turn().id, "enough")
    waiting = desk.asking_of("two")
    line = ("prune", "--store", desk.url, "--turns-older-than")
    assert afl_json("prune", "--store", desk.url)["turns"] == 0
    assert afl_json(*line, "1h")["turns"] == 0
    assert afl_json(*line, "0s", "--dry-run")["turns"] == 1
    assert afl(*line, "0s", "--dry-run").out == "Would remove 0 runs and 1 turn.\n"
    assert afl_json(*line, "0s")["turns"] == 1
    assert [each.id for each in desk.store.list()] == [waiting]
