"""What the watchdog calls may hang; the watchdog may not."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from afl.runtime.bounded import BoundedCalls


@pytest.fixture
def calls() -> Iterator[BoundedCalls]:
    calls = BoundedCalls("test-calls", timeout_s=20)
    yield calls
    calls.close()


def test_a_call_is_made_on_another_thread_and_waited_for(calls: BoundedCalls) -> None:
    threads = list[int]()
    assert calls.call(lambda: threads.append(threading.get_ident()))
    assert calls.call(lambda: threads.append(threading.get_ident()))
    assert threads[0] == threads[1] != threading.get_ident()


def test_what_a_call_raises_is_logged(
    calls: BoundedCalls, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        assert calls.call(lambda: 1 / 0)
    assert "call_failed" in caplog.text
    assert "ZeroDivisionError" in caplog.text
    assert calls.call(lambda: None)


def test_a_call_that_hangs_is_left_behind_and_the_next_one_is_made() -> None:
    calls = BoundedCalls("test-calls", timeout_s=0.2)
    release, is_made, threads = threading.Event(), threading.Event(), list[threading.Thread]()

    def hang() -> None:
        threads.append(threading.current_thread())
        release.wait()

    def make() -> None:
        threads.append(threading.current_thread())
        is_made.set()

    assert not calls.call(hang)
    calls.call(make)
    assert is_made.wait(20)
    calls.close()
    release.set()
    for thread in threads:
        thread.join()  # none of them has anything more to do
    assert len(set(threads)) == 2


def test_closing_lets_the_thread_go_and_a_later_call_gets_another(calls: BoundedCalls) -> None:
    threads = list[threading.Thread]()
    for _ in range(2):
        assert calls.call(lambda: threads.append(threading.current_thread()))
        calls.close()
        threads[-1].join()
    assert threads[0] is not threads[1]


def test_without_a_thread_to_be_had_nothing_is_done(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    ready, late = BoundedCalls("test-calls", 20), BoundedCalls("test-calls", 20)
    ready.open()
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert ready.call(lambda: None)
    assert not late.call(lambda: None)
    assert "no_thread_to_be_had" in caplog.text
    ready.close()
