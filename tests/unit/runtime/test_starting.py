"""The beginning of runs: what all runs of a program share is made once."""

from __future__ import annotations

from typing import Any

import pytest

from afl import compile_source
from afl.lang.program import Program
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore

TEXT = """
namespace shared

/** Says nothing. */
workflow First() => (n: Long) andThen { yield First(n = 1) }

workflow Second() => (n: Long) andThen { yield Second(n = 2) }
"""


def test_the_text_of_a_program_is_written_out_once_for_all_its_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is as long as the program: each run would pay for it."""
    written: list[bool] = []
    write = Program.to_json

    def counted(self: Program, **options: Any) -> str:
        written.append(options.get("include_locations", True))
        return write(self, **options)

    program, evaluator = compile_source(TEXT), Evaluator(MemoryStore())
    monkeypatch.setattr(Program, "to_json", counted)
    runs = [evaluator.submit(program, each) for each in ("First", "Second") * 3]
    assert written.count(True) == 1
    assert [evaluator.result(each).outputs["n"] for each in runs] == [1, 2] * 3


def test_each_run_has_its_own_record_of_the_workflow() -> None:
    program, store = compile_source(TEXT), MemoryStore()
    evaluator = Evaluator(store)
    first, second = (store.get_run(evaluator.submit(program, "First")) for _ in range(2))
    assert first is not None
    assert second is not None
    first.workflow.name = "changed"
    assert second.workflow.name == "shared.First"
    third = store.get_run(evaluator.submit(program, "First"))
    assert third is not None
    assert third.workflow.name == "shared.First"
    assert third.workflow.documentation is not None
    assert third.workflow.documentation["description"] == "Says nothing."
    assert third.workflow.date >= second.workflow.date > 0
