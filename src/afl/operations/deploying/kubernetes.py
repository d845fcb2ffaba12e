"""Kubernetes: a Deployment, its budget of disruptions, and a Service if it takes requests."""

from __future__ import annotations

from afl.operations.deploying.options import DeployOptions
from afl.operations.deploying.running import (
    Rendered,
    arguments,
    common_values,
    environment,
)
from afl.operations.deploying.templates import Value, filled, words
from afl.operations.deploying.times import Times, times_of

#: Its addresses are reached from other machines.
_ALL_INTERFACES = "0.0.0.0"  # noqa: S104


def render(options: DeployOptions) -> Rendered:
    times = times_of(options, has_hook=True)
    values = common_values(options, times) | _own_values(options, times)
    parts = ["kubernetes-deployment.yaml", "kubernetes-disruption.yaml"]
    parts += ["kubernetes-service.yaml"] if options.is_serving else []
    return Rendered({"kubernetes.yaml": "".join(filled(each, values) for each in parts)}, times)


def _own_values(options: DeployOptions, times: Times) -> dict[str, Value]:
    env = environment(options, times)
    ports = [f"- {{name: http, containerPort: {options.port}}}"] if options.is_serving else []
    return {
        "command": words(["afl", *arguments(options, times, host=_ALL_INTERFACES)]),
        "env": [f'- {{name: {name}, value: "{value}"}}' for name, value in env.items()],
        "ports": [*ports, f"- {{name: health, containerPort: {options.health_port}}}"],
        "lifecycle": _lifecycle(times),
    }


def _lifecycle(times: Times) -> list[str]:
    if not times.pre_stop_s:
        return []
    return [
        "# Requests that are under way to this instance still find it ready.",
        "lifecycle:",
        f"  preStop: {{sleep: {{seconds: {times.pre_stop_s}}}}}",
    ]
