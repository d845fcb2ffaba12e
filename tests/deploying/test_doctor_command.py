"""`afl doctor` as people use it: also with an app, and with parents, that do anything."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.conftest import Command
from tests.acceptance.in_process import afl

from afl.operations.doctor import gathering

SOUND = {"AFL_LIFECYCLE_DRAIN_DEADLINE": "90s", "AFL_LIFECYCLE_TERMINATION_GRACE": "2m"}


# In this process, on a machine whose first process is no shell


@pytest.fixture
def machine(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is wrong with it, whatever the tests run in."""
    proc: Path = tmp_path_factory.mktemp("proc")
    (proc / "1").mkdir()
    (proc / "1" / "cmdline").write_bytes(b"/sbin/init\0")
    monkeypatch.setattr(gathering, "PROC", proc)
    for name, value in SOUND.items():
        monkeypatch.setenv(name, value)


def findings(*args: str) -> tuple[int, dict[str, Any]]:
    done = afl("doctor", "--json", *args)
    assert done.out, done.err
    return done.code, {each["check"]: each for each in json.loads(done.out)}


@pytest.mark.usefixtures("machine")
def test_a_sound_place_is_left_with_0_and_as_it_was(tmp_path: Path) -> None:
    code, found = findings()
    assert (code, {each["result"] for each in found.values()}) == (0, {"ok"})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("machine")
def test_people_get_a_table_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFL_LIFECYCLE_TERMINATION_GRACE", "30s")
    done = afl("doctor")
    assert done.code == 1
    lines = done.out.splitlines()
    assert lines[0].split() == ["check", "result", "found,", "and", "what", "to", "do"]
    (row,) = [n for n, each in enumerate(lines) if each.startswith("grace ")]
    assert "must be longer than 100 s" in lines[row]
    assert lines[row + 1].strip() == "→ grant more, or drain for less: see afl deploy"


@pytest.mark.usefixtures("machine")
def test_a_warning_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFL_SCRIPTS_ENABLED", "true")
    code, found = findings()
    assert (code, found["scripts"]["result"]) == (0, "warn")


@pytest.mark.usefixtures("machine")
def test_an_app_that_is_not_there_fails() -> None:
    code, found = findings("nowhere:app")
    assert (code, found["app"]["result"]) == (1, "fail")


def test_a_setting_that_cannot_be_used_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFL_LIFECYCLE_DRAIN_DEADLINE", "soon")
    done = afl("doctor")
    assert done.code == 2
    assert "lifecycle.drain_deadline" in done.err


# In processes of their own


def finding(done: subprocess.CompletedProcess[bytes], check: str) -> dict[str, Any]:
    (found,) = [each for each in json.loads(done.stdout) if each["check"] == check]
    assert isinstance(found, dict)
    return found


def run(command: Command, line: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
    environ = command.environ(SOUND)
    return subprocess.run(
        line, cwd=command.folder, env=environ, capture_output=True, timeout=50, **options
    )


APP = "import afl\napp = afl.App()\n"
GREEDY = """
import signal

def mine(signum, frame):
    pass

signal.signal(signal.SIGTERM, mine)
"""


def test_an_app_that_takes_sigterm_is_named_with_its_line(command: Command) -> None:
    command.write("greedy.py", GREEDY)
    command.write("support.py", f"import greedy\n{APP}")
    done = run(command, command.line("doctor", "--json", "support:app"))
    assert finding(done, "app")["result"] == "ok"
    found = finding(done, "SIGTERM")
    assert found["result"] == "warn"
    assert "greedy.mine" in found["found"]
    assert "greedy.py:4" in found["found"]


def test_a_signal_that_is_blocked_where_afl_is_started_fails(command: Command) -> None:
    def block() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    done = run(command, command.line("doctor", "--json"), preexec_fn=block)
    assert (done.returncode, finding(done, "SIGTERM")["result"]) == (1, "fail")


def test_a_shell_above_it_is_noticed(command: Command) -> None:
    # One that has more to do stays, and keeps SIGTERM to itself.
    line = " ".join(command.line("doctor", "--json"))
    found = finding(run(command, ["sh", "-c", f"{line}; exit $?"]), "first process")
    # Where the first process is a shell, too, that is worse.
    assert found["result"] in ("warn", "fail")
    assert "shell: " in found["found"]
