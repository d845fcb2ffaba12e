"""People: they answer, settle, wake and cancel, and looking costs nothing."""

from __future__ import annotations

import pytest

from afl.clock import FakeClock
from afl.testing.contracts.turns.exam import (
    LEASE_MS,
    LOOP,
    TurnExam,
    accept,
    begin,
    intent,
    note,
    unknown,
)
from afl.turns.api import (
    Ending,
    Kind,
    NewEntry,
    Outcome,
    Pause,
    TurnRecord,
    TurnState,
    TurnStore,
)
from afl.turns.errors import (
    AlreadyAnswered,
    NothingAsked,
    StaleTurn,
    TurnBusy,
    TurnEnded,
    TurnNotFound,
)
from afl.turns.values import encode


def ask(store: TurnStore) -> TurnRecord:
    asked = NewEntry(Kind.INPUT_ASKED, call_id="input", value=encode({"due_in": None}))
    return store.pause(begin(store).claim, Pause(TurnState.WAITING, "asks"), [asked])


def doubt(store: TurnStore, key: str = "one") -> TurnRecord:
    entries = [intent("c1"), unknown("c1")]
    return store.pause(begin(store, key).claim, Pause(TurnState.WAITING, "doubts"), entries)


def woken(store: TurnStore) -> TurnRecord:
    """The turn is begun again, although what it waits for has not come."""
    store.wake(accept(store).id)
    (turn,) = store.claim_due(LOOP, "ann", LEASE_MS, 10)
    return turn


def expired(call_id: str) -> NewEntry:
    return NewEntry(Kind.INPUT_EXPIRED, call_id=call_id)


