"""systemd: a unit of a service that tells systemd how it is."""

from __future__ import annotations

from afl.operations.deploying.options import DeployOptions
from afl.operations.deploying.running import Rendered, arguments, common_values, environment
from afl.operations.deploying.templates import Value, filled
from afl.operations.deploying.times import Times, times_of


def render(options: DeployOptions) -> Rendered:
    times = times_of(options, has_hook=False)
    values = common_values(options, times) | _own_values(options, times)
    return Rendered({f"{options.name}.service": filled("systemd.service", values)}, times)


def _own_values(options: DeployOptions, times: Times) -> dict[str, Value]:
    state = f"/var/lib/{options.name}"
    env = {"AFL_STORE_URL": f"sqlite:///{state}/afl.db", **environment(options, times)}
    return {
        "directory": options.directory.rstrip("/") or f"/srv/{options.name}",
        # Requests come from a proxy on this machine, as long as nobody says otherwise.
        "command": " ".join(arguments(options, times)),
        "env": [f"Environment={name}={value}" for name, value in env.items()],
    }
