"""What is rendered for systemd is a unit that it takes, and its numbers fit together."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from configparser import RawConfigParser
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from tests.deploying.deployments import (
    any_options,
    example,
    require_command,
    require_grace,
    search,
)

from afl.operations.deploying import DeployOptions, render
from afl.operations.deploying.options import Program

SYSTEMD = shutil.which("systemd-analyze")


def service(options: DeployOptions) -> dict[str, list[str]]:
    """The keys of its section, each with all its values."""
    (text,) = render("systemd", options).files.values()
    found: dict[str, list[str]] = {}
    section = text.partition("[Service]\n")[2].partition("\n[")[0]
    for line in section.splitlines():
        if line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


@given(options=any_options(pre_stop=None))
@search(40)
def test_a_service_gets_its_time(options: DeployOptions) -> None:
    found = service(options)
    (command,) = found["ExecStart"]
    program, *arguments = shlex.split(command)
    environ = dict(each.split("=", 1) for each in found["Environment"])
    require_grace(int(found["TimeoutStopSec"][0]), arguments, environ)
    require_command(arguments, options)
    assert program == f"/srv/{options.name}/.venv/bin/afl"
    assert int(found["TimeoutStartSec"][0]) >= options.startup


def test_systemd_takes_it(tmp_path: Path) -> None:
    program = tmp_path / ".venv" / "bin" / "afl"
    program.parent.mkdir(parents=True)
    program.symlink_to("/bin/true")
    for options in (example(), example(program=Program.WORKER, name="worker")):
        rendered = render("systemd", replace(options, directory=str(tmp_path)))
        for name, text in rendered.files.items():
            (tmp_path / name).write_text(text, encoding="utf-8")
            RawConfigParser(strict=False).read_string(text)
    if SYSTEMD is not None:
        units = [tmp_path / "agents.service", tmp_path / "worker.service"]
        assert verified(SYSTEMD, *units) == (0, "")
        wrong = (tmp_path / "agents.service").read_text(encoding="utf-8")
        units[0].write_text(wrong.replace("TimeoutStopSec", "TimeoutStop"), encoding="utf-8")
        assert "TimeoutStop" in verified(SYSTEMD, units[0])[1]


def verified(systemd: str, *units: Path) -> tuple[int, str]:
    line = [systemd, "verify", "--man=no", "--recursive-errors=yes", *map(str, units)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, done.stderr


def test_it_tells_systemd_how_it_is_and_is_killed_as_a_whole() -> None:
    found = service(example())
    assert found["Type"] == ["notify"]
    assert found["KillMode"] == ["mixed"]
    assert int(found["WatchdogSec"][0]) > 0
    # A setting that cannot be used does not get better by trying again.
    assert found["RestartPreventExitStatus"] == ["2"]


def test_its_data_is_where_it_may_write() -> None:
    found = service(example(name="support"))
    assert found["StateDirectory"] == ["support"]
    assert "AFL_STORE_URL=sqlite:////var/lib/support/afl.db" in found["Environment"]
    assert found["DynamicUser"] == ["yes"]
    assert found["ProtectSystem"] == ["strict"]
    assert found["NoNewPrivileges"] == ["yes"]