class PeopleContract(TurnExam):
    def test_an_answer_lets_the_turn_go_on_in_the_same_commit(self, store: TurnStore) -> None:
        turn = ask(store)
        assert store.give_input(turn.id, "input", encode("yes")).due == store.now_ms()
        (claimed,) = store.claim_due(LOOP, "bob", LEASE_MS, 10)
        assert (claimed.id, claimed.state) == (turn.id, TurnState.RUNNING)
        last = store.read(turn.id)[-1]
        assert (last.kind, last.call_id, last.value) == (Kind.INPUT_GIVEN, "input", b'"yes"')

    def test_the_only_question_needs_no_name(self, store: TurnStore) -> None:
        turn = ask(store)
        store.give_input(turn.id, "", encode("yes"))
        assert store.read(turn.id)[-1].call_id == "input"

    def test_the_same_answer_again_is_fine_and_another_is_not(self, store: TurnStore) -> None:
        turn = ask(store)
        store.give_input(turn.id, "input", encode("yes"))
        store.give_input(turn.id, "input", encode("yes"))
        with pytest.raises(AlreadyAnswered):
            store.give_input(turn.id, "input", encode("no"))
        assert [each.kind for each in store.read(turn.id)].count(Kind.INPUT_GIVEN) == 1

    def test_who_was_not_asked_cannot_answer(self, store: TurnStore) -> None:
        with pytest.raises(NothingAsked):
            store.give_input(begin(store).id, "input", encode("yes"))
        turn = ask(store)
        with pytest.raises(NothingAsked):
            store.give_input(turn.id, "another", encode("yes"))

    def test_an_answer_comes_too_late_for_a_turn_that_is_over(self, store: TurnStore) -> None:
        turn = ask(store)
        store.cancel(turn.id, "no longer needed")
        with pytest.raises(TurnEnded):
            store.give_input(turn.id, "input", encode("yes"))

    def test_unknown_effects_wait_in_the_inbox_until_they_are_settled(
        self, store: TurnStore
    ) -> None:
        first, second = doubt(store), doubt(store, "two")
        assert {each.turn_id for each in store.effects()} == {first.id, second.id}
        assert len(store.effects(limit=1)) == 1
        store.settle(first.id, "c1", Outcome.DONE, encode("paid"))
        (left,) = store.effects()
        assert (left.turn_id, left.call_id, left.name) == (second.id, "c1", "charge")

    @pytest.mark.parametrize(
        ("outcome", "kind"),
        [
            (Outcome.DONE, Kind.TOOL_DONE),
            (Outcome.FAILED, Kind.TOOL_FAILED),
            (Outcome.AGAIN, Kind.TOOL_AGAIN),
        ],
    )
    def test_a_settlement_is_written_and_lets_the_turn_go_on(
        self, store: TurnStore, outcome: Outcome, kind: Kind
    ) -> None:
        turn = doubt(store)
        store.settle(turn.id, "c1", outcome, encode("x"))
        last = store.read(turn.id)[-1]
        assert (last.kind, last.call_id, last.name, last.value) == (kind, "c1", "charge", b'"x"')
        assert [each.id for each in store.claim_due(LOOP, "bob", LEASE_MS, 10)] == [turn.id]

    def test_an_effect_is_settled_once(self, store: TurnStore) -> None:
        turn = doubt(store)
        store.settle(turn.id, "c1", Outcome.DONE, encode("paid"))
        store.settle(turn.id, "c1", Outcome.DONE, encode("paid"))
        with pytest.raises(AlreadyAnswered):
            store.settle(turn.id, "c1", Outcome.AGAIN, encode(None))
        with pytest.raises(NothingAsked):
            store.settle(turn.id, "c2", Outcome.AGAIN, encode(None))

    # While the turn is being done: whoever does it has read the journal before

    def test_an_answer_that_comes_before_the_turn_is_left_lets_it_go_on(
        self, store: TurnStore
    ) -> None:
        ask(store)
        turn = woken(store)
        known = turn.seq
        store.append(turn.claim, [note("still at it")])
        store.give_input(turn.id, "input", encode("yes"))
        wait = Pause(TurnState.WAITING, "asks", 3_600_000, known=known)
        left = store.pause(turn.claim, wait, [note("last")])
        assert (left.state, left.due) == (TurnState.WAITING, store.now_ms())
        assert [each.id for each in store.claim_due(LOOP, "bob", LEASE_MS, 10)] == [turn.id]

    def test_a_settlement_that_comes_before_the_turn_is_left_lets_it_go_on(
        self, store: TurnStore
    ) -> None:
        doubt(store)
        turn = woken(store)
        store.settle(turn.id, "c1", Outcome.DONE, encode("paid"))
        store.pause(turn.claim, Pause(TurnState.WAITING, "doubts", known=turn.seq))
        assert [each.id for each in store.claim_due(LOOP, "bob", LEASE_MS, 10)] == [turn.id]

    def test_a_turn_waits_if_whoever_leaves_it_knows_all_that_came(self, store: TurnStore) -> None:
        ask(store)
        turn = woken(store)
        known = store.give_input(turn.id, "input", encode("yes")).seq
        wait = Pause(TurnState.WAITING, "asks", known=known)
        assert store.pause(turn.claim, wait, [note("last")]).due is None

    @pytest.mark.parametrize("state", [TurnState.SUSPENDED, TurnState.MISMATCHED])
    def test_what_came_does_not_bring_a_turn_that_others_bring(
        self, store: TurnStore, state: TurnState
    ) -> None:
        ask(store)
        turn = woken(store)
        store.give_input(turn.id, "input", encode("yes"))
        assert store.pause(turn.claim, Pause(state, "rests", known=turn.seq)).due is None

    def test_a_question_that_was_answered_does_not_expire(self, store: TurnStore) -> None:
        ask(store)
        turn = woken(store)
        store.give_input(turn.id, "input", encode("yes"))
        with pytest.raises(AlreadyAnswered):
            store.append(turn.claim, [expired("input")])
        assert store.read(turn.id)[-1].kind is Kind.INPUT_GIVEN
        assert store.append(turn.claim, [expired("another")]).seq == turn.seq + 2

    def test_a_question_that_has_expired_is_not_answered(self, store: TurnStore) -> None:
        ask(store)
        turn = woken(store)
        store.append(turn.claim, [expired("input")])
        assert store.append(turn.claim, [expired("input")], turn.seq).seq == turn.seq + 1
        with pytest.raises(AlreadyAnswered):
            store.give_input(turn.id, "input", encode("yes"))

    @pytest.mark.parametrize("state", [TurnState.SUSPENDED, TurnState.MISMATCHED])
    def test_an_operator_wakes_a_turn_that_rests(self, store: TurnStore, state: TurnState) -> None:
        turn = begin(store)
        store.pause(turn.claim, Pause(state, "rests"))
        assert list(store.claim_due(LOOP, "bob", LEASE_MS, 10)) == []
        store.wake(turn.id)
        (claimed,) = store.claim_due(LOOP, "bob", LEASE_MS, 10)
        assert claimed.id == turn.id

    def test_a_turn_that_is_being_done_is_not_woken(
        self, store: TurnStore, clock: FakeClock
    ) -> None:
        turn = begin(store)
        with pytest.raises(TurnBusy):
            store.wake(turn.id)
        clock.advance(30)
        store.wake(turn.id)
        with pytest.raises(StaleTurn):
            store.append(turn.claim, [note("zombie")])

    def test_cancelling_ends_a_turn_under_whoever_does_it(self, store: TurnStore) -> None:
        turn = begin(store)
        cancelled = store.cancel(turn.id, "not wanted")
        assert (cancelled.state, cancelled.reason) == (TurnState.CANCELLED, "not wanted")
        with pytest.raises(StaleTurn):
            store.append(turn.claim, [note("zombie")])

    def test_turns_are_listed_by_loop_and_state_newest_first(
        self, store: TurnStore, clock: FakeClock
    ) -> None:
        for key in ("a", "b", "c"):
            accept(store, key)
            clock.advance(1)
        begin(store, "b")
        assert [each.key for each in store.list()] == ["c", "b", "a"]
        assert [each.key for each in store.list(state=TurnState.RUNNING)] == ["b"]
        assert [each.key for each in store.list(LOOP, limit=1)] == ["c"]
        assert list(store.list("another loop")) == []

    def test_turns_are_listed_page_by_page(self, store: TurnStore, clock: FakeClock) -> None:
        for number in range(7):
            accept(store, str(number))
            clock.advance(number % 2)  # some come at the same time
        begin(store, "3")
        pages: list[list[str | None]] = []
        page = store.list(LOOP, limit=3)
        while page:
            pages.append([each.key for each in page])
            page = store.list(LOOP, limit=3, before=page[-1].id)
        assert pages == [["6", "5", "4"], ["3", "2", "1"], ["0"]]
        first = store.list()[0].id
        assert [each.key for each in store.list(state=TurnState.RUNNING, before=first)] == ["3"]
        with pytest.raises(TurnNotFound):
            store.list(before="nobody")

    def test_turns_are_found_by_the_beginnings_of_their_ids(self, store: TurnStore) -> None:
        known = sorted(accept(store, str(number)).id for number in range(5))
        assert list(store.find_ids("")) == known
        assert list(store.find_ids("", 2)) == known[:2]
        for each in known:
            beginning = each[:13]
            fitting = [other for other in known if other.startswith(beginning)]
            assert list(store.find_ids(beginning)) == fitting
            assert list(store.find_ids(each)) == [each]
            assert list(store.find_ids(each + "0")) == []
        assert list(store.find_ids("z")) == []

    def test_old_turns_are_pruned_with_what_only_they_needed(
        self, store: TurnStore, clock: FakeClock
    ) -> None:
        large = NewEntry(Kind.MODEL, value=encode("x" * 10_000))
        alone = NewEntry(Kind.MODEL, value=encode("y" * 10_000))
        old, kept = begin(store, "old"), begin(store, "kept")
        store.append(old.claim, [large, alone])
        store.append(kept.claim, [large])
        store.finish(old.claim, Ending(TurnState.DONE, result=encode("answer")))
        clock.advance(10)
        assert store.prune(store.now_ms() - 20_000) == 0
        assert store.prune(store.now_ms()) == 1
        assert [each.key for each in store.list()] == ["kept"]
        assert store.read(kept.id)[0].value == large.value
        assert store.value(kept.request) == encode("hello")
        # The request, which both had, and the large value.
        assert (store.size().values, store.size().entries) == (2, 1)

    def test_the_same_request_may_come_again_after_its_turn_was_pruned(
        self, store: TurnStore, clock: FakeClock
    ) -> None:
        store.finish(begin(store).claim, Ending(TurnState.DONE))
        clock.advance(1)
        store.prune(store.now_ms())
        assert begin(store).attempt == 1

    def test_all_who_use_a_store_have_the_same_secret(
        self, stores: object, store: TurnStore
    ) -> None:
        assert callable(stores)
        assert stores().secret() == store.secret()
        assert len(store.secret()) >= 32
