"""Decisions that are made before their turn, beside other processes on the same file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from afl import compile_source
from afl.runtime.entities import RunnerState, TaskDefinition
from afl.runtime.errors import StaleFence
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import IterationChanges, View, child_id
from afl.runtime.rows.steps import COLUMNS as STEP_COLUMNS
from afl.runtime.rows.table import column_list
from afl.runtime.sql_store import SqliteStore
from afl.runtime.sql_store.foreseen import Prospects
from afl.runtime.sql_store.view import SqliteView
from afl.runtime.types import StatementId, StepId, WorkflowId

PROGRAM = compile_source("""
namespace t

event facet Work(n: Long) => (n: Long)

workflow One(n: Long) => (n: Long) andThen {
    a = Work(n = $.n)
    yield One(n = a.n)
}
""")

COLUMNS = column_list(STEP_COLUMNS)
Outcome = tuple[IterationChanges, str]


class Stranger:
    """Another process on the same file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def writes(self, sql: str, *parameters: Any) -> None:
        with closing(sqlite3.connect(self._path, timeout=0)) as connection, connection:
            assert connection.execute(sql, parameters).rowcount == 1

    def writes_something(self) -> None:
        self.writes(
            "UPDATE run SET start_time = start_time + 1 WHERE seq = (SELECT min(seq) FROM run)"
        )


class Site:
    """A run with a claimed task, on a file that others write to."""

    def __init__(self, store: SqliteStore, stranger: Stranger) -> None:
        self.store = store
        self.stranger = stranger
        self.evaluator = Evaluator(store)
        self.run: WorkflowId = self.evaluator.submit(PROGRAM, "One", {"n": 1})
        (self.task,) = store.claim_tasks(["t.Work"], 1)
        self.step = StepId(self.task.step_id)
        #: Of each time that a decision was asked: whether it could look only.
        self.asked: list[str] = []
        stranger.writes_something()
        store.claim_tasks(["t.Work"], 1)  # now the writer knows that it is not alone

    def decides(
        self, read: Callable[[View], object], meanwhile: Callable[[], object] | None = None
    ) -> str:
        """How often this was decided, and what was answered. `meanwhile` happens between the look
        and the turn."""

        def decision(view: View) -> Outcome:
            self.asked.append("again" if self.asked else "first")
            read(view)
            if meanwhile is not None and len(self.asked) == 1:
                meanwhile()
            return IterationChanges(), self.asked[-1]

        return self.store.decide_later(decision).result()


@pytest.fixture
def site(store: SqliteStore, path: Path) -> Site:
    return Site(store, Stranger(path))


#: What a decision reads, and how others change it.
READS: dict[str, tuple[Callable[[Site, View], object], str, Callable[[Site], str]]] = {
    "a step": (
        lambda site, view: view.get_step(site.step),
        "UPDATE step SET sequence = sequence + 1 WHERE id = ?",
        lambda site: site.step,
    ),
    "steps": (
        lambda site, view: view.get_steps([site.step]),
        "UPDATE step SET sequence = sequence + 1 WHERE id = ?",
        lambda site: site.step,
    ),
    "a step that is removed": (
        lambda site, view: view.get_step(site.step),
        "DELETE FROM step WHERE id = ?",
        lambda site: site.step,
    ),
    "a task": (
        lambda site, view: view.get_task(site.task.uuid),
        "UPDATE task SET version = version + 1 WHERE uuid = ?",
        lambda site: site.task.uuid,
    ),
    "tasks": (
        lambda site, view: view.get_tasks([site.task.uuid]),
        "UPDATE task SET version = version + 1 WHERE uuid = ?",
        lambda site: site.task.uuid,
    ),
    "a run": (
        lambda site, view: view.get_run(site.run),
        "UPDATE run SET version = version + 1 WHERE workflow_id = ?",
        lambda site: site.run,
    ),
    "runs": (
        lambda site, view: view.get_runs([site.run]),
        "UPDATE run SET version = version + 1 WHERE workflow_id = ?",
        lambda site: site.run,
    ),
    "a run with its task": (
        lambda site, view: view.get_run_and_task(site.run, site.task.uuid),
        "UPDATE task SET version = version + 1 WHERE uuid = ?",
        lambda site: site.task.uuid,
    ),
}


@pytest.mark.parametrize("what", READS)
def test_what_was_decided_before_holds_if_all_that_was_read_is_as_it_was(
    site: Site, what: str
) -> None:
    read, _, _ = READS[what]
    answer = site.decides(lambda view: read(site, view), site.stranger.writes_something)
    assert (answer, site.asked) == ("first", ["first"])


@pytest.mark.parametrize("what", READS)
def test_what_others_have_changed_is_decided_anew(site: Site, what: str) -> None:
    read, change, of = READS[what]
    answer = site.decides(
        lambda view: read(site, view), lambda: site.stranger.writes(change, of(site))
    )
    assert (answer, site.asked) == ("again", ["first", "again"])


