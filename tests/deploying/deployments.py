"""Deployments for tests: any options, and what the rule about grace says of them."""

from __future__ import annotations

import os
from typing import Any

import yaml  # type: ignore[import-untyped]
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from afl.backoff import parse_duration
from afl.operations.deploying import DeployOptions
from afl.operations.deploying.options import LaunchType, Program
from afl.runtime.timings import GRACE_BUFFER_S

IS_STORM = os.environ.get("AFL_TEST_PROFILE") == "storm"
IMAGE = "registry.example.org/team/support:1.4.0"

_seconds = st.integers(0, 900) | st.floats(0, 900, allow_nan=False)


def search(examples: int) -> settings:
    return settings(
        max_examples=examples * 20 if IS_STORM else examples,
        deadline=None,
        # The first deployment that goes wrong says enough.
        phases=[Phase.generate, Phase.shrink] if IS_STORM else [Phase.generate],
        suppress_health_check=[HealthCheck.too_slow],
    )


@st.composite
def any_options(draw: st.DrawFn, /, *, drain: float = 7000.0, **fixed: Any) -> DeployOptions:
    ports = draw(st.lists(st.integers(1, 65535), min_size=2, max_size=2, unique=True))
    values: dict[str, Any] = {
        "drain_deadline": draw(st.integers(1, int(drain)) | st.floats(0.001, drain)),
        "program": draw(st.sampled_from(Program)),
        # Words that YAML takes for truth values are names as good as others.
        "name": draw(
            st.from_regex(r"[a-z]([a-z0-9-]{0,10}[a-z0-9])?|true|no|null", fullmatch=True)
        ),
        "app": draw(st.sampled_from(["support:app", "shop.agents:app", "folder/agents.py:app"])),
        "image": IMAGE,
        "port": ports[0],
        "health_port": ports[1],
        "replicas": draw(st.integers(1, 1000)),
        "settle": draw(st.none() | _seconds),
        "pre_stop": draw(st.none() | _seconds),
        "max_processing": draw(st.none() | _seconds),
        "startup": draw(st.integers(1, 86_400) | st.floats(0.1, 3600)),
        "launch_type": draw(st.sampled_from(LaunchType)),
    }
    return DeployOptions(**{**values, **fixed})


def example(**changes: Any) -> DeployOptions:
    return DeployOptions(**{"drain_deadline": 90, "app": "support:app", "image": IMAGE, **changes})


def read_yaml(text: str) -> list[Any]:
    """The documents of a text; with the reader in C, which is ten times as fast."""
    return list(yaml.load_all(text, Loader=yaml.CSafeLoader))


def require_grace(
    grace_s: float, arguments: list[str], environ: dict[str, str], pre_stop_s: float = 0
) -> None:
    """What a platform was told is enough for what the process was told, and the process knows."""
    drain = parse_duration(arguments[arguments.index("--drain-deadline") + 1])
    settle = parse_duration(environ["AFL_LIFECYCLE_SETTLE"])
    assert grace_s > pre_stop_s + settle + drain + GRACE_BUFFER_S
    # Nobody waits for long without need: for the next second, of times in whole milliseconds.
    assert grace_s <= pre_stop_s + settle + drain + GRACE_BUFFER_S + 1.01
    assert parse_duration(environ["AFL_LIFECYCLE_TERMINATION_GRACE"]) == grace_s
    assert parse_duration(environ.get("AFL_LIFECYCLE_PRE_STOP", "0")) == pre_stop_s


def require_command(arguments: list[str], options: DeployOptions) -> None:
    """afl is called with what was asked for."""
    assert arguments[0] == options.program
    assert options.app in arguments
    assert arguments[arguments.index("--health-port") + 1] == str(options.health_port)
    if options.is_serving:
        assert arguments[arguments.index("--port") + 1] == str(options.port)
