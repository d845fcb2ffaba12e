"""A process that does work which may be killed: one piece after the other, as it is told.

Requests come as lines of JSON on one pipe, and what there is to say goes out on another. What the
work prints goes to standard error. A third pipe carries nothing. When the pipes end, so did the
parent, and this process ends at once, with all that it started.
"""

from __future__ import annotations

import fcntl
import importlib
import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, BinaryIO

import msgspec

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class _Speaker:
    """Says things to the parent, whole lines at a time, from any thread."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._lock = threading.Lock()

    def say(self, message: dict[str, Any]) -> None:
        line = _encode(message) + b"\n"
        with self._lock:
            self._file.write(line)
            self._file.flush()


def _function_at(target: str) -> Callable[..., Any]:
    module, _, name = target.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]


def _do(request: dict[str, Any], speaker: _Speaker) -> None:
    def send(kind: str, value: Any) -> None:
        speaker.say({"kind": kind, "value": value})

    try:
        result = _function_at(request["target"])(request["argument"], send)
        speaker.say({"result": result})
    except BaseException as error:  # also of work that wants to exit
        speaker.say({"error": _described(error)})


def _described(error: BaseException) -> dict[str, str | bool | None]:
    """Whatever was raised: what cannot be said would end this process, and look like a crash."""
    from afl.error_text import is_bare, kind_of, message_of, trace_of  # most work does not fail

    return {
        "type": kind_of(error),
        "message": message_of(error),
        "is_bare": is_bare(error),
        "trace": trace_of(error),
        "raised_at": _place(error),
    }


def _place(error: BaseException) -> str | None:
    from afl.error_text import storable
    from afl.runtime.stacks import raised_at

    try:
        place = raised_at(error)
        return None if place is None else storable(place)
    except Exception:  # its frames and attributes are not ours
        return None


def _end_with_parent(line: int) -> None:
    """Let the kernel kill this group when the other end of the line is closed: work that lets no
    other thread run would keep `_listen` from it. On other systems than Linux, only that does it.
    """
    if sys.platform != "linux":
        return
    fcntl.fcntl(line, fcntl.F_SETOWN, -os.getpgrp())
    # Instead of SIGIO, which work may block or ignore.
    fcntl.fcntl(line, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(line, fcntl.F_SETFL, fcntl.fcntl(line, fcntl.F_GETFL) | os.O_ASYNC)
    # Whoever died before that was not noticed.
    poll = select.poll()
    poll.register(line)
    if poll.poll(0):
        _end_group()


def _listen(file: BinaryIO, requests: SimpleQueue[dict[str, Any]]) -> None:
    for line in file:
        requests.put(_decode(line))
    _end_group()


def _end_group() -> None:
    # A group of its own: see `afl.work.isolation`.
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    source, target, line = (int(each) for each in sys.argv[1:])
    os.dup2(2, 1)
    # Killed at any moment: what was printed must be out.
    getattr(sys.stdout, "reconfigure", lambda **_options: None)(line_buffering=True)
    for each in (source, target, line):
        # What the work starts must not keep the pipes open.
        os.set_inheritable(each, False)
    _end_with_parent(line)
    requests: SimpleQueue[dict[str, Any]] = SimpleQueue()
    speaker = _Speaker(os.fdopen(target, "wb"))
    arguments = (os.fdopen(source, "rb"), requests)
    threading.Thread(target=_listen, args=arguments, daemon=True).start()
    while True:
        request = requests.get()
        speaker.say({"begun": True})
        sys.path[:] = request["path"]
        _do(request, speaker)


if __name__ == "__main__":
    main()
