"""`afl deploy` as people use it, and what it renders as a process that lives by it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.acceptance.conftest import Command
from tests.acceptance.in_process import afl, afl_json
from tests.deploying.deployments import example

from afl.cli.app import app
from afl.operations.deploying import render
from afl.operations.deploying.options import Program
from afl.testing.servers import free_port

SERVE = ("--app", "support:app", "--image", "registry.example.org/support:1")


# Output


def test_a_single_file_goes_to_stdout_as_it_is() -> None:
    done = afl("deploy", "kubernetes", "--drain-deadline", "90", *SERVE)
    assert (done.code, done.err) == (0, "")
    assert (
        done.out
        == render("kubernetes", example(image="registry.example.org/support:1")).files[
            "kubernetes.yaml"
        ]
    )


def test_several_files_are_shown_with_their_names() -> None:
    done = afl("deploy", "docker", "--drain-deadline", "90", "--app", "support:app")
    assert done.code == 0
    assert [each for each in done.out.splitlines() if each in ("# Dockerfile", "# compose.yaml")]
    assert done.out.startswith("# Dockerfile\n")


def test_files_are_written_into_a_folder(tmp_path: Path) -> None:
    line = ("deploy", "docker", "--app", "support:app", "--output", "deploy")
    done = afl(*line, "--drain-deadline", "90s")
    assert (done.code, done.out) == (0, "")
    written = sorted(each.name for each in (tmp_path / "deploy").iterdir())
    assert written == [".dockerignore", "Dockerfile", "compose.yaml"]
    assert afl(*line, "--drain-deadline", "90s").code == 0, "the same again changes nothing"


def test_a_file_that_somebody_changed_is_replaced_only_by_force(tmp_path: Path) -> None:
    line = ("deploy", "systemd", "--app", "support:app", "--output", ".")
    assert afl(*line, "--drain-deadline", "90s").code == 0
    unit = tmp_path / "agents.service"
    before = unit.read_text(encoding="utf-8")
    refused = afl(*line, "--drain-deadline", "2m")
    assert refused.code == 2
    assert "agents.service: something else is there; --force replaces it" in refused.err
    assert unit.read_text(encoding="utf-8") == before
    assert afl(*line, "--drain-deadline", "2m", "--force").code == 0
    assert "--drain-deadline 2m " in unit.read_text(encoding="utf-8")


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "deploy").write_text("a file", encoding="utf-8")
    done = afl("deploy", "systemd", "--drain-deadline", "90s", *SERVE, "--output", "deploy")
    assert done.code == 2
    assert "cannot be written" in done.err


def test_programs_get_the_times_and_the_texts() -> None:
    found = afl_json("deploy", "ecs", "--drain-deadline", "1m30s", *SERVE)
    assert found["platform"] == "ecs"
    assert found["times"]["drain_s"] == 90
    assert found["times"]["stop_timeout_s"] == 106
    assert found["warnings"] == []
    assert list(found["files"]) == ["ecs.yaml"]


# Settings


def test_without_a_drain_deadline_sensible_ones_are_named() -> None:
    done = afl("deploy", "systemd", *SERVE)
    assert done.code == 2
    assert "lifecycle.drain_deadline: 60s to 120s for chat" in done.err


def test_times_may_come_from_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = '[lifecycle]\ndrain_deadline = "2m"\nsettle = "7s"\nhealth_port = 9100\n'
    (tmp_path / "afl.toml").write_text(settings, encoding="utf-8")
    monkeypatch.setenv("AFL_SERVE_PORT", "9000")
    found = afl_json("deploy", "systemd", *SERVE)
    assert (found["times"]["drain_s"], found["times"]["settle_s"]) == (120, 7)
    unit = found["files"]["agents.service"]
    assert "--drain-deadline 2m --health-port 9100 --port 9000\n" in unit


def test_what_does_not_fit_is_refused_and_what_may_not_be_meant_is_said() -> None:
    refused = afl("deploy", "ecs", "--drain-deadline", "5m", *SERVE)
    assert (refused.code, refused.out) == (2, "")
    assert "the longest that fits is --drain-deadline 104s" in refused.err
    said = afl("deploy", "systemd", "--drain-deadline", "1m", "--max-processing", "10m", *SERVE)
    assert said.code == 0
    assert "warning: work of 600 s does not end in a drain of 60 s" in said.err


# What is rendered


@pytest.mark.parametrize("program", Program)
@pytest.mark.parametrize("platform", ["docker", "ecs"])
def test_afl_takes_the_arguments_that_it_is_deployed_with(platform: str, program: Program) -> None:
    arguments = _arguments(platform, program)
    command: Any = typer.main.get_command(app)
    inner = command.commands[arguments[0]]
    with inner.make_context(arguments[0], arguments[1:]) as context:
        assert context.params["drain_deadline"] == "1m30s"
        assert context.params["health_port"] == 8080


def _arguments(platform: str, program: Program) -> list[str]:
    (text, *_) = render(platform, example(program=program)).files.values()
    start = {"docker": "CMD ", "ecs": "Command: "}[platform]
    line = next(each.strip() for each in text.splitlines() if each.strip().startswith(start))
    found = json.loads(line.removeprefix(start))
    assert isinstance(found, list)
    return found


def test_a_worker_lives_by_what_was_rendered(command: Command) -> None:
    """Its health check passes, nothing contradicts itself, and SIGTERM ends it with 0."""
    options = example(program=Program.WORKER, app="", health_port=free_port(), drain_deadline=20)
    unit = render("systemd", options).files["agents.service"]
    lines = unit.splitlines()
    (start,) = [each for each in lines if each.startswith("ExecStart=")]
    environ = dict(
        each.removeprefix("Environment=").split("=", 1)
        for each in lines
        if each.startswith("Environment=")
    )
    environ |= {"AFL_STORE_URL": "sqlite:///afl.db", "AFL_LOG_FORMAT": "json"}
    with subprocess.Popen(
        command.line(*start.split()[1:]),
        cwd=command.folder,
        env=command.environ(environ),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            before = _read_until(process, '"phase": "ready"')
            assert "timings_contradict" not in before
            assert _check_health(options.health_port) == 0
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()
    assert _check_health(options.health_port) != 0


def _read_until(process: subprocess.Popen[str], text: str) -> str:
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if text in line:
            return "".join(lines)
    raise AssertionError(f"{text!r} was never printed:\n{''.join(lines)}")


def _check_health(port: int) -> int:
    """What the health check of the image says."""
    text = render("docker", example(health_port=port)).files["Dockerfile"]
    (line,) = [each for each in text.splitlines() if each.startswith("HEALTHCHECK")]
    _, *arguments = json.loads(line.partition(" CMD ")[2])
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, timeout=30, check=False
    )
    return done.returncode
