"""A process dies by SIGKILL before or after any of its commits; a fresh one finds the run at rest
and brings it to the same end, with each effect done once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.engine.cases import BY_NAME
from tests.engine.lab import KILLED, Lab
from tests.engine.places import Databases, Files, MongoDatabases, Places
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


@pytest.fixture
def files(folder: Path) -> Places:
    return Files(folder)


@pytest.fixture(scope="module")
def databases(postgres_url: str) -> Iterator[Places]:
    made = Databases(postgres_url)
    yield made
    made.close()


@pytest.fixture(scope="module")
def mongo_databases(mongo_url: str) -> Iterator[Places]:
    made = MongoDatabases(mongo_url)
    yield made
    made.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_run_survives_a_crash_at_any_commit(
    lab: Lab, ledger_port: int, files: Places, name: str
) -> None:
    crash_and_recover(lab, ledger_port, files, name, step=5)


@pytest.mark.parametrize("name", NAMES)
def test_a_run_on_postgresql_survives_a_crash_at_any_commit(
    lab: Lab, ledger_port: int, databases: Places, name: str
) -> None:
    crash_and_recover(lab, ledger_port, databases, name, step=20)


@pytest.mark.parametrize("name", NAMES if IS_STORM else NAMES[::8])
def test_a_run_on_mongodb_survives_a_crash_at_any_commit(
    lab: Lab, ledger_port: int, mongo_databases: Places, name: str
) -> None:
    crash_and_recover(lab, ledger_port, mongo_databases, name, step=20)


def crash_and_recover(lab: Lab, port: int, places: Places, name: str, step: int) -> None:
    commits = commits_of(lab, port, places, name)
    for point in some(points(commits), step, first=NAMES.index(name)):
        place = places.new()
        crash(lab, port, place, name, 0, point)
        assert lab.run("attempt", place, name, port, life=1)[0] == 0
        places.remove(place)


def test_a_run_survives_a_second_crash_at_any_commit_of_its_recovery(
    lab: Lab, ledger_port: int, files: Places
) -> None:
    crash_twice(lab, ledger_port, files, step=7)


def test_a_run_on_postgresql_survives_a_second_crash_at_any_commit_of_its_recovery(
    lab: Lab, ledger_port: int, databases: Places
) -> None:
    crash_twice(lab, ledger_port, databases, step=17)


def test_a_run_on_mongodb_survives_a_second_crash_at_any_commit_of_its_recovery(
    lab: Lab, ledger_port: int, mongo_databases: Places
) -> None:
    crash_twice(lab, ledger_port, mongo_databases, step=29)


def crash_twice(lab: Lab, port: int, places: Places, step: int) -> None:
    commits = commits_of(lab, port, places, TWICE)
    assert commits <= 20
    for first in some(points(commits), step, first=3):
        crashed = places.new()
        crash(lab, port, crashed, TWICE, 0, first)
        for second in some(recovery_points(lab, port, crashed, places), step, first=0):
            crash_again(lab, port, crashed, places, second)
        places.remove(crashed)


@pytest.mark.parametrize(
    ("defect", "found"),
    [("two commits", "none is open"), ("a new key", "AssertionError")],
    ids=["two commits", "a new key"],
)
def test_the_search_finds_a_worker_that(
    lab: Lab, ledger_port: int, files: Places, defect: str, found: str
) -> None:
    """Completes in two commits, or does an effect under a new key each time."""
    code, commits = lab.run("attempt", files.new(), "one event", ledger_port, defect=defect)
    assert code == 0
    search = partial(crash_everywhere, lab, ledger_port, files, commits, defect)
    with pytest.raises(AssertionError, match=found):
        search()


def crash_everywhere(lab: Lab, port: int, places: Places, commits: int, defect: str) -> None:
    for number, side in points(commits):
        args = ("attempt", places.new(), "one event", port)
        assert lab.run(*args, deadly=number, side=side, defect=defect)[0] == KILLED
        lab.run(*args, life=1, defect=defect)


def commits_of(lab: Lab, port: int, places: Places, name: str) -> int:
    place = places.new()
    code, commits = lab.run("attempt", place, name, port)
    assert code == 0
    assert commits > 0, "somebody else commits, and is not counted"
    places.remove(place)
    return int(commits)


def crash(lab: Lab, port: int, place: str, name: str, life: int, point: Point) -> None:
    number, side = point
    code, _ = lab.run("attempt", place, name, port, life=life, deadly=number, side=side)
    assert code == KILLED


def recovery_points(lab: Lab, port: int, crashed: str, places: Places) -> list[Point]:
    """All commits of the process that brings a run to its end after a crash."""
    whole = places.copy(crashed)
    code, commits = lab.run("attempt", whole, TWICE, port, life=1)
    assert code == 0
    places.remove(whole)
    return points(commits)


def crash_again(lab: Lab, port: int, crashed: str, places: Places, point: Point) -> None:
    again = places.copy(crashed)
    crash(lab, port, again, TWICE, 1, point)
    assert lab.run("attempt", again, TWICE, port, life=2)[0] == 0
    places.remove(again)
