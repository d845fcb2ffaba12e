"""Work in processes of their own: what they give, how they end, who dies with whom."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.work.running import PATIENCE_S, eventually

from afl.error_text import text_of
from afl.work.errors import ProcessDied
from afl.work.isolation import Child, Children, FailedThere

_ROOT = Path(__file__).parents[2]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def ignore(*_anything: object) -> None:
    """For who does not listen."""


@pytest.fixture
def children() -> Iterator[Children]:
    with closing(Children()) as children:
        yield children


def call(children: Children, function: str, argument: Any = None) -> Any:
    return children.call(f"tests.work.targets:{function}", argument, ignore, ignore)


def test_a_process_is_kept_warm_and_used_again(children: Children) -> None:
    first = call(children, "pid")
    assert first != os.getpid()
    assert call(children, "pid") == first
    assert children.pids == [first]


def test_messages_come_in_their_order_and_before_the_result(children: Children) -> None:
    heard: list[Any] = []

    def listen(kind: str, value: Any) -> None:
        heard.append((kind, value))

    numbers = list(range(1000))
    result = children.call("tests.work.targets:echo", numbers, listen, ignore)
    assert result == {"echoed": numbers}
    assert heard == [("saw", each) for each in numbers]


def test_an_error_comes_back_with_its_name_message_and_trace(children: Children) -> None:
    with pytest.raises(FailedThere) as caught:
        call(children, "fail", "no such thing")
    assert type(caught.value).__name__ == "LookupError"
    assert str(caught.value) == "no such thing"
    assert "targets.py" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("how", "kind", "message"),
    [
        ("half", "LookupError", "half \\ud83d of it"),
        ("mute", "Mute", ""),
        ("nowhere", "ZeroDivisionError", "division by zero"),
    ],
)
def test_an_error_that_is_hard_to_describe_ends_no_process(
    children: Children, how: str, kind: str, message: str
) -> None:
    process = call(children, "pid")
    with pytest.raises(FailedThere) as caught:
        call(children, "fail_oddly", how)
    assert type(caught.value).__name__ == kind
    assert str(caught.value) == message
    assert "fail_oddly" in caught.value.__notes__[0]
    assert call(children, "pid") == process


@pytest.mark.parametrize(
    ("function", "argument", "text"),
    [("miss", "kg", "UnpricedError: 'kg'"), ("leave", 3, "SystemExit: 3")],
)
def test_an_error_that_says_only_a_value_is_told_as_if_it_were_raised_here(
    children: Children, function: str, argument: Any, text: str
) -> None:
    with pytest.raises(FailedThere) as caught:
        call(children, function, argument)
    assert text_of(caught.value) == text


def test_work_that_wants_to_exit_fails_and_its_process_lives(children: Children) -> None:
    process = call(children, "pid")
    with pytest.raises(FailedThere) as caught:
        call(children, "leave", 3)
    assert type(caught.value).__name__ == "SystemExit"
    assert call(children, "pid") == process


@pytest.mark.parametrize(
    ("function", "argument", "how"),
    [("die", int(signal.SIGSEGV), "SIGSEGV"), ("vanish", 7, "code 7")],
)
def test_a_process_that_dies_says_how_and_is_replaced(
    children: Children, function: str, argument: int, how: str
) -> None:
    with pytest.raises(ProcessDied, match=how):
        call(children, function, argument)
    assert call(children, "pid") in children.pids


@pytest.mark.parametrize(
    ("label", "who"), [("shop.Pay", "the process that did shop.Pay"), ("", "the process")]
)
def test_a_process_that_dies_names_the_work_and_no_function_of_ours(
    children: Children, label: str, who: str
) -> None:
    with pytest.raises(ProcessDied) as caught:
        children.call("tests.work.targets:vanish", 7, ignore, ignore, label)
    assert str(caught.value) == (
        f"{who} exited with code 7 before it was done; what it printed, if anything, says more"
    )


def test_a_process_that_dies_is_noticed_and_what_it_has_forked_dies_with_it(
    children: Children,
) -> None:
    """That has the pipe open, so nobody hears of the end by it. What was said is heard."""
    pids: list[int] = []

    def listen(_kind: str, value: list[int]) -> None:
        pids.extend(value)

    with pytest.raises(ProcessDied, match="code 7"):
        children.call("tests.work.targets:vanish_from", 7, listen, ignore)
    [fork] = pids
    eventually(lambda: not is_alive(fork))


def test_a_process_that_is_out_of_reach_is_waited_for(
    children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_pid: int, _signal: int) -> None:
        raise PermissionError("it is that of another user now")

    monkeypatch.setattr(os, "killpg", refuse)
    with pytest.raises(ProcessDied, match="code 7"):
        call(children, "vanish", 7)


def test_a_result_that_is_no_json_is_an_error(children: Children) -> None:
    with pytest.raises(FailedThere, match="unsupported"):
        call(children, "not_json")
    assert call(children, "echo", []) == {"echoed": []}


def test_an_argument_that_is_no_json_is_an_error(children: Children) -> None:
    with pytest.raises(TypeError):
        call(children, "echo", object())
    assert call(children, "echo", []) == {"echoed": []}


def test_one_that_died_while_it_was_idle_is_replaced(children: Children) -> None:
    first = call(children, "pid")
    os.kill(first, signal.SIGKILL)
    eventually(lambda: not is_alive(first))
    assert call(children, "pid") != first


def test_one_that_dies_as_it_is_given_work_is_replaced_and_the_work_does_not_fail(
    children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = call(children, "pid")
    os.kill(first, signal.SIGKILL)
    eventually(lambda: not is_alive(first))
    # As it looks to who asks a moment too early.
    monkeypatch.setattr(Child, "is_alive", lambda _self: True)
    assert call(children, "pid") != first


def test_what_work_prints_goes_to_standard_error(
    children: Children, capfd: pytest.CaptureFixture[str]
) -> None:
    call(children, "print_line", "hello")
    out, err = capfd.readouterr()
    assert out == ""
    assert err == "hello\nhello, bare\n"


def test_who_is_killed_takes_along_all_that_it_started(children: Children) -> None:
    pids: list[int] = []
    kills: list[Any] = []

    def listen(_kind: str, value: Any) -> None:
        pids.extend(value)
        assert all(map(is_alive, pids))
        kills[0]()

    with pytest.raises(ProcessDied, match="SIGKILL"):
        children.call("tests.work.targets:hang", None, listen, kills.append)
    eventually(lambda: not any(map(is_alive, pids)))
    assert len(pids) == 2


def test_killing_only_the_process_would_leave_what_it_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The mistake that the test above looks for."""
    monkeypatch.setattr(os, "killpg", os.kill)
    pids: list[int] = []
    with closing(Child()) as child:

        def listen(_kind: str, value: Any) -> None:
            pids.extend(value)
            child.kill()

        with pytest.raises(ProcessDied):
            child.call("tests.work.targets:hang", None, listen)
    assert is_alive(pids[1])
    os.kill(pids[1], signal.SIGKILL)


