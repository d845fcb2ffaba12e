"""What is rendered for ECS is a valid template, and its numbers fit together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from tests.deploying.deployments import (
    any_options,
    example,
    read_yaml,
    require_command,
    require_grace,
    search,
)

from afl.operations.deploying import DeployOptions, render
from afl.operations.deploying.ecs import STOP_TIMEOUT_LIMITS_S
from afl.operations.deploying.options import LaunchType, Program


def text_of(options: DeployOptions) -> str:
    return render("ecs", options).files["ecs.yaml"]


def resources(options: DeployOptions) -> dict[str, Any]:
    (template,) = read_yaml(text_of(options))
    return {name: each["Properties"] for name, each in template["Resources"].items()}


def container(found: dict[str, Any]) -> dict[str, Any]:
    (only,) = found["TaskDefinition"]["ContainerDefinitions"]
    assert isinstance(only, dict)
    return only


def lint(folder: Path) -> str:
    """What the linter says, one complaint a line, with the file and its own number."""
    line = [
        sys.executable,
        "-c",
        "from cfnlint.runner import main; main()",
        "--format",
        "parseable",
    ]
    done = subprocess.run(
        [*line, *sorted(each.name for each in folder.iterdir())],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout


# The linter reads much before it begins; beside others on a small machine that takes long.
@pytest.mark.timeout(180)
def test_templates_pass_the_linter_and_a_wrong_one_does_not(tmp_path: Path) -> None:
    worker = example(program=Program.WORKER, launch_type=LaunchType.EC2, drain_deadline=7000)
    templates = {
        "service.yaml": text_of(example()),
        "worker.yaml": text_of(worker),
        "wrong.yaml": text_of(example()).replace("StopTimeout", "StopTime"),
    }
    for name, text in templates.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (complaint,) = lint(tmp_path).splitlines()
    assert complaint.startswith("wrong.yaml:")
    assert "E3002" in complaint


@given(options=any_options(launch_type=LaunchType.FARGATE, drain=60, settle=None, pre_stop=None))
@search(15)
def test_a_task_on_fargate_gets_its_time(options: DeployOptions) -> None:
    require_time(options)


@given(options=any_options(launch_type=LaunchType.EC2, drain=6000, pre_stop=None))
@search(15)
def test_a_task_on_ec2_gets_its_time(options: DeployOptions) -> None:
    require_time(options)


def require_time(options: DeployOptions) -> None:
    found = resources(options)
    only = container(found)
    environ = {each["Name"]: each["Value"] for each in only["Environment"]}
    require_grace(only["StopTimeout"], only["Command"], environ)
    require_command(only["Command"], options)
    assert only["StopTimeout"] <= STOP_TIMEOUT_LIMITS_S[options.launch_type]
    assert only["EntryPoint"] == ["afl"]
    assert only["Essential"] is True
    assert only["HealthCheck"]["Command"][0] == "CMD", "the shell form needs a shell"
    assert only["HealthCheck"]["StartPeriod"] <= 300
    if options.is_serving:
        require_load_balancer(found, options)


def require_load_balancer(found: dict[str, Any], options: DeployOptions) -> None:
    target = found["TargetGroup"]
    assert target["HealthCheckPath"] == "/health/ready"
    assert target["HealthCheckPort"] == str(options.health_port)
    (delay,) = target["TargetGroupAttributes"]
    assert delay["Key"] == "deregistration_delay.timeout_seconds"
    # As long as a drain, as far as load balancers go.
    settle = 5 if options.settle is None else options.settle
    assert min(options.drain_deadline + settle, 3600) <= int(delay["Value"]) <= 3600
    assert found["Service"]["HealthCheckGracePeriodSeconds"] >= options.startup


def test_a_worker_is_behind_no_load_balancer() -> None:
    found = resources(example(program=Program.WORKER))
    assert set(found) == {"Logs", "ExecutionRole", "TaskDefinition", "Service"}
    assert "LoadBalancers" not in found["Service"]


def test_a_task_may_do_little() -> None:
    only = container(resources(example()))
    assert only["ReadonlyRootFilesystem"] is True
    assert only["User"] == "10001:10001"
    # Secrets are named, not shown.
    assert only["Secrets"] == [
        {"Name": "AFL_STORE_URL", "ValueFrom": {"Ref": "StoreUrlSecret"}},
        {"Name": "AFL_SERVE_TOKENS", "ValueFrom": {"Ref": "TokensSecret"}},
    ]
