"""What the code of others prints is not the result of a command: it goes to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import IO

#: Where programs that are started print.
_STDOUT = 1


@contextmanager
def output_aside() -> Iterator[None]:
    """While code of others runs. What it prints goes to stderr, and so does what programs print
    that it starts."""
    with _descriptor_aside(sys.stdout), redirect_stdout(sys.stderr):
        yield


@contextmanager
def _descriptor_aside(stdout: IO[str] | None) -> Iterator[None]:
    if stdout is None or _descriptor_of(stdout) != _STDOUT:
        # Closed at the start, and whatever has that number now is not ours; or what is written
        # to it goes elsewhere, where programs do not print.
        yield
        return
    stdout.flush()
    aside = os.dup(_STDOUT)
    try:
        _lead_to(sys.stderr)
        yield
    finally:
        with suppress(OSError, ValueError):
            stdout.flush()
        os.dup2(aside, _STDOUT)
        os.close(aside)


def _lead_to(stderr: IO[str] | None) -> None:
    descriptor = _descriptor_of(stderr)
    if descriptor is not None:
        os.dup2(descriptor, _STDOUT)
        return
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), _STDOUT)


def _descriptor_of(stream: IO[str] | None) -> int | None:
    try:
        return None if stream is None else stream.fileno()
    except (OSError, ValueError):  # closed, or not of the system
        return None
