"""What is run in a deployment, and what it is told: the same on all platforms."""

from __future__ import annotations

from dataclasses import dataclass

from afl.backoff import format_duration
from afl.operations.deploying.options import DeployOptions
from afl.operations.deploying.templates import Value
from afl.operations.deploying.times import (
    LIVE_FAILURES,
    LIVE_PERIOD_S,
    READY_PERIOD_S,
    STARTUP_PERIOD_S,
    WATCHDOG_S,
    Times,
)
from afl.runtime.timings import GRACE_BUFFER_S

#: Of the user that the Dockerfile makes; no number of a person.
USER_ID = 10_001


@dataclass(frozen=True, slots=True)
class Rendered:
    """The files of a deployment by name, and the times that are in them."""

    files: dict[str, str]
    times: Times


def arguments(options: DeployOptions, times: Times, *, host: str = "") -> list[str]:
    """What `afl` is called with. `host` is where requests are taken; "" is as afl has it."""
    common = ["--drain-deadline", format_duration(times.drain_s)]
    common += ["--health-port", str(options.health_port)]
    if not options.is_serving:
        return ["worker", *common, *(["--handlers", options.app] if options.app else [])]
    place = ["--host", host] if host else []
    return ["serve", options.app, *common, *place, "--port", str(options.port)]


def environment(options: DeployOptions, times: Times) -> dict[str, str]:
    """The times that the process compares with its own: it says at the start what does not fit."""
    seconds: dict[str, float] = {"TERMINATION_GRACE": times.grace_s, "SETTLE": times.settle_s}
    if times.pre_stop_s:
        seconds["PRE_STOP"] = times.pre_stop_s
    if options.max_processing is not None:
        seconds["MAX_PROCESSING"] = options.max_processing
    return {f"AFL_LIFECYCLE_{name}": format_duration(each) for name, each in seconds.items()}


def secrets(options: DeployOptions) -> list[str]:
    """The variables that a deployment cannot do without, and that belong in no file."""
    return ["AFL_STORE_URL", *(["AFL_SERVE_TOKENS"] if options.is_serving else [])]


def health_check(options: DeployOptions) -> list[str]:
    """Asks whether it lives, with nothing but what every image of it has."""
    url = f"http://127.0.0.1:{options.health_port}/health/live"
    return ["python", "-c", f"import urllib.request as u; u.urlopen('{url}', timeout=4)"]


def common_values(options: DeployOptions, times: Times) -> dict[str, Value]:
    """What most templates name."""
    return {
        "name": options.name,
        "image": options.image,
        "port": options.port,
        "health_port": options.health_port,
        "replicas": options.replicas,
        "user_id": USER_ID,
        "secrets": ", ".join(secrets(options)),
        "grace_budget": f"pre-stop {times.pre_stop_s} s, {_budget(times)}",
        "stop_budget": _budget(times),
        "grace_s": times.grace_s,
        "stop_timeout_s": times.stop_timeout_s,
        "pre_stop_s": times.pre_stop_s,
        "startup_s": times.startup_s,
        "startup_period_s": STARTUP_PERIOD_S,
        "startup_failures": times.startup_failures,
        "rollout_s": times.rollout_s,
        "ready_period_s": READY_PERIOD_S,
        "live_period_s": LIVE_PERIOD_S,
        "live_failures": LIVE_FAILURES,
        "watchdog_s": WATCHDOG_S,
    }


def _budget(times: Times) -> str:
    """Where the seconds from SIGTERM to SIGKILL go, for who reads the file."""
    return f"settle {times.settle_s:g} s, drain {times.drain_s:g} s, {GRACE_BUFFER_S:g} s to spare"
