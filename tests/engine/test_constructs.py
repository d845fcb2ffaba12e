"""Every construct of the language runs, on both stores, and gives what the language page says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.engine.programs import PROGRAMS, Case
from tests.engine.worker import work_all

from afl.runtime.entities import RunnerState
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.results import ExecutionStatus
from afl.runtime.script_executor import ScriptExecutor
from afl.runtime.sql_store import SqliteStore

STORES: dict[str, Callable[[Path], PersistenceAPI]] = {
    "memory": lambda _: MemoryStore(),
    "sqlite": lambda folder: SqliteStore(folder / "runs.db"),
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PersistenceAPI]:
    opened = STORES[request.param](tmp_path)
    yield opened
    opened.close()


@pytest.mark.parametrize("case", PROGRAMS, ids=lambda case: case.name)
def test_a_program_gives_its_outputs(case: Case, store: PersistenceAPI) -> None:
    evaluator = Evaluator(store, scripts=ScriptExecutor() if case.needs_scripts else None)
    run_id = evaluator.submit(case.program, case.workflow, case.inputs)
    work_all(evaluator)
    result = evaluator.result(run_id)
    if case.error is None:
        assert result.error is None
        assert result.status == ExecutionStatus.COMPLETED
        assert result.outputs == case.outputs
    else:
        assert result.status == ExecutionStatus.ERROR
        assert str(result.error) == case.error
    run = store.get_run(run_id)
    assert run is not None
    assert run.state == (RunnerState.COMPLETED if case.error is None else RunnerState.FAILED)
    assert not [step for step in store.get_steps_by_workflow(run_id) if not step.is_terminal]
