"""`afl serve` as people start it."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.acceptance.conftest import Command
from tests.acceptance.conftest import command as command

from afl.gateway import RequestRefused, TurnClient

HELLO = """
import afl

app = afl.App()


@app.agent("hello")
def hello(request: str) -> str:
    return f"hello {request}"
"""
ARGS = ("serve", "hello.py", "--drain-deadline", "5s", "--port", "0")


@pytest.fixture
def hello(command: Command) -> Command:
    command.write("hello.py", HELLO)
    return command


class Served:
    """A process that serves, and what it says."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.lines: list[str] = []

    def hears(self, pattern: str) -> str:
        """What the first group of this is, in the first line that has it."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.lines.append(line)
            if found := re.search(pattern, line):
                return found[1]
        raise AssertionError(f"it ended without saying {pattern}: {self.lines}")

    def end(self) -> int:
        self._process.send_signal(signal.SIGTERM)
        _, err = self._process.communicate(timeout=Command.patience_s)
        self.lines += err.splitlines()
        return self._process.returncode


@contextmanager
def served(command: Command, *args: str) -> Iterator[Served]:
    process = subprocess.Popen(
        command.line(*args),
        cwd=command.folder,
        env=command.environ({}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Served(process)
    finally:
        process.kill()
        process.communicate()


def test_a_token_is_made_and_shown_once(hello: Command) -> None:
    with served(hello, *ARGS) as process:
        token = process.hears(r"Token, shown once: (\S+)")
        url = process.hears(r"^Turns for hello: (\S+)")
        with TurnClient(url, token=token, patience_s=20.0) as client:
            assert client.submit("hello", "you").result(20.0) == "hello you"
        with (
            TurnClient(url, token="x" * 20, patience_s=20.0) as stranger,
            pytest.raises(RequestRefused, match="401"),
        ):
            stranger.submit("hello", "you")
        assert process.end() == 0
    assert sum(token in line for line in process.lines) == 1


def test_a_given_token_is_not_shown(hello: Command) -> None:
    token = "given-0123456789abcdef"
    hello.write("tokens", f"web caller {token}\n")
    with served(hello, *ARGS, "--token-file", "tokens") as process:
        url = process.hears(r"^Turns for hello: (\S+)")
        with TurnClient(url, token=token, patience_s=20.0) as client:
            assert client.submit("hello", "you").result(20.0) == "hello you"
        assert process.end() == 0
    assert not any(token in line or "shown once" in line for line in process.lines)


def test_turns_in_memory_are_possible_and_warned_about(hello: Command) -> None:
    with served(hello, *ARGS, "--store", "memory:") as process:
        process.hears("(warning: turns are kept in memory, and die with this process)")
        process.hears(r"^Turns for hello: (\S+)")
        assert process.end() == 0


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (("serve", "nowhere.py", "--drain-deadline", "5s"), "there is no file nowhere.py"),
        ((*ARGS, "--host", "0.0.0.0"), "0.0.0.0 is reached from outside, and nobody has a token"),
        ((*ARGS, "--token-file", "nowhere"), "the tokens in nowhere cannot be read"),
        ((*ARGS, "--mailboxes", "x.db"), "serve.mailboxes"),
    ],
)
def test_what_cannot_be_served_is_exit_code_2(
    hello: Command, args: tuple[str, ...], problem: str
) -> None:
    done = hello(*args)
    assert done.code == 2
    assert problem in done.err


def test_a_port_that_is_taken_is_exit_code_2(hello: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = hello(*ARGS[:-1], port)
    assert done.code == 2
    assert f"the turn API cannot listen on 127.0.0.1:{port}" in done.err


def test_a_missing_server_is_named_with_what_brings_it(hello: Command) -> None:
    hello.write("uvicorn.py", "raise ModuleNotFoundError('gone', name='uvicorn')\n")
    done = hello(*ARGS)
    assert done.code == 2
    assert "serving needs uvicorn, which is not installed: pip install 'afl[serve]'" in done.err
