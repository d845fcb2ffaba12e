"""Where a thread hangs is told by its handler and its line."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from afl.clock import FakeClock
from afl.runtime.heartbeat import Heartbeat
from afl.runtime.stacks import UNKNOWN_PLACE, dump_stacks, place_of, thread_names
from afl.runtime.watchdog import Watchdog

if TYPE_CHECKING:
    _Lock = threading.Lock


@contextmanager
def hanging(handler: Callable[[_Lock, _Lock], None]) -> Iterator[int]:
    """A thread in `handler`, which says that it is there and waits for its release.

    With bare locks: waiting for an event, and setting one, has places of its own.
    """
    is_there, release = threading.Lock(), threading.Lock()
    is_there.acquire()
    release.acquire()
    thread = threading.Thread(target=handler, args=(is_there, release), name="handler")
    thread.start()
    is_there.acquire()
    assert thread.ident is not None
    try:
        yield thread.ident
    finally:
        release.release()
        thread.join()


def send_mail(is_there: _Lock, release: _Lock) -> None:
    talk_to_server(is_there, release)


def talk_to_server(is_there: _Lock, release: _Lock) -> None:
    is_there.release()
    release.acquire()


def test_the_handler_is_the_outermost_function_and_the_line_the_innermost() -> None:
    with hanging(send_mail) as thread:
        place = place_of(thread)
    assert place.handler == f"{__name__}.send_mail"
    file, _, rest = place.line.partition(":")
    assert file == __file__
    number, _, function = rest.partition(" in ")
    assert function == "talk_to_server"
    assert int(number) > talk_to_server.__code__.co_firstlineno


def test_a_thread_that_has_ended_is_nowhere() -> None:
    with hanging(send_mail) as thread:
        pass
    assert place_of(thread) == UNKNOWN_PLACE
    assert place_of(None) == UNKNOWN_PLACE


def test_all_threads_are_in_the_dump_and_can_be_told_apart() -> None:
    with hanging(send_mail) as thread:
        dump, names = dump_stacks(), thread_names()
    assert f"Thread 0x{thread:016x} (most recent call first):" in dump
    assert "in send_mail" in dump
    assert f"Thread 0x{thread:016x} is handler\n" in names


class LoopWithThread:
    """A loop that says on which thread it runs."""

    name = "mail"

    def __init__(self, clock: FakeClock, thread: threading.Thread) -> None:
        self.heartbeat: Heartbeat | None = Heartbeat(clock)
        self.thread = thread

    def is_watched(self) -> bool:
        return True

    def progress(self) -> int:
        return 0

    def longest_turn_s(self) -> float | None:
        return None


def test_the_thread_of_a_loop_is_looked_at_rather_than_the_one_that_beat_last() -> None:
    clock = FakeClock()
    with hanging(send_mail) as ident:
        thread = next(each for each in threading.enumerate() if each.ident == ident)
        watchdog = Watchdog([LoopWithThread(clock, thread)], clock=clock)
        clock.advance(721)
        # Beaten here, by the thread that made it, as a group does before it starts a loop.
        (stall,) = watchdog.stalls()
    assert stall.handler == f"{__name__}.send_mail"
