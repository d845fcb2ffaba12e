"""A process dies by SIGKILL before or after any of its commits; a fresh one finds the run at rest
and brings it to the same end, with each effect done once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.engine.cases import BY_NAME
from tests.engine.lab import KILLED, Lab
from tests.engine.profile import IS_STORM

SIDES = ("before", "after")
NAMES = list(BY_NAME)

#: One that has a join, an error and a catch, in few commits.
TWICE = "a workflow catches and sees its steps"

Point = tuple[int, str]


def points(commits: int) -> list[Point]:
    return [(number, side) for number in range(1, commits + 1) for side in SIDES]


def some(found: list[Point], step: int, first: int) -> list[Point]:
    """A slice that differs from program to program; in a storm, all of them."""
    return found if IS_STORM else found[first % step :: step]


@pytest.mark.parametrize("name", NAMES)
def test_a_run_survives_a_crash_at_any_commit(
    lab: Lab, ledger_port: int, folder: Path, name: str
) -> None:
    commits = commits_of(lab, ledger_port, folder, name)
    for number, side in some(points(commits), step=5, first=NAMES.index(name)):
        path = str(folder / f"{number}-{side}.db")
        crash(lab, ledger_port, path, name, 0, (number, side))
        assert lab.run("attempt", path, name, ledger_port, life=1)[0] == 0


def test_a_run_survives_a_second_crash_at_any_commit_of_its_recovery(
    lab: Lab, ledger_port: int, folder: Path
) -> None:
    commits = commits_of(lab, ledger_port, folder, TWICE)
    assert commits <= 20
    crashed = folder / "crashed.db"
    for first in some(points(commits), step=7, first=3):
        crash(lab, ledger_port, str(crashed), TWICE, 0, first)
        for number, second in enumerate(recovery_points(lab, ledger_port, crashed, folder)):
            if IS_STORM or number % 7 == 0:
                crash_again(lab, ledger_port, crashed, folder / "again.db", second)
        remove(crashed)


@pytest.mark.parametrize(
    ("defect", "found"),
    [("two commits", "none is open"), ("a new key", "AssertionError")],
    ids=["two commits", "a new key"],
)
def test_the_search_finds_a_worker_that(
    lab: Lab, ledger_port: int, folder: Path, defect: str, found: str
) -> None:
    """Completes in two commits, or does an effect under a new key each time."""
    code, commits = lab.run(
        "attempt", str(folder / "whole.db"), "one event", ledger_port, defect=defect
    )
    assert code == 0
    search = partial(crash_everywhere, lab, ledger_port, folder, commits, defect)
    with pytest.raises(AssertionError, match=found):
        search()


def crash_everywhere(lab: Lab, port: int, folder: Path, commits: int, defect: str) -> None:
    for number, side in points(commits):
        args = ("attempt", str(folder / f"{number}-{side}.db"), "one event", port)
        assert lab.run(*args, deadly=number, side=side, defect=defect)[0] == KILLED
        lab.run(*args, life=1, defect=defect)


def commits_of(lab: Lab, port: int, folder: Path, name: str) -> int:
    code, commits = lab.run("attempt", str(folder / "whole.db"), name, port)
    assert code == 0
    return int(commits)


def crash(lab: Lab, port: int, path: str, name: str, life: int, point: Point) -> None:
    number, side = point
    code, _ = lab.run("attempt", path, name, port, life=life, deadly=number, side=side)
    assert code == KILLED


def recovery_points(lab: Lab, port: int, crashed: Path, folder: Path) -> list[Point]:
    """All commits of the process that brings a run to its end after a crash."""
    whole = folder / "recovered.db"
    copy(crashed, whole)
    code, commits = lab.run("attempt", str(whole), TWICE, port, life=1)
    assert code == 0
    remove(whole)
    return points(commits)


def crash_again(lab: Lab, port: int, crashed: Path, again: Path, point: Point) -> None:
    copy(crashed, again)
    crash(lab, port, str(again), TWICE, 1, point)
    assert lab.run("attempt", str(again), TWICE, port, life=2)[0] == 0
    remove(again)


def files(path: Path) -> Iterator[Path]:
    """A database that nobody has open: the file and its log."""
    return (path.with_name(path.name + end) for end in ("", "-wal", "-shm"))


def copy(source: Path, target: Path) -> None:
    for old, new in zip(files(source), files(target), strict=True):
        if old.exists():
            shutil.copy(old, new)


def remove(path: Path) -> None:
    for each in files(path):
        each.unlink(missing_ok=True)
