"""Nomad: a job with one group of tasks in Docker."""

from __future__ import annotations

from afl.operations.deploying.options import DeployOptions
from afl.operations.deploying.running import (
    Rendered,
    arguments,
    common_values,
    environment,
    secrets,
)
from afl.operations.deploying.templates import Value, filled, words
from afl.operations.deploying.times import Times, times_of

#: Beyond the start: the checks must have passed for a while.
_HEALTHY_S = 30
_ALL_INTERFACES = "0.0.0.0"  # noqa: S104 - requests come from other machines


def render(options: DeployOptions) -> Rendered:
    times = times_of(options, has_hook=True)
    values = common_values(options, times) | _own_values(options, times)
    return Rendered({"nomad.hcl": filled("nomad.hcl", values)}, times)


def _own_values(options: DeployOptions, times: Times) -> dict[str, Value]:
    ports = {"http": options.port} if options.is_serving else {}
    ports["health"] = options.health_port
    return {
        "healthy_s": times.startup_s + _HEALTHY_S,
        "ports": [f'port "{name}" {{ to = {number} }}' for name, number in ports.items()],
        "port_names": words(list(ports)),
        "service_port": next(iter(ports)),
        "command": words(arguments(options, times, host=_ALL_INTERFACES)),
        "env": [f'{name} = "{value}"' for name, value in environment(options, times).items()],
        "secret_lines": [f"{each}={{{{ .{each} | toJSON }}}}" for each in secrets(options)],
        "shutdown_delay": _shutdown_delay(times),
    }


def _shutdown_delay(times: Times) -> list[str]:
    if not times.pre_stop_s:
        return []
    return [
        "# After the service is withdrawn, before SIGTERM: requests still find it ready.",
        f'shutdown_delay = "{times.pre_stop_s}s"',
    ]
