"""What is rendered for Nomad can be read, and its numbers fit together.

There is no validator of Nomad's that works without Nomad: only the syntax is checked.
"""

from __future__ import annotations

from typing import Any

import hcl2
from hypothesis import given
from tests.deploying.deployments import (
    any_options,
    example,
    require_command,
    require_grace,
    search,
)

from afl.backoff import parse_duration
from afl.operations.deploying import DeployOptions, render
from afl.operations.deploying.options import Program


def plain(value: Any) -> Any:
    """What the reader found, without its marks: texts unquoted, blocks of one as that block."""
    if isinstance(value, dict):
        return {plain(key): plain(each) for key, each in value.items() if key[:2] != "__"}
    if isinstance(value, list):
        inner = [plain(each) for each in value]
        is_block = len(value) == 1 and isinstance(value[0], dict)
        return inner[0] if is_block else inner
    return value.strip('"') if isinstance(value, str) else value


def group(options: DeployOptions) -> dict[str, Any]:
    job = plain(hcl2.loads(render("nomad", options).files["nomad.hcl"]))["job"][options.name]
    found: dict[str, Any] = job["group"][options.name]
    return found


@given(options=any_options())
@search(8)
def test_a_task_gets_its_time(options: DeployOptions) -> None:
    found = group(options)
    task = found["task"][options.name]
    pre_stop = parse_duration(task.get("shutdown_delay", "0s"))
    # The delay comes before the time to kill; the process is told of both together.
    grace = pre_stop + parse_duration(task["kill_timeout"])
    require_grace(grace, task["config"]["args"], task["env"], pre_stop)
    require_command(task["config"]["args"], options)
    assert task["kill_signal"] == "SIGTERM"
    assert task["config"]["entrypoint"] == ["afl"]
    update = {name: found["update"][name] for name in ("healthy_deadline", "progress_deadline")}
    healthy, progress = map(parse_duration, update.values())
    assert options.startup < healthy < progress


def test_only_the_question_whether_it_lives_may_restart_a_task() -> None:
    ready, live = (each["check"] for each in group(example())["service"])
    assert (ready["path"], live["path"]) == ("/health/ready", "/health/live")
    assert "check_restart" not in ready
    assert live["check_restart"]["limit"] == 3


def test_a_worker_takes_no_requests() -> None:
    found = group(example(program=Program.WORKER))
    assert found["network"] == {"port": {"health": {"to": 8080}}}
    assert found["service"][0]["port"] == "health"


def test_a_task_may_do_little() -> None:
    task = group(example())["task"]["agents"]
    assert task["user"] == "10001"
    assert task["config"]["readonly_rootfs"] is True
    assert task["config"]["cap_drop"] == ["all"]
