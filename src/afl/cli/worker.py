"""`afl worker`: do the tasks of runs, as a service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from afl.cli.common import OK, Store, service_settings, store_of
from afl.cli.running import ending_in_time, run_group

if TYPE_CHECKING:
    from afl.config import Config


def worker(
    context: typer.Context,
    drain_deadline: Annotated[
        str | None,
        typer.Option(
            "--drain-deadline",
            metavar="DURATION",
            help="How long running tasks may take after SIGTERM; without a default.",
        ),
    ] = None,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topics", metavar="PATTERN", help="Serve only facets such as billing.*."),
    ] = None,
    task_list: Annotated[
        str | None, typer.Option("--task-list", metavar="NAME", help="Take the tasks of this list.")
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option("--concurrency", metavar="N", min=1, help="Tasks in hand at once."),
    ] = None,
    lease: Annotated[
        str | None,
        typer.Option(
            "--lease", metavar="DURATION", help="When a killed worker's tasks run elsewhere."
        ),
    ] = None,
    health_port: Annotated[
        int | None,
        typer.Option("--health-port", metavar="PORT", help="Answer probes here; 0 is any port."),
    ] = None,
    handlers: Annotated[
        list[str] | None,
        typer.Option(
            "--handlers",
            metavar="MODULE|FILE",
            help="Serve also the handlers that are listed or marked there.",
        ),
    ] = None,
    handler_path: Annotated[
        list[str] | None,
        typer.Option(
            "--handler-path", metavar="DIR", help="A folder that registered handlers may be in."
        ),
    ] = None,
    store: Store = None,
    scripts: Annotated[
        bool, typer.Option("--scripts", help="Run the script blocks of programs.")
    ] = False,
) -> None:
    """Do the tasks of runs until SIGTERM. Handlers are found in the store: see `afl handlers`.
    A stop finishes what is running; a second signal gives it back at once."""
    config = service_settings(
        context,
        store_url=store,
        scripts_enabled=scripts or None,
        lifecycle_drain_deadline=drain_deadline,
        lifecycle_health_port=health_port,
        worker_topics=topics or None,
        worker_task_list=task_list,
        worker_concurrency=concurrency,
        worker_lease=lease,
        handlers_paths=handler_path or None,
    )
    code = _served(config, handlers or [])
    if code != OK:
        raise typer.Exit(code)


def _served(config: Config, sources: list[str]) -> int:
    """Work until the end; the exit code."""
    from afl.bootstrap import worker_functions, worker_group, worker_options
    from afl.errors import UsageError

    if config.store.url.startswith("memory:"):
        raise UsageError(
            "a store in memory is this process's own, so nobody could submit anything; name "
            "another one with --store"
        )
    # Whoever is refused has made no database.
    worker_options(config)
    functions = worker_functions(sources)
    with ending_in_time() as has_ended, store_of(config) as store:
        group = worker_group(store, config, functions=functions)
        code = run_group(group)
        has_ended(group, code)
    return code
