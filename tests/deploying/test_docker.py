"""What is rendered for Docker: no shell hears signals, and the numbers fit together."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from hypothesis import given
from tests.deploying.deployments import (
    IMAGE,
    any_options,
    example,
    read_yaml,
    require_command,
    require_grace,
    search,
)

from afl.backoff import parse_duration
from afl.operations.deploying import DeployOptions, render
from afl.operations.deploying.options import Program


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile, each with what follows."""
    lines = [each for each in text.splitlines() if each and not each.startswith("#")]
    assert not any(each.endswith("\\") for each in lines), "this reader knows no longer lines"
    return [(name, rest) for name, _, rest in (each.partition(" ") for each in lines)]


def exec_form(rest: str) -> list[str]:
    """The words of an instruction in the exec form. Raises ValueError for the shell form."""
    words = json.loads(rest)
    if not isinstance(words, list) or not all(isinstance(each, str) for each in words):
        raise ValueError(rest)
    return words


def dockerfile(options: DeployOptions) -> dict[str, str]:
    """Of several of a kind, the last one, as Docker has it."""
    return dict(instructions(render("docker", options).files["Dockerfile"]))


def compose(options: DeployOptions) -> dict[str, Any]:
    (found,) = read_yaml(render("docker", options).files["compose.yaml"])
    assert list(found["services"]) == [options.name]
    service: dict[str, Any] = found["services"][options.name]
    return service


@given(options=any_options(pre_stop=None))
@search(30)
def test_a_container_gets_its_time(options: DeployOptions) -> None:
    service = compose(options)
    arguments = exec_form(dockerfile(options)["CMD"])
    require_command(arguments, options)
    grace = parse_duration(service["stop_grace_period"])
    require_grace(grace, arguments, service["environment"])


def test_no_shell_stands_between_docker_and_afl() -> None:
    found = dockerfile(example())
    assert exec_form(found["ENTRYPOINT"]) == ["afl"]
    assert exec_form(found["CMD"])[0] == "serve"
    assert found["STOPSIGNAL"] == "SIGTERM"
    options, _, command = found["HEALTHCHECK"].partition("CMD ")
    assert exec_form(command)[:2] == ["python", "-c"]
    assert "--start-period=300s" in options.split()
    assert compose(example())["init"] is True


def test_the_shell_form_would_be_noticed() -> None:
    with pytest.raises(ValueError, match="Expecting value"):
        exec_form("afl serve support:app")


def test_an_image_runs_as_nobody_in_particular_and_holds_no_secrets() -> None:
    files = render("docker", example()).files
    found = instructions(files["Dockerfile"])
    names = [name for name, _ in found]
    assert dict(found)["USER"] == "10001:10001"
    # Nothing is installed or copied by then that it could change.
    assert names.index("USER") > max(names.index("COPY"), names.index("RUN"))
    assert "ARG" not in names
    assert "AFL_" not in dict(found)["ENV"]
    assert "*.env" in files[".dockerignore"].splitlines()
    assert compose(example())["env_file"] == "agents.env"
    assert compose(example())["read_only"] is True


def test_ports_are_those_that_were_asked_for() -> None:
    options = example(port=9000, health_port=9001)
    assert dockerfile(options)["EXPOSE"].split() == ["9000", "9001"]
    assert compose(options)["ports"] == ["127.0.0.1:9000:9000", "127.0.0.1:9001:9001"]
    worker = example(program=Program.WORKER)
    assert dockerfile(worker)["EXPOSE"].split() == ["8080"]
    assert shlex.join(exec_form(dockerfile(worker)["CMD"])) == (
        "worker --drain-deadline 1m30s --health-port 8080 --handlers support:app"
    )


def test_an_image_that_was_named_is_what_is_built() -> None:
    assert compose(example())["image"] == IMAGE
    assert "image" not in compose(example(image=""))
