"""What a deployment is told, checked so that it can stand in any file as it is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from afl.errors import UsageError

#: A service that takes longer to drain or to start is not what these files are for.
MOST_S = 86_400
_PORTS = range(1, 65_536)
_REPLICAS = range(1, 1_001)

# None of these characters means anything to YAML in quotes, to HCL, to systemd or to Docker.
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")
_APP = re.compile(r"\w[\w./:-]*", re.ASCII)
_IMAGE = re.compile(r"\w[\w./:@-]*", re.ASCII)
_DIRECTORY = re.compile(r"/[\w./-]*", re.ASCII)


E = TypeVar("E", bound=StrEnum)


class Program(StrEnum):
    """The command of afl that is deployed."""

    SERVE = "serve"
    WORKER = "worker"


class LaunchType(StrEnum):
    """Whose machines ECS runs tasks on."""

    FARGATE = "fargate"
    EC2 = "ec2"


def choice(kind: type[E], what: str, text: str) -> E:
    """The member that is meant. Raises UsageError."""
    try:
        return kind(text.lower())
    except ValueError:
        raise UsageError(f"{text!r} is no {what}; expected {' or '.join(kind)}") from None


@dataclass(frozen=True, kw_only=True, slots=True)
class DeployOptions:
    """Times are in seconds; None is a time that follows from the others.

    Raises UsageError for what no platform could take.
    """

    drain_deadline: float
    program: Program = Program.SERVE
    name: str = "agents"
    #: `module:name`; of a worker, a module with handlers.
    app: str = ""
    image: str = ""
    port: int = 8000
    health_port: int = 8080
    replicas: int = 2
    settle: float | None = None
    pre_stop: float | None = None
    #: The longest that one turn or task may take, if anybody knows.
    max_processing: float | None = None
    #: What dependencies and warmup may take.
    startup: float = 300.0
    launch_type: LaunchType = LaunchType.FARGATE
    #: Where the program is, for systemd; "" is /srv/NAME.
    directory: str = ""

    def __post_init__(self) -> None:
        self._require_times()
        self._require_words()
        _require_in(_PORTS, "port", self.port)
        _require_in(_PORTS, "health port", self.health_port)
        _require_in(_REPLICAS, "number of replicas", self.replicas)
        if self.program is Program.SERVE and self.port == self.health_port:
            raise UsageError(f"port {self.port} cannot be for requests and for probes; choose two")

    @property
    def is_serving(self) -> bool:
        return self.program is Program.SERVE

    def _require_times(self) -> None:
        times = {
            "settle": self.settle or 0.0,
            "pre-stop": self.pre_stop or 0.0,
            "max-processing": self.max_processing or 0.0,
        }
        for name, seconds in times.items():
            if not 0 <= seconds <= MOST_S:
                raise UsageError(f"--{name} is {seconds:g} s; expected at most a day")
        for name, seconds in (("drain-deadline", self.drain_deadline), ("startup", self.startup)):
            if not 0 < seconds <= MOST_S:
                raise UsageError(
                    f"--{name} is {seconds:g} s; expected more than nothing and at most a day"
                )

    def _require_words(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise UsageError(
                f"{self.name!r} cannot be the name of a deployment; expected a letter, then up to "
                "39 letters, digits and dashes, all of them small, with no dash at the end"
            )
        if self.is_serving and not self.app:
            raise UsageError("say what to serve: --app module:name")
        _require_like(_APP, "an app", self.app, "module:name")
        _require_like(_IMAGE, "an image", self.image, "registry.example.org/agents:1.4.0")
        _require_like(_DIRECTORY, "a folder", self.directory, "an absolute path such as /srv/app")


def _require_like(pattern: re.Pattern[str], what: str, text: str, expected: str) -> None:
    if text and not pattern.fullmatch(text):
        raise UsageError(f"{text!r} names no {what.partition(' ')[2]}; expected {expected}")


def _require_in(allowed: range, what: str, value: int) -> None:
    if value not in allowed:
        raise UsageError(f"{value} is no {what}; expected {allowed[0]} to {allowed[-1]}")