def test_idle_ones_beyond_the_bound_are_ended() -> None:
    with closing(Children(warm=0)) as children:
        first = call(children, "pid")
        assert not is_alive(first)
        assert children.pids == []


def test_all_are_ended_at_the_close() -> None:
    children = Children()
    first = call(children, "pid")
    children.close()
    assert not is_alive(first)


_PARENT = """
import sys
from afl.work.isolation import Child
def listen(kind, value):
    print(*value, flush=True)
Child().call(f"tests.work.targets:{sys.argv[1]}", sys.argv[2], listen)
"""


@contextmanager
def parent_of(work: str, argument: str = "") -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A process with one at work, and what that says; in the end, none of them is left."""
    command = [sys.executable, "-c", _PARENT, work, argument]
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(each) for each in parent.stdout.readline().split()]
        try:
            yield parent, pids
        finally:
            parent.kill()
            for each in filter(is_alive, pids):
                os.kill(each, signal.SIGKILL)


def test_they_end_when_the_parent_dies_even_in_the_middle_of_work() -> None:
    with parent_of("hang") as (parent, pids):
        assert all(map(is_alive, pids))
        parent.kill()
        eventually(lambda: not any(map(is_alive, pids)))


def test_work_that_lets_no_thread_run_ends_with_the_parent(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    with parent_of("hang_hard", str(file)) as (parent, pids):
        eventually(file.exists)
        pids.append(int(file.read_text()))
        assert all(map(is_alive, pids))
        parent.kill()
        eventually(lambda: not any(map(is_alive, pids)))


def test_a_parent_that_dies_before_it_is_watched_is_noticed() -> None:
    theirs, requests = os.pipe()
    answers, their_answers = os.pipe()
    their_line, line = os.pipe()
    os.close(line)
    given = (theirs, their_answers, their_line)
    command = [sys.executable, "-m", "afl.work.isolation_child", *map(str, given)]
    with subprocess.Popen(command, pass_fds=given, start_new_session=True) as child:
        try:
            # The pipe of requests is open: it is not that which tells.
            assert child.wait(PATIENCE_S) == -signal.SIGKILL
        finally:
            child.kill()
    for each in (*given, requests, answers):
        os.close(each)


def open_files() -> set[str]:
    return {each.name for each in Path("/proc/self/fd").iterdir()}


def test_a_process_that_cannot_be_started_leaves_nothing_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    before = open_files()
    with pytest.raises(FileNotFoundError):
        Child()
    assert open_files() == before


def test_a_process_that_is_closed_leaves_nothing_open() -> None:
    before = open_files()
    with closing(Child()):
        assert open_files() != before
    assert open_files() == before
