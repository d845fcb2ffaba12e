"""A process with a loop that hangs, to be killed by its watchdog; see test_watchdog_process.py."""

from __future__ import annotations

import fcntl
import logging
import logging.handlers
import os
import sys
import threading
from contextlib import suppress

from afl import telemetry
from afl.runtime.heartbeat import Heartbeat
from afl.runtime.last_words import kill_process
from afl.runtime.watchdog import Stall, StallStage, Watchdog


class KillsWithoutAWord(Watchdog):
    """Mutant: nothing is written before the end."""

    def _end(self, stalls: object) -> None:
        kill_process()


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def charge_card(heartbeat: Heartbeat, lock: threading.Lock) -> None:
    """The handler that hangs."""
    heartbeat.beat()
    with lock:
        say("this is never reached")


def buffer_logs() -> logging.Handler:
    """Logs that reach the file only when somebody flushes."""
    target = logging.FileHandler(sys.argv[2])
    target.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    handler = logging.handlers.MemoryHandler(1000, flushLevel=1000, target=target)
    logging.getLogger().addHandler(handler)
    logging.getLogger().warning("before the hang")
    return handler


def fill_stderr() -> None:
    """Leave no room in the pipe, which nobody reads."""
    flags = fcntl.fcntl(2, fcntl.F_GETFL)
    fcntl.fcntl(2, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    with suppress(BlockingIOError):
        while True:
            os.write(2, b"x" * 4096)
    fcntl.fcntl(2, fcntl.F_SETFL, flags)


def note_event(event: telemetry.Event) -> None:
    if isinstance(event, telemetry.LoopStalled) and event.stage == StallStage.KILLED:
        say(f"event {event.loop} {event.handler} {event.line}")


def note_stall(stall: Stall) -> None:
    say(f"hook {stall.stage}")


def main() -> None:
    scenario = sys.argv[1]
    handler = buffer_logs()
    telemetry.subscribe(note_event)
    if scenario == "first_process":
        os.kill = lambda _pid, _signal: None  # as the kernel does for the first of a container
    if scenario == "full_stderr":
        fill_stderr()
    if scenario == "log_lock":
        handler.acquire()
    kind = KillsWithoutAWord if scenario == "mutant" else Watchdog
    heartbeat, lock = Heartbeat(), threading.Lock()
    watchdog = kind(
        [heartbeat],
        loop_names=["payments"],
        stall_threshold=0.2,
        check_interval=0.05,
        on_stall=note_stall,
        last_words_s=0.5,
    )
    lock.acquire()
    worker = threading.Thread(target=charge_card, args=(heartbeat, lock), name="worker")
    worker.start()
    watchdog.start()
    if scenario != "exiting":
        worker.join()


if __name__ == "__main__":
    main()
