"""What processes of their own are asked to do in tests."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from afl.clock import SYSTEM_CLOCK

Send = Callable[[str, Any], None]


def echo(argument: list[int], send: Send) -> dict[str, Any]:
    for each in argument:
        send("saw", each)
    return {"echoed": argument}


def pid(_argument: None, _send: Send) -> int:
    return os.getpid()


def fail(argument: str, _send: Send) -> None:
    raise LookupError(argument)


class Mute(Exception):  # noqa: N818 - it says nothing
    def __str__(self) -> str:
        raise RuntimeError("no text")


def fail_oddly(argument: str, _send: Send) -> None:
    """With what is hard to describe."""
    if argument == "mute":
        raise Mute
    if argument == "half":
        raise LookupError("half \ud83d of it")
    eval("1 / 0", {})


class UnpricedError(KeyError):
    """Says the key, and nothing else."""


def miss(argument: str, _send: Send) -> None:
    raise UnpricedError(argument)


def leave(argument: int, _send: Send) -> None:
    sys.exit(argument)


def die(argument: int, _send: Send) -> None:
    os.kill(os.getpid(), argument)


def vanish(argument: int, _send: Send) -> None:
    os._exit(argument)


def vanish_from(argument: int, send: Send) -> None:
    """Leave a process behind that has all that this one had open, and never ends."""
    if (fork := os.fork()) == 0:
        while True:
            signal.pause()
    send("pids", [fork])
    os._exit(argument)


def not_json(_argument: None, _send: Send) -> object:
    return {"file": sys.stderr}


def print_line(argument: str, _send: Send) -> None:
    print(argument)  # noqa: T201
    os.write(1, f"{argument}, bare\n".encode())


def hang(_argument: None, send: Send) -> None:
    """For ever, and with a process of its own that hangs as well. Both refuse to end politely."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)"
    with subprocess.Popen([sys.executable, "-c", code]) as grandchild:
        send("pids", [os.getpid(), grandchild.pid])
        SYSTEM_CLOCK.sleep(3600)


def hang_hard(argument: str, send: Send) -> None:
    """As `hang`, deaf to all signals that can be blocked, and no other thread here runs once the
    grandchild has written its id to this file."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    send("pids", [os.getpid()])
    script = f"echo $$ > '{argument}.new'; mv '{argument}.new' '{argument}'; exec sleep 3600"
    ctypes.PyDLL(None).system(script.encode())
