"""`afl deploy`: write the files that run a service on a platform."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from afl.cli.common import Json, settings, write_json, write_out

if TYPE_CHECKING:
    from afl.config import Config
    from afl.operations.deploying import Rendered

_STDOUT = "-"
_HEALTH_PORT = 8080


def deploy(
    context: typer.Context,
    platform: Annotated[
        str,
        typer.Argument(metavar="PLATFORM", help="kubernetes, ecs, nomad, systemd or docker."),
    ],
    drain_deadline: Annotated[
        str | None,
        typer.Option(
            "--drain-deadline",
            metavar="DURATION",
            help="What turns in hand may take to end after SIGTERM. All times follow from it.",
        ),
    ] = None,
    app: Annotated[
        str,
        typer.Option("--app", metavar="APP", help="What to serve; of a worker, its handlers."),
    ] = "",
    command: Annotated[
        str, typer.Option("--command", metavar="COMMAND", help="serve or worker.")
    ] = "serve",
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="The name of the service.")
    ] = "agents",
    image: Annotated[str, typer.Option("--image", metavar="IMAGE", help="What to run.")] = "",
    replicas: Annotated[
        int, typer.Option("--replicas", metavar="N", help="How many instances.")
    ] = 2,
    port: Annotated[
        int | None, typer.Option("--port", metavar="PORT", help="For requests; else 8000.")
    ] = None,
    health_port: Annotated[
        int | None, typer.Option("--health-port", metavar="PORT", help="For probes; else 8080.")
    ] = None,
    settle: Annotated[
        str | None,
        typer.Option(
            "--settle", metavar="DURATION", help="Answer this long after readiness has failed."
        ),
    ] = None,
    pre_stop: Annotated[
        str | None,
        typer.Option("--pre-stop", metavar="DURATION", help="Wait this long before SIGTERM."),
    ] = None,
    max_processing: Annotated[
        str | None,
        typer.Option(
            "--max-processing", metavar="DURATION", help="The longest turn; to be compared."
        ),
    ] = None,
    startup: Annotated[
        str,
        typer.Option("--startup", metavar="DURATION", help="What init and warmup may take."),
    ] = "5m",
    launch_type: Annotated[
        str, typer.Option("--launch-type", metavar="TYPE", help="Of ECS: fargate or ec2.")
    ] = "fargate",
    directory: Annotated[
        str,
        typer.Option("--directory", metavar="DIR", help="Of systemd; else /srv/NAME."),
    ] = "",
    output: Annotated[
        str, typer.Option("--output", metavar="DIR|-", help="Where to write; - is stdout.")
    ] = _STDOUT,
    force: Annotated[
        bool, typer.Option("--force", help="Replace files that say something else.")
    ] = False,
    json: Json = False,
) -> None:
    """Write files that run a service: grace, probes and stop timeouts follow from the drain
    deadline."""
    from afl.operations.deploying import DeployOptions, choice, render
    from afl.operations.deploying.options import LaunchType, Program
    from afl.operations.deploying.times import warnings_of

    config = settings(
        context,
        lifecycle_drain_deadline=drain_deadline,
        lifecycle_health_port=health_port,
        lifecycle_settle=settle,
        lifecycle_pre_stop=pre_stop,
        lifecycle_max_processing=max_processing,
        serve_port=port,
    )
    options = DeployOptions(
        **_times(config, startup),
        program=choice(Program, "command", command),
        name=name,
        app=app,
        image=image,
        port=config.serve.port,
        health_port=_health_port(config),
        replicas=replicas,
        launch_type=choice(LaunchType, "launch type", launch_type),
        directory=directory,
    )
    rendered = render(platform, options)
    warnings = warnings_of(options, rendered.times)
    for each in warnings:
        typer.echo(f"warning: {each}", err=True)
    if output != _STDOUT:
        _write_files(rendered, Path(output), force)
    if json:
        write_json({"platform": platform, "warnings": warnings, **_as_record(rendered)})
    elif output == _STDOUT:
        _show(rendered)


def _times(config: Config, startup: str) -> dict[str, Any]:
    from afl.backoff import parse_duration
    from afl.errors import ConfigurationError

    given = config.lifecycle
    if _seconds(given.drain_deadline) is None:
        raise ConfigurationError(
            "a deployment needs a drain deadline, which all its times follow from. Give "
            "--drain-deadline, AFL_LIFECYCLE_DRAIN_DEADLINE or lifecycle.drain_deadline: 60s to "
            "120s for chat, 2m to 5m with tools, 30m for research"
        )
    return {
        "drain_deadline": _seconds(given.drain_deadline),
        "settle": _seconds(given.settle),
        "pre_stop": _seconds(given.pre_stop),
        "max_processing": _seconds(given.max_processing),
        "startup": parse_duration(startup),
    }


def _seconds(duration: str) -> float | None:
    from afl.backoff import parse_duration
    from afl.config import UNSET

    return None if duration == UNSET else parse_duration(duration)


def _health_port(config: Config) -> int:
    given = config.lifecycle.health_port
    return given if isinstance(given, int) else _HEALTH_PORT


def _write_files(rendered: Rendered, folder: Path, force: bool) -> None:
    """Write all files or none: what a person has changed is not lost by accident."""
    from afl.errors import UsageError

    changed = [each for each, text in rendered.files.items() if _differs(folder / each, text)]
    if changed and not force:
        raise UsageError(
            f"{', '.join(str(folder / each) for each in changed)}: something else is there; "
            "--force replaces it"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in rendered.files.items():
            (folder / name).write_text(text, encoding="utf-8")
            typer.echo(f"wrote {folder / name}", err=True)
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be written: {error.strerror}") from error


def _differs(path: Path, text: str) -> bool:
    return path.exists() and (not path.is_file() or path.read_bytes() != text.encode())


def _as_record(rendered: Rendered) -> dict[str, Any]:
    from dataclasses import asdict

    times = {**asdict(rendered.times), "grace_s": rendered.times.grace_s}
    return {"times": times, "files": rendered.files}


def _show(rendered: Rendered) -> None:
    """A single file as it is, for a pipe; several with their names above them."""
    is_one = len(rendered.files) == 1
    for name, text in rendered.files.items():
        write_out(text if is_one else f"# {name}\n{text}\n")
