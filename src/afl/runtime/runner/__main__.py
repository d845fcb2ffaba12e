"""`python -m afl.runtime.runner`: a runner service as a process of its own."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TextIO

from afl import bootstrap
from afl.collector import collector_rare
from afl.config import load_config
from afl.errors import AflError, ConfigurationError
from afl.log import LEVELS, configure
from afl.runtime.evaluator import Evaluator
from afl.runtime.lifecycle import Runnable
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.registrations import RegistrationLoader, allowed_places
from afl.runtime.registry_runner import RegistryRunner, RegistryRunnerConfig
from afl.runtime.runner.config import RunnerConfig
from afl.runtime.runner.service import RunnerService

#: Drained, a loop failed, the settings are wrong: as all of afl.
OK, FAILED, WRONG_USE = 0, 1, 2

_DEFAULTS = RunnerConfig()


def main(argv: Sequence[str] | None = None) -> int:
    """Run until a signal; the exit code."""
    given = _parser().parse_args(argv)
    try:
        _run(given)
    except ConfigurationError as error:
        _say(error)
        return WRONG_USE
    except (AflError, ExceptionGroup) as error:
        _say(error)
        return FAILED
    return OK


def _say(error: Exception) -> None:
    sys.stderr.write(f"Error: {error}\n")


def _run(given: argparse.Namespace) -> None:
    settings = load_config(flags={"store.url": given.store}, file=given.config)
    config = _config(given)  # whoever is refused has made no database
    with ExitStack() as stack:
        level = given.log_level.lower()
        configure(level, stream=_log_stream(given.log_file, stack))
        # Before the file is closed: what still speaks then is heard elsewhere.
        stack.callback(configure, level)
        stack.callback(bootstrap.log_events())
        store = stack.enter_context(closing(bootstrap.open_store(settings.store.url)))
        evaluator = bootstrap.evaluator(store, settings)
        service = RunnerService(store, evaluator, config)
        beside: list[Runnable] = [bootstrap.retention_loop(store, settings)]
        if given.registry:
            places = allowed_places(settings.handlers.paths)
            beside.append(_registry_runner(store, evaluator, given, RegistrationLoader(places)))
        with collector_rare():
            service.start(beside=beside)


def _config(given: argparse.Namespace) -> RunnerConfig:
    return RunnerConfig(
        server_group=given.server_group,
        service_name=given.service_name,
        server_name=given.server_name,
        topics=given.topics,
        task_list=given.task_list,
        poll_interval_ms=given.poll_interval,
        heartbeat_interval_ms=given.heartbeat_interval,
        lock_duration_ms=given.lock_duration,
        max_concurrent=given.max_concurrent,
        http_port=given.port,
    )


def _registry_runner(
    store: PersistenceAPI,
    evaluator: Evaluator,
    given: argparse.Namespace,
    loader: RegistrationLoader,
) -> RegistryRunner:
    config = RegistryRunnerConfig(
        service_name=f"{given.service_name}-registry",
        server_group=given.server_group,
        server_name=given.server_name,
        task_list=given.task_list,
        poll_interval_ms=given.poll_interval,
        max_concurrent=given.max_concurrent,
        heartbeat_interval_ms=given.heartbeat_interval,
        topics=given.topics,
    )
    return RegistryRunner(store, evaluator, config, loader=loader)


def _log_stream(path: Path | None, stack: ExitStack) -> TextIO | None:
    if path is None:
        return None
    try:
        return stack.enter_context(path.open("a", encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"logs cannot be written to {path}: {error}") from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m afl.runtime.runner", description=__doc__)
    add, d = parser.add_argument, _DEFAULTS
    add("--config", type=Path, metavar="FILE", help="settings file, instead of ./afl.toml")
    add("--store", metavar="URL", help="where runs and tasks are kept")
    add("--server-group", metavar="NAME", default=d.server_group, help=_told("its group"))
    add("--service-name", metavar="NAME", default=d.service_name, help=_told("what it is"))
    add("--server-name", metavar="NAME", default=d.server_name, help=_told("which one it is"))
    add("--topics", metavar="PATTERN", nargs="*", default=[], help="serve only such facets")
    add("--task-list", metavar="NAME", default=d.task_list, help=_told("whose tasks it takes"))
    at_once = "tasks in hand at once, and as many of registered handlers"
    numbers = {
        "--poll-interval": ("MS", d.poll_interval_ms, "looks for what nobody announced so often"),
        "--heartbeat-interval": ("MS", d.heartbeat_interval_ms, "says so often that it is alive"),
        "--max-concurrent": ("N", d.max_concurrent, at_once),
        "--lock-duration": ("MS", d.lock_duration_ms, "locks tasks so long, and renews it"),
        "--port": ("N", d.http_port, "first to try for /health and /status; 0 is any"),
    }
    for name, (unit, default, meaning) in numbers.items():
        add(name, metavar=unit, type=int, default=default, help=_told(meaning))
    add("--registry", action="store_true", help="serve registered handlers, too")
    levels = _told(", ".join(LEVELS))
    add("--log-level", default="INFO", type=_level, metavar="LEVEL", help=levels)
    add("--log-file", type=Path, metavar="FILE", help="append logs to it; else standard error")
    return parser


def _told(meaning: str) -> str:
    """With what holds unless it is given."""
    return f"{meaning} (%(default)s)"


def _level(text: str) -> str:
    if text.lower() not in LEVELS:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(LEVELS)}")
    return text


if __name__ == "__main__":
    sys.exit(main())
