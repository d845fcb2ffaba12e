"""What a claim does to a task."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afl.errors import Conflict
from afl.runtime.claims import (
    check_save,
    claimable_at,
    claimed,
    ended,
    extended,
    holds,
    is_claimable,
    lease_holds,
    may_follow,
    released,
    revived,
    to_be_retried,
)
from afl.runtime.entities import OPEN_TASK_STATES, TASK_TRANSITIONS, TaskDefinition, TaskState

NOW = 10_000_000
LEASE = 15_000
ENDS = [each for each in TaskState if each not in OPEN_TASK_STATES]
TIMES = st.integers(0, 10**6)
LEASES = st.integers(1, 10**6)


def task(**fields: object) -> TaskDefinition:
    return replace(TaskDefinition("t", "shop.Pay", "r", "w", "f", "s"), **fields)  # type: ignore[arg-type]


def test_a_claim_gives_owner_lease_fence_and_delivery() -> None:
    mine = claimed(task(fence=3, deliveries=1, not_before=5), "me", NOW, LEASE)
    assert (mine.state, mine.owner, mine.fence) == (TaskState.RUNNING, "me", 4)
    assert (mine.deliveries, mine.failures, mine.not_before) == (2, 0, 0)
    assert (mine.lease_expires, mine.lease_ms, mine.updated) == (NOW + LEASE, LEASE, NOW)


def test_a_claim_leaves_the_given_task_alone() -> None:
    before = task()
    claimed(before, "me", NOW, LEASE)
    assert before == task()


def test_a_lease_holds_from_its_beginning_to_its_end() -> None:
    mine = claimed(task(), "me", NOW, LEASE)
    moments = [-LEASE, -1, 0, 1, LEASE - 1, LEASE, 2 * LEASE]
    found = [lease_holds(mine, NOW + each) for each in moments]
    assert found == [False, False, True, True, True, False, False]


@given(now=TIMES, lease=LEASES, later=TIMES)
def test_no_lease_outlives_its_length_whatever_the_clock_does(
    now: int, lease: int, later: int
) -> None:
    mine = claimed(task(), "me", now, lease)
    assert lease_holds(mine, later) == (now <= later < now + lease)


@pytest.mark.parametrize("state", ENDS)
def test_what_is_over_is_neither_leased_nor_claimable(state: TaskState) -> None:
    over = replace(claimed(task(), "me", NOW, LEASE), state=state)
    assert not lease_holds(over, NOW)
    assert not is_claimable(over, NOW + 2 * LEASE)
    assert claimable_at(over, NOW) is None


def test_what_waits_is_claimable_when_it_is_due() -> None:
    waiting = task(not_before=NOW)
    assert not is_claimable(waiting, NOW - 1)
    assert is_claimable(waiting, NOW)
    assert claimable_at(waiting, NOW - 1) == NOW


def test_what_is_leased_is_claimable_when_the_lease_has_lapsed() -> None:
    mine = claimed(task(), "me", NOW, LEASE)
    assert not is_claimable(mine, NOW + LEASE - 1)
    assert is_claimable(mine, NOW + LEASE)
    assert claimable_at(mine, NOW) == NOW + LEASE


@pytest.mark.parametrize("state", sorted(OPEN_TASK_STATES))
def test_what_is_held_is_never_claimable(state: TaskState) -> None:
    assert not is_claimable(task(held=True, state=state), NOW)
    assert claimable_at(task(held=True, state=state), NOW) is None


@given(first=LEASES, later=TIMES, lease=LEASES)
def test_an_extension_never_shortens_and_always_holds(first: int, later: int, lease: int) -> None:
    mine = claimed(task(), "me", 0, first)
    longer = extended(mine, later, lease)
    assert longer.lease_expires >= later + lease
    assert longer.lease_expires >= first or later >= first
    assert lease_holds(longer, later)
    assert (longer.fence, longer.deliveries, longer.owner) == (1, 1, "me")


def test_an_extension_after_the_clock_was_set_back_begins_anew() -> None:
    mine = claimed(task(), "me", NOW, LEASE)
    assert extended(mine, NOW - 3_600_000, LEASE).lease_expires == NOW - 3_600_000 + LEASE


def test_a_release_undoes_the_claim_but_for_the_fence() -> None:
    before = task(fence=3, deliveries=1)
    back = released(claimed(before, "me", NOW, LEASE), NOW)
    assert replace(back, updated=0, version=0) == replace(before, fence=4)
    assert released(claimed(before, "me", NOW, LEASE), NOW, NOW + 5).not_before == NOW + 5


def test_a_release_never_counts_below_nothing() -> None:
    assert released(task(state=TaskState.RUNNING), NOW).deliveries == 0


@pytest.mark.parametrize("state", ENDS)
def test_the_end_takes_the_task_from_its_worker(state: TaskState) -> None:
    mine = claimed(task(), "me", NOW, LEASE)
    over = ended(mine, state, NOW, {"message": "why"})
    assert (over.state, over.owner, over.error) == (state, "", {"message": "why"})
    assert (over.lease_expires, over.lease_ms) == (0, 0)
    assert over.fence == mine.fence + 1
    assert not holds(over, mine.fence)
    assert not holds(over, over.fence)


def test_a_retry_waits_and_counts_the_failure_instead_of_the_deliveries() -> None:
    mine = claimed(task(deliveries=2, failures=1), "me", NOW, LEASE)
    back = to_be_retried(mine, NOW, {"message": "why"}, not_before=NOW + 500)
    assert (back.state, back.owner, back.lease_expires) == (TaskState.PENDING, "", 0)
    assert (back.deliveries, back.failures, back.not_before) == (0, 2, NOW + 500)
    assert (back.error, back.fence) == ({"message": "why"}, mine.fence)


def test_a_revived_task_is_as_new_but_for_the_fence() -> None:
    mine = claimed(task(failures=2), "me", NOW, LEASE)
    over = ended(mine, TaskState.FAILED, NOW, {"message": "why"})
    back = revived(over, NOW, held=False)
    assert replace(back, updated=0, version=0) == task(fence=over.fence)
    assert revived(over, NOW, held=True).held


def test_what_a_commit_writes_keeps_the_version_that_was_read() -> None:
    mine = replace(claimed(task(), "me", NOW, LEASE), version=7)
    for_a_commit = [
        ended(mine, TaskState.COMPLETED, NOW),
        to_be_retried(mine, NOW, {}, not_before=0),
        revived(mine, NOW, held=False),
    ]
    by_the_store = [claimed(mine, "me", NOW, 1), extended(mine, NOW, 1), released(mine, NOW)]
    assert [each.version for each in for_a_commit] == [7, 7, 7]
    assert [each.version for each in by_the_store] == [8, 8, 8]


def test_only_the_last_claim_holds() -> None:
    first = claimed(task(), "me", NOW, LEASE)
    second = claimed(first, "you", NOW + LEASE, LEASE)
    assert holds(first, first.fence)
    assert not holds(second, first.fence)
    assert holds(second, second.fence)
    assert not holds(task(), 0)
    assert not holds(None, 0)


def test_a_claim_that_has_lapsed_still_holds_while_nobody_took_the_task() -> None:
    mine = claimed(task(), "me", NOW, LEASE)
    assert not lease_holds(mine, NOW + 2 * LEASE)
    assert holds(mine, mine.fence)


@pytest.mark.parametrize(("first", "second"), list(product(TaskState, TaskState)))
def test_states_follow_each_other_as_the_table_says(first: TaskState, second: TaskState) -> None:
    assert may_follow(first, second) == (second in TASK_TRANSITIONS[first])


def test_an_unknown_state_is_followed_by_nothing() -> None:
    assert not may_follow("unheard", TaskState.PENDING)


def test_a_new_task_may_always_be_saved() -> None:
    assert check_save(None, task())


@pytest.mark.parametrize(("stored", "given"), list(product(TaskState, TaskState)))
def test_a_save_may_end_a_task_but_not_revive_it(stored: TaskState, given: TaskState) -> None:
    before, after = task(state=stored), task(state=given)
    if stored in ENDS and stored == given:
        assert check_save(before, after) is False
    elif stored in ENDS:
        with pytest.raises(Conflict):
            check_save(before, after)
    else:
        assert check_save(before, after) is True


def test_a_save_of_what_was_read_before_a_claim_is_refused() -> None:
    with pytest.raises(Conflict, match="was claimed since it was read"):
        check_save(task(fence=2), task(fence=1))
