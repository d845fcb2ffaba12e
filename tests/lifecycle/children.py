"""Processes that run loops, to be sent real signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import afl

ROOT = Path(__file__).parents[2]
PATIENCE_S = 50.0

HEAD = """\
import os, signal, sys, threading, time
from afl.runtime import LoopGroup, ShutdownCoordinator
from tests.lifecycle.loops import BusyLoop, CheckpointingLoop, FailingLoop, IdleLoop

def say(*words):
    # In one write: others may speak at the same time.
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

class Idle(IdleLoop):
    def wait(self, stop):
        say("working", self.name)
        stop.wait()

class Busy(BusyLoop):
    def wait(self, stop):
        say("working", self.name)
        stop.wait()
        say("asked", self.name)
        self.finish.wait(self.patience)
        say("finished", self.name)
    patience = 0.2

class Hung(Busy):
    patience = None

class Saving(Hung):
    def checkpoint(self):
        say("saved", self.name)
        self.finish.set()
"""


class Child:
    """A process whose lines can be waited for."""

    def __init__(self, code: str) -> None:
        environ = {**os.environ, "PYTHONPATH": f"{Path(afl.__file__).parents[1]}:{ROOT}"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", HEAD + code],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environ,
            cwd=ROOT,
            start_new_session=True,
        )
        self.lines: list[str] = []

    def hears(self, start: str) -> str:
        """Wait for a line that starts so, and give it."""
        assert self._process.stdout is not None
        while not (found := [each for each in self.lines if each.startswith(start)]):
            heard = self._process.stdout.readline()
            assert heard, f"it ended without saying {start!r}: {self._rest()}"
            self.lines.append(heard.strip())
        return found[0]

    def send(self, signum: signal.Signals) -> None:
        self._process.send_signal(signum)

    def end(self) -> tuple[int, str]:
        """Wait for its end; its exit code and what it wrote to standard error."""
        out, err = self._process.communicate(timeout=PATIENCE_S)
        self.lines += out.split("\n")
        return self._process.returncode, err

    def kill(self) -> None:
        """With what it has forked, which would hold the pipes open."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def _rest(self) -> str:
        return self._process.communicate(timeout=PATIENCE_S)[1]


@contextmanager
def child(code: str) -> Iterator[Child]:
    made = Child(code)
    try:
        yield made
    finally:
        made.kill()
