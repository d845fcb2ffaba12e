"""Heartbeats: signs of life that cost nothing and disturb nobody."""

from __future__ import annotations

import logging
import threading

import pytest

from afl.clock import FakeClock
from afl.runtime.heartbeat import Heartbeat


def test_the_age_grows_until_the_next_beat() -> None:
    clock = FakeClock()
    heartbeat = Heartbeat(clock)
    clock.advance(7)
    assert heartbeat.elapsed() == 7
    heartbeat.beat()
    assert heartbeat.elapsed() == 0
    clock.advance(3)
    assert heartbeat.elapsed() == 3


def test_a_new_one_has_just_beaten() -> None:
    clock = FakeClock()
    clock.advance(3600)
    assert Heartbeat(clock).elapsed() == 0


def test_a_jump_of_the_wall_clock_changes_no_age() -> None:
    clock = FakeClock()
    heartbeat = Heartbeat(clock)
    clock.set_wall(clock.now().replace(year=2030))
    assert heartbeat.elapsed() == 0


def test_callbacks_hear_each_beat_in_their_order() -> None:
    heartbeat, heard = Heartbeat(), list[str]()
    heartbeat.add_callback(lambda: heard.append("first"))
    heartbeat.add_callback(lambda: heard.append("second"))
    heartbeat.beat()
    heartbeat.beat()
    assert heard == ["first", "second", "first", "second"]


def test_a_callback_sees_the_beat_that_it_is_called_for() -> None:
    clock = FakeClock()
    heartbeat, ages = Heartbeat(clock), list[float]()
    heartbeat.add_callback(lambda: ages.append(heartbeat.elapsed()))
    clock.advance(5)
    heartbeat.beat()
    assert ages == [0]


def test_a_removed_callback_hears_no_more() -> None:
    heartbeat, heard = Heartbeat(), list[str]()

    def leave() -> None:
        heard.append("leaving")

    heartbeat.add_callback(leave)
    heartbeat.add_callback(lambda: heard.append("staying"))
    heartbeat.remove_callback(leave)
    heartbeat.beat()
    assert heard == ["staying"]


def test_removing_what_was_never_added_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="is no callback of this heartbeat"):
        Heartbeat().remove_callback(lambda: None)


def test_a_failing_callback_is_logged_once_and_disturbs_neither_loop_nor_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heartbeat, heard = Heartbeat(), list[int]()

    def fail() -> None:
        raise RuntimeError("the lease is gone")

    heartbeat.add_callback(fail)
    heartbeat.add_callback(lambda: heard.append(1))
    with caplog.at_level(logging.ERROR):
        heartbeat.beat()
        heartbeat.beat()
    assert heard == [1, 1]
    assert caplog.text.count("heartbeat_callback_failed") == 1


def test_a_callback_may_remove_itself_and_beat_again() -> None:
    heartbeat, heard = Heartbeat(), list[int]()

    def once() -> None:
        heard.append(1)
        heartbeat.remove_callback(once)
        heartbeat.beat()

    heartbeat.add_callback(once)
    heartbeat.beat()
    assert heard == [1]


def test_it_knows_the_thread_of_the_last_beat() -> None:
    heartbeat = Heartbeat()
    assert heartbeat.beaten_by == threading.get_ident()
    other = threading.Thread(target=heartbeat.beat)
    other.start()
    other.join()
    assert heartbeat.beaten_by == other.ident


def test_a_callback_that_hangs_keeps_no_other_thread_from_beating() -> None:
    clock = FakeClock()
    heartbeat = Heartbeat(clock)
    release, is_in = threading.Event(), threading.Event()
    first = threading.Thread(target=heartbeat.beat)

    def hang() -> None:
        if threading.current_thread() is first:
            is_in.set()
            release.wait()

    heartbeat.add_callback(hang)
    first.start()
    is_in.wait()
    clock.advance(9)
    heartbeat.beat()
    assert heartbeat.elapsed() == 0
    release.set()
    first.join()
