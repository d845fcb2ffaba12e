"""`afl doctor`: look for what would go wrong in a deployment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from afl.cli.common import PROBLEMS, Json, Store, settings, write_json

if TYPE_CHECKING:
    from afl.config import Config
    from afl.operations.doctor import Finding
    from afl.operations.doctor.facts import Facts, TimeFacts


def doctor(
    context: typer.Context,
    app: Annotated[
        str | None,
        typer.Argument(metavar="APP", help="What is served, as for afl serve; it is imported."),
    ] = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """Look for what would go wrong here: signals, times, the store, ports. Changes nothing."""
    from afl.operations.doctor import Result, examine

    findings = examine(_facts(settings(context, store_url=store), app))
    if json:
        write_json(findings)
    else:
        _show(findings)
    if any(each.result is Result.FAIL for each in findings):
        raise typer.Exit(PROBLEMS)


def _facts(config: Config, app: str | None) -> Facts:
    from afl.bootstrap import open_store
    from afl.config import UNSET
    from afl.operations.doctor import gathering
    from afl.operations.doctor.facts import Facts
    from afl.operations.doctor.store_gathering import store_facts

    # First, since importing it may change what is looked at next.
    loaded, signals = gathering.app_and_signals(app, _load_app)
    return Facts(
        process=gathering.process_facts(),
        signals=signals,
        times=_times(config),
        platform=gathering.platform_of(os.environ),
        store=store_facts(config.store.url, open_store),
        extras=gathering.extras_of(
            config.store.url, traces=config.telemetry.traces, serves=app is not None
        ),
        ports=gathering.port_facts(_ports(config, app)),
        missing_handler_paths=gathering.missing_folders(config.handlers.paths),
        scripts_enabled=config.scripts.enabled,
        app=loaded,
        has_tokens=config.serve.tokens != UNSET,
    )


def _load_app(app: str) -> object:
    from afl.serving import load_app

    return load_app(app)


def _ports(config: Config, app: str | None) -> dict[str, int]:
    health_port = config.lifecycle.health_port
    return {
        "probes": health_port if isinstance(health_port, int) else 0,
        "requests": 0 if app is None else config.serve.port,
    }


def _times(config: Config) -> TimeFacts:
    from afl.bootstrap import group_options
    from afl.operations.doctor.facts import TimeFacts

    given = group_options(config)
    return TimeFacts(
        drain=given.get("drain_deadline_seconds"),
        settle=given.get("settle_seconds"),
        pre_stop=given.get("pre_stop_seconds"),
        grace=given.get("termination_grace_seconds"),
        max_processing=given.get("max_processing_seconds"),
    )


def _show(findings: list[Finding]) -> None:
    from afl.cli.tables import show_table

    rows: list[tuple[str, str, str]] = []
    for each in findings:
        rows.append((each.check, each.result, each.found))
        if each.advice:
            rows.append(("", "", f"→ {each.advice}"))
    show_table(("check", "result", "found, and what to do"), rows, "Nothing was checked.")
