"""What is rendered for Kubernetes is valid, and its numbers fit together."""

from __future__ import annotations

from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
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

from afl.operations.deploying import DeployOptions, render
from afl.operations.deploying.options import Program

VERSION = kubernetes_validate.latest_version()


def documents(options: DeployOptions) -> dict[str, Any]:
    text = render("kubernetes", options).files["kubernetes.yaml"]
    return {each["kind"]: each for each in read_yaml(text)}


def pod(found: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = found["Deployment"]["spec"]["template"]["spec"]
    return spec


def container(found: dict[str, Any]) -> dict[str, Any]:
    (only,) = pod(found)["containers"]
    assert isinstance(only, dict)
    return only


def is_valid(document: dict[str, Any]) -> bool:
    try:
        kubernetes_validate.validate(document, VERSION, strict=True)
    except kubernetes_validate.ValidationError:
        return False
    return True


@given(options=any_options())
@search(10)
def test_every_document_is_valid_and_the_grace_is_enough(options: DeployOptions) -> None:
    found = documents(options)
    assert all(is_valid(each) for each in found.values())
    only = container(found)
    environ = {each["name"]: each["value"] for each in only["env"]}
    pre_stop = only.get("lifecycle", {"preStop": {"sleep": {"seconds": 0}}})["preStop"]["sleep"]
    grace = pod(found)["terminationGracePeriodSeconds"]
    require_grace(grace, only["command"], environ, pre_stop["seconds"])
    assert only["command"][0] == "afl"
    require_command(only["command"][1:], options)


@given(options=any_options())
@search(10)
def test_probes_ask_for_the_three_phases_at_the_port_that_answers(options: DeployOptions) -> None:
    only = container(documents(options))
    ports = {each["name"]: each["containerPort"] for each in only["ports"]}
    assert ports["health"] == options.health_port
    probes = {name: only[f"{name}Probe"] for name in ("startup", "readiness", "liveness")}
    paths = {name: each["httpGet"]["path"] for name, each in probes.items()}
    assert paths == {
        "startup": "/health/startup",
        "readiness": "/health/ready",
        "liveness": "/health/live",
    }
    assert {each["httpGet"]["port"] for each in probes.values()} == {"health"}
    startup = probes["startup"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= options.startup
    # Out of service within one interval.
    assert probes["readiness"]["failureThreshold"] == 1
    deadline = documents(options)["Deployment"]["spec"]["progressDeadlineSeconds"]
    assert deadline > startup["periodSeconds"] * startup["failureThreshold"]


def test_a_validator_that_would_take_anything_is_noticed() -> None:
    found = documents(example())
    pod(found)["terminationGracePeriod"] = 5
    assert not is_valid(found["Deployment"])


def test_a_service_is_found_by_its_labels_and_disrupted_one_by_one() -> None:
    found = documents(example(name="support"))
    labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert labels == {"app.kubernetes.io/name": "support"}
    assert found["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert found["Service"]["spec"]["selector"] == labels
    assert found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert found["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1
    assert found["Deployment"]["spec"]["replicas"] == 2
    assert found["Service"]["spec"]["ports"][0]["targetPort"] == "http"
    assert container(found)["image"] == IMAGE


def test_nobody_sends_requests_to_a_worker() -> None:
    found = documents(example(program=Program.WORKER))
    assert set(found) == {"Deployment", "PodDisruptionBudget"}
    assert [each["name"] for each in container(found)["ports"]] == ["health"]
    assert "lifecycle" not in container(found)


def test_a_container_may_do_little() -> None:
    found = documents(example())
    assert pod(found)["securityContext"]["runAsNonRoot"] is True
    assert pod(found)["automountServiceAccountToken"] is False
    rights = container(found)["securityContext"]
    assert rights["readOnlyRootFilesystem"] is True
    assert rights["allowPrivilegeEscalation"] is False
    assert rights["capabilities"] == {"drop": ["ALL"]}
    assert container(found)["resources"]["limits"]["memory"] == "512Mi"
    # Secrets are named, not shown.
    assert container(found)["envFrom"] == [{"secretRef": {"name": "agents"}}]
