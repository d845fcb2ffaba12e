"""Much work at once."""

from __future__ import annotations

import asyncio
import errno
import threading

import pytest
from tests.work.box import Box
from tests.work.running import PATIENCE_S, Running, eventually

from afl.work import event_loop
from afl.work.attempts import Attempt
from afl.work.consumer import Consumer, Options
from afl.work.pool import Pool
from afl.work.source import Job, OnLoop

CROWD = 2000


def test_thousands_of_calls_wait_at_once_on_one_thread() -> None:
    """All of them must have begun before the first may end."""
    box = Box()
    threads = set()
    begun = []
    all_are_there = asyncio.Event()

    async def wait(attempt: Attempt) -> None:
        threads.add(threading.get_ident())
        begun.append(attempt)
        if len(begun) == CROWD:
            all_are_there.set()
        await all_are_there.wait()

    for number in range(CROWD):
        box.put(str(number), Job(OnLoop(wait)))
    before = set(threading.enumerate())
    with Running(Consumer(box, Options(concurrency=CROWD))):
        eventually(lambda: len(begun) == CROWD)
        # The run itself, its keeper, recorder and watch, and the loop.
        assert len(set(threading.enumerate()) - before) <= 5
        eventually(box.is_empty)
    assert len(threads) == 1
    assert all(end and end.kind == "done" for end in box.ends().values())


def test_thousands_of_short_pieces_need_few_threads() -> None:
    box = Box()
    for number in range(CROWD):
        box.put(str(number))
    with Running(Consumer(box, Options(concurrency=100))):
        eventually(box.is_empty)
    assert {box.claims_of(str(number)) for number in range(CROWD)} == {1}


def test_a_machine_without_more_threads_slows_it_down_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    box = Box()
    is_exhausted = threading.Event()
    start = threading.Thread.start

    def start_or_not(thread: threading.Thread) -> None:
        if is_exhausted.is_set() and thread.name.startswith("loop-worker-thread"):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_or_not)
    is_exhausted.set()
    for number in range(3):
        box.put(str(number))
    options = Options(concurrency=3, poll_interval_s=0.01)
    with Running(Consumer(box, options)) as running:
        eventually(lambda: running.consumer.in_flight == 3)
        is_exhausted.clear()
        eventually(box.is_empty)


def test_a_run_that_cannot_start_its_helpers_says_so_and_leaves_none_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = threading.Thread.start

    def start_or_not(thread: threading.Thread) -> None:
        if thread.name == "loop-worker-watch":
            raise RuntimeError("can't start new thread")
        start(thread)

    before = set(threading.enumerate())
    monkeypatch.setattr(threading.Thread, "start", start_or_not)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        Consumer(Box()).run(threading.Event())
    eventually(lambda: before.issuperset(threading.enumerate()))


@pytest.mark.parametrize("is_claimed_along", [False, True])
def test_a_machine_without_room_for_an_event_loop_ends_the_run_which_gives_all_back(
    monkeypatch: pytest.MonkeyPatch, is_claimed_along: bool
) -> None:
    def no_more_files() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    async def wait(_attempt: Attempt) -> None:
        """Never comes to that."""

    monkeypatch.setattr(event_loop, "_shared", event_loop.SharedLoop())
    monkeypatch.setattr(asyncio, "new_event_loop", no_more_files)
    box = Box()
    if is_claimed_along:
        box.put("first", then=["waits"])
    box.put("waits", Job(OnLoop(wait)), is_held=is_claimed_along)
    with Running(Consumer(box, Options(concurrency=1))) as running:
        assert running.has_ended.wait(PATIENCE_S)
        error = running.error
    assert isinstance(error, OSError)
    assert box.calls.releases == [["waits"]]
    assert box.waiting() == ["waits"]


def test_nobody_trying_again_to_start_threads_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The mistake that the test above looks for: what has no thread waits for ever."""
    tried: list[None] = []
    monkeypatch.setattr(Pool, "wake", lambda _self: tried.append(None))
    box = Box()
    box.put("waits")
    with Running(Consumer(box, Options(concurrency=1, poll_interval_s=0.01))):
        eventually(lambda: len(tried) > 3)
        assert not box.is_empty()
