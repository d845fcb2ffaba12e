"""Docker: an image whose first process hears signals, and a file to run it with Compose."""

from __future__ import annotations

from afl.operations.deploying.options import DeployOptions
from afl.operations.deploying.running import (
    Rendered,
    arguments,
    common_values,
    environment,
    health_check,
)
from afl.operations.deploying.templates import Value, filled, words
from afl.operations.deploying.times import Times, times_of

_ALL_INTERFACES = "0.0.0.0"  # noqa: S104 - requests come from outside of the container


def render(options: DeployOptions) -> Rendered:
    times = times_of(options, has_hook=False)
    values = common_values(options, times) | _own_values(options, times)
    files = {
        "Dockerfile": filled("Dockerfile", values),
        ".dockerignore": filled("dockerignore", values),
        "compose.yaml": filled("compose.yaml", values),
    }
    return Rendered(files, times)


def _own_values(options: DeployOptions, times: Times) -> dict[str, Value]:
    ports = [options.port] if options.is_serving else []
    ports += [options.health_port]
    return {
        "command": words(arguments(options, times, host=_ALL_INTERFACES)),
        "health_check": words(health_check(options)),
        "exposed": " ".join(map(str, ports)),
        "image_line": [f'image: "{options.image}"'] if options.image else [],
        "env": [f'{name}: "{value}"' for name, value in environment(options, times).items()],
        # Seen from this machine alone; a proxy in front of it says who else may.
        "ports": [f'- "127.0.0.1:{each}:{each}"' for each in ports],
    }
