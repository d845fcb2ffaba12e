"""A process that does work which may be killed: one piece after the other, as it is told.

Requests come as lines of JSON on one pipe, and what there is to say goes out on another. What the
work prints goes to standard error. When the pipe of requests ends, so did the parent, and this
process ends at once, with all that it started.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import traceback
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


def _described(error: BaseException) -> dict[str, str | None]:
    from afl.runtime.stacks import raised_at  # most work does not fail

    return {
        "type": type(error).__name__,
        "message": str(error),
        "trace": "".join(traceback.format_exception(error)),
        "raised_at": raised_at(error),
    }


def _listen(file: BinaryIO, requests: SimpleQueue[dict[str, Any]]) -> None:
    for line in file:
        requests.put(_decode(line))
    # A group of its own: see `afl.work.isolation`.
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    source, target = int(sys.argv[1]), int(sys.argv[2])
    os.dup2(2, 1)
    # Killed at any moment: what was printed must be out.
    getattr(sys.stdout, "reconfigure", lambda **_options: None)(line_buffering=True)
    for each in (source, target):
        # What the work starts must not keep the pipes open.
        os.set_inheritable(each, False)
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
