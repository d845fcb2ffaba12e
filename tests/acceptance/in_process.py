"""The `afl` command in the process of the tests: fast, for commands that neither wait nor load."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from typing import Any
from unittest.mock import patch

from tests.acceptance.conftest import Command, Outcome

from afl.cli import main


@dataclass(frozen=True)
class CommandHere(Command):
    """Like a process of its own in `folder`, as far as such commands can tell."""

    def __call__(
        self, *args: str, stdin: str | bytes = b"", environ: Mapping[str, str] | None = None
    ) -> Outcome:
        given = TextIOWrapper(BytesIO(stdin.encode() if isinstance(stdin, str) else stdin))
        variables = patch.dict(os.environ, self.environ(environ or {}), clear=True)
        with chdir(self.folder), variables, patch.object(sys, "stdin", given):
            return afl(*args)


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
