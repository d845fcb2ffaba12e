"""The `afl` command in the process of the tests: fast, for commands that neither wait nor load."""

from __future__ import annotations

import json
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from typing import Any

from tests.acceptance.conftest import Outcome

from afl.cli import main


def afl(*args: str) -> Outcome:
    out, err = _stream(), _stream()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(args)
    return Outcome(code, _text(out), _text(err))


def afl_json(*args: str) -> Any:
    """What a command that goes well answers to programs."""
    done = afl(*args, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def _stream() -> TextIOWrapper:
    # As a real one: commands write text and bytes to it.
    return TextIOWrapper(BytesIO(), encoding="utf-8", newline="", write_through=True)


def _text(stream: TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()