def test_what_was_not_there_must_not_be_there_in_turn(site: Site) -> None:
    absent = child_id("nowhere", StatementId("nothing"))
    assert site.decides(lambda view: view.get_step(absent)) == "first"
    site.asked.clear()
    site.stranger.writes_something()
    site.store.claim_tasks(["t.Work"], 1)
    copy = f"""INSERT INTO step ({COLUMNS}) SELECT '{absent}', {COLUMNS.partition(", ")[2]}
        FROM step WHERE id = ?"""
    answer = site.decides(
        lambda view: view.get_step(absent), lambda: site.stranger.writes(copy, site.step)
    )
    assert answer == "again"


@pytest.mark.parametrize(
    "ask",
    [
        lambda site, view: view.get_yielded(site.step),
        lambda site, view: view.get_steps_by_workflow(site.run),
        lambda site, view: view.get_open_tasks(site.run),
        lambda site, view: view.get_run_by_key("some"),
    ],
)
def test_what_cannot_be_compared_is_decided_in_turn(
    site: Site, ask: Callable[[Site, View], object]
) -> None:
    def read(view: View) -> None:
        try:
            ask(site, view)
        except Exception:  # as the engine does, which takes it for an error of a step
            return

    assert site.decides(read) == "again"


@pytest.mark.parametrize(
    ("passed_ms", "expected"), [(0, "first"), (500, "first"), (501, "again"), (-1, "again")]
)
def test_what_was_decided_at_another_time_is_decided_anew(
    site: Site, monkeypatch: pytest.MonkeyPatch, passed_ms: int, expected: str
) -> None:
    """Leases that it gives begin with its time, and who has the file may keep it for long."""
    looked_at = site.store.now_ms()
    monkeypatch.setattr(site.store, "now_ms", lambda: looked_at)

    def pass_time() -> None:
        monkeypatch.setattr(site.store, "now_ms", lambda: looked_at + passed_ms)

    assert site.decides(lambda view: view.get_run(site.run), pass_time) == expected


def test_an_error_of_the_look_is_no_error_of_the_decision(site: Site) -> None:
    def read(_view: View) -> None:
        if site.asked == ["first"]:
            raise ZeroDivisionError

    assert site.decides(read) == "again"


def test_an_error_in_turn_is_one(site: Site) -> None:
    def read(_view: View) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        site.decides(read)


# Results


def result(site: Site, task: TaskDefinition | None = None) -> None:
    site.evaluator.complete_task_later(task or site.task, {"n": 7}).result()


def looked(site: Site, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> None:
    """Let something happen when a decision has been looked ahead to."""
    submit = site.store.database.submit

    def noting(fn: Any, *, look: Any, **options: Any) -> Any:
        def looking(reader: Any) -> None:
            look(reader)
            meanwhile()

        return submit(fn, look=looking, **options)

    monkeypatch.setattr(site.store.database, "submit", noting)


def test_a_result_that_was_foreseen_ends_its_run(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked(site, monkeypatch, site.stranger.writes_something)
    result(site)
    run = site.store.get_run(site.run)
    assert run is not None
    assert run.state == RunnerState.COMPLETED
    assert site.evaluator.result(site.run).outputs == {"n": 7}


def test_a_result_is_refused_if_its_claim_is_lost_after_the_look(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    steal = "UPDATE task SET fence = fence + 1, version = version + 1 WHERE uuid = ?"
    looked(site, monkeypatch, lambda: site.stranger.writes(steal, site.task.uuid))
    with pytest.raises(StaleFence):
        result(site)
    run = site.store.get_run(site.run)
    assert run is not None
    assert run.state == RunnerState.RUNNING


# Whether to look


@pytest.mark.parametrize("ask", ["too much", "what raises"])
def test_a_look_that_comes_to_nothing_is_in_vain(site: Site, ask: str) -> None:
    looks: list[bool] = []

    def read(view: View) -> None:
        looks.append(type(view) is not SqliteView)
        if len(looks) > 1:
            return
        if ask == "what raises":
            raise ZeroDivisionError
        with suppress(Exception):
            view.get_yielded(site.step)

    for _ in range(3):
        site.decides(read)
    assert looks == [True, False, False, True], (
        "again in its turn; the next one passes; then a look"
    )


def test_looks_in_vain_become_rare_and_one_that_helps_brings_them_back() -> None:
    prospects = Prospects()
    for skipped in (1, 3, 7, 15, 31, 63, 64, 64):
        assert prospects.are_good()
        prospects.note(False)
        assert [prospects.are_good() for _ in range(skipped)] == [False] * skipped
    assert prospects.are_good()
    prospects.note(True)
    assert prospects.are_good()
    assert prospects.are_good()
