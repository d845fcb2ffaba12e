"""`afl submit`: start a run that workers do."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from afl.cli.common import (
    INTERRUPTED,
    OK,
    Input,
    Inputs,
    Json,
    Key,
    Library,
    Paths,
    Store,
    Workflow,
    chosen_workflow,
    compiled,
    inputs_for,
    settings,
    store_flag,
    store_of,
    write_json,
)

if TYPE_CHECKING:
    from afl.config import Config
    from afl.operations.waiting import Look
    from afl.runtime.persistence import PersistenceAPI


def submit(
    context: typer.Context,
    paths: Paths,
    workflow: Workflow = None,
    input_: Input = None,
    inputs: Inputs = None,
    key: Key = None,
    task_list: Annotated[
        str | None,
        typer.Option("--task-list", metavar="NAME", help="Whose workers do it."),
    ] = None,
    store: Store = None,
    scripts: Annotated[
        bool, typer.Option("--scripts", help="Run the script blocks of the program.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Show its progress, and its outputs at the end.")
    ] = False,
    timeout: Annotated[
        str | None,
        typer.Option("--timeout", metavar="DURATION", help="Wait no longer; the run goes on."),
    ] = None,
    library: Library = None,
    json: Json = False,
) -> None:
    """Start a run and print its id. Workers do it: see `afl worker`."""
    from afl.backoff import parse_duration
    from afl.bootstrap import evaluator
    from afl.errors import UsageError
    from afl.operations import runs

    if timeout is not None and not wait:
        raise UsageError("--timeout is for --wait; give both, or neither")
    patience = None if timeout is None else parse_duration(timeout)
    config = settings(
        context,
        store_url=store,
        worker_task_list=task_list,
        scripts_enabled=scripts or None,
        language_library_paths=library or None,
    )
    if config.store.url.startswith("memory:"):
        raise UsageError(
            "a store in memory dies with this command, so no worker could do the run; name another "
            "one with --store, or do the run here with `afl run`"
        )
    program = compiled(config, paths)
    declared = chosen_workflow(program, workflow)
    values = inputs_for(program, declared, input_ or [], inputs)
    with store_of(config) as opened:
        engine = evaluator(opened, config)
        run_id = runs.submit(
            engine,
            program,
            declared.qualified,
            values,
            key=key,
            task_list=config.worker.task_list,
        )
        if wait:
            _tell(run_id)
            code = _waited(opened, config, run_id, patience, json)
        else:
            code = OK
            _print(opened, run_id, json)
    if code != OK:
        raise typer.Exit(code)


def _print(store: PersistenceAPI, run_id: str, as_json: bool) -> None:
    from afl.operations import runs

    if as_json:
        write_json({"run": run_id, "status": runs.status(store, run_id).state})
    else:
        typer.echo(run_id)


def _tell(run_id: str) -> None:
    typer.echo(f"run {run_id}", err=True)


def _waited(
    store: PersistenceAPI, config: Config, run_id: str, timeout: float | None, as_json: bool
) -> int:
    """Wait for the run, print what came of it, and say so with an exit code."""
    from afl.errors import StoreUnavailable

    try:
        return _reported(store, config, run_id, timeout, as_json)
    except KeyboardInterrupt:
        pass
    except StoreUnavailable as problem:
        typer.echo(f"Error: {problem}", err=True)
    _tell_how_to_look(config, run_id)
    return INTERRUPTED


def _reported(
    store: PersistenceAPI, config: Config, run_id: str, timeout: float | None, as_json: bool
) -> int:
    from afl.bootstrap import evaluator
    from afl.cli.run_report import report
    from afl.operations import runs
    from afl.operations.waiting import wait_until_over

    run = runs.status(store, run_id)
    with _display(run.task_list) as display:
        last = wait_until_over(store, run, display.told, timeout)
    record = runs.status(store, run_id)
    if not record.is_over:
        _tell_how_to_look(config, run_id, last)
    outputs: dict[str, Any] = runs.outputs(evaluator(store, config), record)
    return report(record, outputs, as_json, _wanted(last))


def _wanted(last: Look | None) -> dict[str, Any]:
    """For programs: what nobody does as things are."""
    return {
        "unserved": [] if last is None else last.unserved,
        "unattended": [] if last is None else last.unattended,
    }


def _tell_how_to_look(config: Config, run_id: str, last: Look | None = None) -> None:
    command = shlex.join(["afl", "runs", "show", run_id, *store_flag(config)])
    typer.echo(f"The run {_stand(last)}. To look at it: {command}", err=True)


def _stand(last: Look | None) -> str:
    if last is None or not (last.is_paused or last.unserved or last.unattended):
        return "goes on"
    if last.is_paused:
        return "is paused"
    return f"waits: nobody serves {', '.join((*last.unserved, *last.unattended))}"


@dataclass
class _Display:
    """Shows the looks at a run: what has changed since the one before."""

    count: Callable[[str], object]
    note: Callable[[str], object]
    task_list: str
    counts: str = ""
    advice: str = ""

    def told(self, look: Look) -> None:
        counts, advice = str(look.counts), look.advice(self.task_list)
        if counts != self.counts:
            self.count(counts)
        if advice and advice != self.advice:
            self.note(advice)
        self.counts, self.advice = counts, advice


@contextmanager
def _display(task_list: str) -> Iterator[_Display]:
    """Progress on stderr: in place on a terminal, a line for each change elsewhere."""
    if not sys.stderr.isatty():
        yield _Display(_tell_line, _tell_line, task_list)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True)
    with console.status("waiting") as status:
        yield _Display(status.update, lambda text: console.print(Text(text)), task_list)


def _tell_line(text: str) -> None:
    typer.echo(text, err=True)
