"""A run from its program to its result in one process: what is needed before `LocalRun` begins.

Whatever can be wrong is found here, before anything starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from afl.errors import UsageError
from afl.lang.diagnostics import display_name
from afl.lang.names import Declared
from afl.lang.program import Program
from afl.operations import runs
from afl.operations.local_run import OWN_LIST, LocalRun, Options, own_task_list
from afl.operations.reach import reachable_events
from afl.runtime.entities import RunnerDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.loading import HandlerTable, load_handlers
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.types import WorkflowId

#: Beside a program, this file has its handlers unless others are named.
USUAL_HANDLERS = "handlers.py"


@dataclass(frozen=True)
class Work:
    """A workflow and those who do its tasks."""

    program: Program
    workflow: Declared
    handlers: HandlerTable
    #: Where they were found.
    sources: Sequence[str]


def prepare(program: Program, workflow: Declared, sources: Sequence[str]) -> Work:
    """Load the handlers of a workflow. Raises UsageError that names every facet without one."""
    table = load_handlers(sources, program.event_facets)
    missing = table.missing(reachable_events(program, workflow))
    if missing:
        searched = f"in {', '.join(sources)}" if sources else "anywhere; name them with --handlers"
        raise UsageError(f"there is no handler for {', '.join(missing)} {searched}")
    return Work(program, workflow, table, sources)


def usual_handlers(beside: str | Path) -> list[str]:
    """`handlers.py` in a folder, or beside a file, if there is one."""
    path = Path(beside)
    found = (path if path.is_dir() else path.parent) / USUAL_HANDLERS
    return [str(found)] if found.is_file() else []


def handlers_beside(workflow: Declared) -> list[str]:
    """`handlers.py` beside the file that a workflow was compiled from."""
    place = workflow.node.location
    is_file = place is not None and (place.source_id or "").startswith("file://")
    return usual_handlers(display_name(place.source_id)) if place and is_file else []


def begin(
    evaluator: Evaluator, work: Work, inputs: Mapping[str, Any], key: str | None = None
) -> WorkflowId:
    """Start a run whose tasks are for this process. Its id; see `runs.submit`."""
    name = work.workflow.qualified
    return runs.submit(evaluator, work.program, name, inputs, key=key, task_list=own_task_list())


def local_run(
    store: PersistenceAPI,
    evaluator: Evaluator,
    work: Work,
    run: RunnerDefinition,
    options: Options | None = None,
) -> LocalRun:
    """The run, ready to be done here. Raises UsageError if its tasks are for others."""
    if not run.task_list.startswith(OWN_LIST):
        raise UsageError(
            f"the tasks of run {run.workflow_id} are for the workers of the task list "
            f"'{run.task_list}'; start some, or wait for them"
        )
    run_id = WorkflowId(run.workflow_id)
    return LocalRun(store, evaluator, work.handlers, run_id, run.task_list, options)


def stored_work(store: PersistenceAPI, run: RunnerDefinition, sources: Sequence[str]) -> Work:
    """What a run that exists needs to go on here."""
    program = runs.program_of(store, run)
    workflow = program.workflow(run.workflow.name)
    return prepare(program, workflow, sources or handlers_beside(workflow))
