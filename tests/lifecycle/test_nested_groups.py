"""A group in a group: problems inside are seen outside, and the outer deadline holds for all."""

from __future__ import annotations

import threading

import pytest
from tests.lifecycle.loops import (
    PATIENCE_S,
    CheckpointingLoop,
    IdleLoop,
    Running,
    eventually,
    is_caught,
    running,
)

from afl.clock import FakeClock
from afl.runtime.lifecycle import LoopGroup, Phase


def hide_an_inner_problem() -> None:
    is_there = threading.Event()
    inner = LoopGroup([IdleLoop("mail")], dependencies=[is_there.is_set])
    outer = LoopGroup([inner, IdleLoop("other")])
    with running(outer):
        eventually(lambda: inner.phase is Phase.INIT and inner.running)
        eventually(lambda: "not all loops run yet" not in outer.ready().reasons)
        (reason,) = outer.ready().reasons
        assert reason == f"loop-0: {inner.ready().reasons[0]}"
        is_there.set()
        eventually(lambda: outer.ready().ok)
        inner.drain()
        assert outer.ready().reasons == ("loop-0: drain mode: no work is taken",)


def test_a_group_is_not_ready_while_one_in_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ready means that all can take work, however deep they are."""
    hide_an_inner_problem()
    monkeypatch.delattr(LoopGroup, "unready_reason")
    is_caught(hide_an_inner_problem)


def test_a_group_that_does_not_run_says_so() -> None:
    group = LoopGroup([IdleLoop()])
    assert group.unready_reason == "the group does not run"
    assert group.in_flight == 0
    group.checkpoint()
    assert not group.running


def test_work_in_hand_is_counted_through_all_groups() -> None:
    class Counting(IdleLoop):
        in_flight = 3

    inner = LoopGroup([Counting("one"), Counting("two"), IdleLoop("silent")])
    outer = LoopGroup([inner])
    with running(outer):
        eventually(lambda: outer.ready().ok)
        assert outer.status()["loops"][0]["in_flight"] == 6


def test_the_deadline_of_the_outer_group_saves_what_is_unfinished_in_the_inner_one() -> None:
    """The inner one has a longer deadline of its own, which nobody waits for."""
    clock = FakeClock()
    loop = CheckpointingLoop("loop", clock=clock)
    inner = LoopGroup([loop], 1000.0, clock=clock)
    outer = LoopGroup([inner], 10.0, checkpoint_reserve_seconds=5.0, clock=clock)
    run = Running(outer.run)
    assert loop.is_working.wait(PATIENCE_S)
    outer.request_stop()
    assert loop.is_asked.wait(PATIENCE_S)
    for _ in range(19):
        clock.wait_for_waiters(2)
        clock.advance(0.25)
    assert loop.checkpoints == 0, "work may still finish by itself"
    clock.wait_for_waiters(2)
    clock.advance(0.25)
    run.outcome()
    assert (loop.checkpoints, outer.abandoned, inner.abandoned) == (1, (), ())


def test_a_loop_may_stop_the_group_around_its_group() -> None:
    class Ending(IdleLoop):
        answer: bool | None = None

        def wait(self, stop: threading.Event) -> None:
            self.answer = outer.shutdown(timeout=PATIENCE_S)
            super().wait(stop)

    loop = Ending()
    outer = LoopGroup([LoopGroup([loop])])
    Running(outer.run).outcome()
    assert loop.answer is False, "asked, without waiting for itself"
