"""The event loop that all asynchronous work shares."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Callable
from queue import Queue
from typing import Any

import pytest
from tests.work.running import PATIENCE_S, eventually

from afl.errors import UsageError
from afl.work.event_loop import SharedLoop, shared_loop


class Heard:
    """How a call ended."""

    def __init__(self) -> None:
        self.is_over = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None
        self.thread = 0

    def __call__(self, result: Any, error: BaseException | None) -> None:
        self.result, self.error = result, error
        self.thread = threading.get_ident()
        self.is_over.set()

    def wait(self) -> None:
        assert self.is_over.wait(PATIENCE_S)


async def give(value: Any) -> Any:
    await asyncio.sleep(0)
    return value


def test_a_process_has_one() -> None:
    assert shared_loop() is shared_loop()


def test_a_call_says_how_it_ended() -> None:
    loop, heard, error = SharedLoop(), Heard(), ValueError("no")

    async def fail() -> None:
        raise error

    loop.start(lambda: give(3), heard)
    heard.wait()
    assert (heard.result, heard.error) == (3, None)
    failed = Heard()
    loop.start(fail, failed)
    failed.wait()
    assert failed.error is error
    assert failed.thread == heard.thread


def test_what_is_raised_before_there_is_anything_to_await_is_an_end_too() -> None:
    heard, error = Heard(), SystemExit(1)

    def fail() -> Any:
        raise error

    SharedLoop().start(fail, heard)
    heard.wait()
    assert heard.error is error


def test_a_call_can_be_cancelled_while_it_waits() -> None:
    heard, has_begun = Heard(), threading.Event()

    async def wait() -> None:
        has_begun.set()
        await asyncio.sleep(3600)

    call = SharedLoop().start(wait, heard)
    assert has_begun.wait(PATIENCE_S)
    call.cancel()
    heard.wait()
    assert isinstance(heard.error, asyncio.CancelledError)


def test_a_call_that_is_cancelled_before_it_began_never_does() -> None:
    loop, heard, may_go_on = SharedLoop(), Heard(), threading.Event()
    loop.call_soon(lambda: may_go_on.wait(PATIENCE_S))
    call = loop.start(lambda: pytest.fail("it was cancelled"), heard)
    call.cancel()
    may_go_on.set()
    heard.wait()
    assert isinstance(heard.error, asyncio.CancelledError)


def test_calls_from_many_threads_all_begin() -> None:
    """Each must be begun, whoever wakes the loop."""
    loop = SharedLoop()
    done: list[Any] = []

    def start() -> None:
        for number in range(300):
            loop.start(lambda number=number: give(number), lambda r, _e: done.append(r))  # type: ignore[misc]

    threads = [threading.Thread(target=start) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    eventually(lambda: len(done) == 2400)


def test_a_thread_can_wait_for_what_is_awaited_there() -> None:
    loop = SharedLoop()

    async def fail() -> None:
        raise LookupError("no")

    assert loop.run(give(3)) == 3
    with pytest.raises(LookupError, match="no"):
        loop.run(fail())


def test_nobody_waits_for_the_loop_on_its_own_thread() -> None:
    loop = SharedLoop()

    async def wait(value: Any) -> Any:
        return loop.run(give(value))

    with pytest.raises(UsageError, match=r"asyncio\.to_thread"):
        loop.run(wait(3))

    async def wait_elsewhere(value: Any) -> Any:
        return await asyncio.to_thread(loop.run, give(value))

    assert loop.run(wait_elsewhere(3)) == 3


def test_who_waits_for_it_on_a_thread_can_be_told_how_to_cancel_it() -> None:
    has_begun, cancels = threading.Event(), Queue[Callable[[], None]]()

    async def wait() -> None:
        has_begun.set()
        await asyncio.sleep(3600)

    def cancel() -> None:
        assert has_begun.wait(PATIENCE_S)
        cancels.get(timeout=PATIENCE_S)()

    cancelling = threading.Thread(target=cancel)
    cancelling.start()
    with pytest.raises(asyncio.CancelledError):
        SharedLoop().run(wait(), cancels.put)
    cancelling.join()


def test_what_is_cancelled_before_it_is_awaited_is_never_begun_and_warns_of_nothing() -> None:
    async def begin() -> None:
        pytest.fail("it was cancelled")

    def cancel(stop: Callable[[], None]) -> None:
        stop()
        may_go_on.set()

    loop, may_go_on = SharedLoop(), threading.Event()
    loop.call_soon(lambda: may_go_on.wait(PATIENCE_S))
    with pytest.raises(asyncio.CancelledError):
        loop.run(begin(), cancel)
    gc.collect()


@pytest.mark.parametrize("what", ["files", "threads"])
def test_a_machine_without_room_for_the_loop_says_so_and_a_later_call_begins(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    loop, error = SharedLoop(), OSError("no more files")

    def refuse(*_anything: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        if what == "files":
            patch.setattr(asyncio, "new_event_loop", refuse)
        else:
            patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(OSError, match="no more files"):
            loop.start(lambda: pytest.fail("nobody waits for it"), Heard())
    assert loop.run(give(3)) == 3


@pytest.mark.parametrize("disturb", ["stop", "exit"])
def test_a_handler_cannot_end_the_loop(disturb: str) -> None:
    loop, heard = SharedLoop(), Heard()

    async def stop_loop() -> None:
        running = asyncio.get_running_loop()
        if disturb == "stop":
            running.stop()
        else:
            running.call_soon(_leave)
        await asyncio.sleep(0)

    loop.start(stop_loop, heard)
    heard.wait()
    assert loop.run(give(3)) == 3


def _leave() -> None:
    raise SystemExit(3)


def test_a_fork_has_a_loop_of_its_own() -> None:
    assert shared_loop().run(give(1)) == 1
    source, target = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(target, str(shared_loop().run(give(2))).encode())
        os._exit(0)
    os.close(target)
    with os.fdopen(source) as answers:
        assert answers.read() == "2"
    assert os.waitpid(pid, 0)[1] == 0
