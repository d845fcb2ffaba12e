"""Work in processes of its own: started once, kept warm, and killed with all that they started."""

from __future__ import annotations

import io
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from typing import Any

import msgspec

from afl.error_text import BareError
from afl.errors import AflError
from afl.work.errors import ProcessDied

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

#: How often to look whether a process that says nothing is still there.
_LOOK_MS = 500

#: Hears what the work says while it runs: a kind, and a value.
Listener = Callable[[str, Any], object]


class FailedThere(AflError):  # noqa: N818 - what happened is what people read
    """The work raised this, in its own process. The class is named as the one that was raised."""

    #: As `afl.runtime.stacks.raised_at` said there.
    raised_at: str | None = None


class _BareThere(FailedThere, BareError):  # noqa: N818 - as above
    """Its text is only a value."""


class NeverBegun(ProcessDied):
    """The process was gone before it looked at the work."""


class _Answers(io.FileIO):
    """What a process says. It ends with the process, although others may keep the pipe open that
    it has forked."""

    def __init__(self, pipe: int, is_alive: Callable[[], bool]) -> None:
        super().__init__(pipe, "rb")
        self._is_alive = is_alive
        self._poll = select.poll()
        self._poll.register(pipe, select.POLLIN)

    def readinto(self, buffer: Any) -> int:
        while not self._poll.poll(_LOOK_MS):
            # What it said last may have come in between.
            if not self._is_alive() and not self._poll.poll(0):
                return 0
        return super().readinto(buffer)


class Child:
    """One process, which does one piece of work at a time."""

    def __init__(self) -> None:
        opened: list[int] = []
        try:
            for _ in range(3):
                opened += os.pipe()
            theirs, requests, answers, their_answers, their_line, line = opened
            given = (theirs, their_answers, their_line)
            command = [sys.executable, "-m", "afl.work.isolation_child", *map(str, given)]
            self._process = subprocess.Popen(  # noqa: S603 - our own module, by our own interpreter
                command,
                pass_fds=given,
                stdin=subprocess.DEVNULL,
                # A group of its own: killed as a whole, and out of reach of Ctrl-C.
                start_new_session=True,
            )
        except BaseException:
            _close(opened)
            raise
        _close(given)
        self._requests = os.fdopen(requests, "wb")
        self._answers = io.BufferedReader(_Answers(answers, self.is_alive))
        # Nothing is ever written: its end is that of this process, and the kernel tells it.
        self._line = os.fdopen(line, "wb", buffering=0)
        self._lock = threading.Lock()
        self._is_over = False

    @property
    def pid(self) -> int:
        return self._process.pid

    def call(self, target: str, argument: Any, listener: Listener, label: str = "") -> Any:
        """Have `target` called there, and wait for what it returns. Raises what it raises;
        ProcessDied if the process ends before, and NeverBegun if it had not even begun. `label` is
        how people name the work."""
        request = {"target": target, "argument": argument, "path": sys.path}
        line = _encode(request) + b"\n"
        with suppress(OSError, ValueError):  # it has ended: there will be no answer
            self._requests.write(line)
            self._requests.flush()
        if not self._answers.readline():
            raise NeverBegun(self._end_of(label))
        return self._answer(label, listener)

    def _answer(self, label: str, listener: Listener) -> Any:
        for line in self._answers:
            message = _decode(line)
            if "kind" in message:
                listener(message["kind"], message["value"])
            elif "error" in message:
                raise error_of(message["error"])
            else:
                return message["result"]
        raise ProcessDied(self._end_of(label))

    def kill(self) -> None:
        """End it now, with all that it started. May be called again, from any thread."""
        with self._lock:
            if not self._is_over:
                # Before anybody waits for it: until then its number is nobody else's. What has
                # another user by now is out of reach.
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End it, wait for that, and free what it took here. Not while it is at work."""
        self.kill()
        self._process.wait()
        with self._lock:
            self._is_over = True
        with suppress(OSError):  # what was not sent has nobody to go to
            self._requests.close()
        self._answers.close()
        self._line.close()

    def is_alive(self) -> bool:
        with self._lock:
            if self._is_over:
                return False
            try:
                # Asks only: whoever waits for it must still find it.
                how = os.WEXITED | os.WNOHANG | os.WNOWAIT
                return os.waitid(os.P_PID, self._process.pid, how) is None
            except ChildProcessError:  # somebody else has waited for it
                return False

    def _end_of(self, label: str) -> str:
        self.kill()
        code = self._process.wait()
        how = f"was ended by {_signal_name(-code)}" if code < 0 else f"exited with code {code}"
        who = f"the process that did {label}" if label else "the process"
        return f"{who} {how} before it was done; what it printed, if anything, says more"


class Children:
    """Processes at hand. Safe from any thread."""

    def __init__(self, warm: int = 4) -> None:
        self._warm = warm
        self._lock = threading.Lock()
        self._idle: list[Child] = []
        self._busy: set[Child] = set()
        self._is_closed = False

    @property
    def pids(self) -> list[int]:
        """Of all that live, at work or idle."""
        with self._lock:
            return [each.pid for each in (*self._idle, *self._busy)]

    def call(
        self,
        target: str,
        argument: Any,
        listener: Listener,
        started: Callable[[Callable[[], None]], object],
        label: str = "",
    ) -> Any:
        """As `Child.call`, in one that is free. `started` is told how to kill it."""
        while True:
            child, is_new = self._taken()
            try:
                return self._call(child, target, argument, listener, started, label)
            except NeverBegun:
                # One that was idle may die at any time, and that is not the fault of the work.
                if is_new:
                    raise

    def _call(
        self,
        child: Child,
        target: str,
        argument: Any,
        listener: Listener,
        started: Callable[[Callable[[], None]], object],
        label: str,
    ) -> Any:
        is_sound = False
        try:
            started(child.kill)
            result = child.call(target, argument, listener, label)
            is_sound = True
            return result
        except FailedThere:
            is_sound = True
            raise
        finally:
            self._put_back(child, is_sound=is_sound)

    def close(self) -> None:
        """End those that are idle now, and the others when they are free."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for each in idle:
            each.close()

    def _taken(self) -> tuple[Child, bool]:
        """One for the caller alone, and whether it is new."""
        while True:
            with self._lock:
                child = self._idle.pop() if self._idle else None
                if child is not None and child.is_alive():
                    self._busy.add(child)
                    return child, False
            if child is None:
                break
            child.close()
        child = Child()
        with self._lock:
            self._busy.add(child)
        return child, True

    def _put_back(self, child: Child, *, is_sound: bool) -> None:
        with self._lock:
            self._busy.discard(child)
            is_kept = is_sound and not self._is_closed and len(self._idle) < self._warm
            if is_kept:
                self._idle.append(child)
        if not is_kept:
            child.close()


def _close(opened: Iterable[int]) -> None:
    for each in opened:
        os.close(each)


def error_of(described: dict[str, Any]) -> FailedThere:
    """What was raised there, as it can be raised here: the same name, message and trace."""
    error = _class_of(described["type"], described["is_bare"])(described["message"])
    error.add_note(described["trace"])
    error.raised_at = described["raised_at"]
    return error


@lru_cache(maxsize=256)
def _class_of(name: str, is_bare: bool) -> type[FailedThere]:
    return type(name, (_BareThere if is_bare else FailedThere,), {})


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
