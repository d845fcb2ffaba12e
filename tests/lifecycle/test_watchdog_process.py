"""The watchdog in processes that it really kills."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

CHILD = Path(__file__).with_name("hung_process.py")


class Death(NamedTuple):
    code: int
    stdout: str
    stderr: str
    log: str


def death_of(scenario: str, folder: Path) -> Death:
    log = folder / "log"
    ended = subprocess.run(
        [sys.executable, str(CHILD), scenario, str(log)],
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    return Death(ended.returncode, ended.stdout, ended.stderr, log.read_text())


def has_last_words(death: Death) -> bool:
    return "afl watchdog: loop payments hangs" in death.stderr and "CRITICAL" in death.log


def test_before_it_is_killed_a_process_says_who_hangs_where(tmp_path: Path) -> None:
    """Hazard: SIGKILL without a word, so that nobody ever learns what hung."""
    death = death_of("hang", tmp_path)
    assert death.code == -signal.SIGKILL
    assert has_last_words(death)
    # Standard error: who, and every thread.
    line = next(each for each in death.stderr.splitlines() if "payments hangs" in each)
    assert "handler __main__.charge_card" in line
    assert "hung_process.py:" in line
    assert line.endswith("in charge_card")
    assert "its threads were:" in death.stderr
    assert death.stderr.count("(most recent call first)") >= 3
    assert re.search(r"^Thread 0x[0-9a-f]{16} is worker$", death.stderr, re.MULTILINE)
    # The logs: flushed, with what was logged before.
    assert death.log.startswith("WARNING before the hang\n")
    assert "watchdog_kills_process" in death.log
    assert "handler='__main__.charge_card'" in death.log
    # The event and the hook.
    assert "event payments __main__.charge_card" in death.stdout
    stages = [each.split()[1] for each in death.stdout.splitlines() if each.startswith("hook")]
    assert stages == ["suspected", "cancelled", "forced", "killed"]


def test_the_mutant_that_kills_without_a_word_is_found(tmp_path: Path) -> None:
    death = death_of("mutant", tmp_path)
    assert death.code == -signal.SIGKILL
    assert not has_last_words(death)


def test_the_first_process_of_a_container_ends_too(tmp_path: Path) -> None:
    """Hazard: the kernel spares process 1 of a container from its own SIGKILL."""
    death = death_of("first_process", tmp_path)
    assert death.code == 128 + signal.SIGKILL
    assert has_last_words(death)


def test_a_process_that_cannot_exit_because_of_a_hung_thread_is_killed(tmp_path: Path) -> None:
    """Hazard: no new thread can be started by then, so nothing may depend on one."""
    death = death_of("exiting", tmp_path)
    assert death.code == -signal.SIGKILL
    assert has_last_words(death)


def test_a_lock_of_the_logs_that_hangs_does_not_save_the_process(tmp_path: Path) -> None:
    death = death_of("log_lock", tmp_path)
    assert death.code == -signal.SIGKILL
    assert "handler __main__.charge_card" in death.stderr


def test_a_full_pipe_does_not_save_the_process(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, str(CHILD), "full_stderr", str(tmp_path / "log")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as child:
        # Its standard error is not read until it is dead.
        assert child.wait(timeout=50) == -signal.SIGKILL
    assert "watchdog_kills_process" in (tmp_path / "log").read_text()
