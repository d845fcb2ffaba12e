"""A process dies by SIGKILL before or after any of its commits, and so before and after every call
of a tool; a fresh one brings the turn to its end. Each effect happens once, no answer in the
journal is paid for again, and only what says nothing about its effects needs a person."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from tests.engine.places import Databases, MongoDatabases, Places
from tests.engine.profile import IS_STORM
from tests.turns.lab import KILLED, TurnLab

from afl.ids import new_id
from afl.turns import MongoTurns, PostgresTurns
from afl.turns.mongo_schema import COLLECTIONS

Point = tuple[int, str]


def points(commits: int) -> list[Point]:
    return [(number, side) for number in range(1, commits + 1) for side in ("before", "after")]


@dataclass
class Bench:
    lab: TurnLab
    folder: Path
    ports: tuple[int, int]
    #: Where turns are kept, unless that is beside their mailboxes.
    places: Places | None = None
    _used: dict[Path, str] = field(default_factory=dict)

    def prepared(self) -> tuple[Path, str]:
        """A file with one request in it, and the name of its turn."""
        turn = new_id()
        path = self.folder / turn[:13] / "afl.db"
        path.parent.mkdir()
        if self.places is not None:
            self._used[path] = self.places.new()
        assert self.lab.run("prepare turn", str(path), turn, place=self._place(path)) == (0, 0)
        return path, turn

    def remove(self, path: Path) -> None:
        rmtree(path.parent)
        if self.places is not None:
            self.places.remove(self._used.pop(path))

    def _place(self, path: Path) -> str:
        return self._used.get(path, "")

    def finish(self, path: Path, turn: str, life: int, **options: Any) -> int:
        """How many commits it took."""
        code, commits = self._attempt(path, turn, life=life, **options)
        assert code == 0
        return int(commits)

    def crash(self, path: Path, turn: str, life: int, point: Point, **options: Any) -> bool:
        """Whether it died: recovering may take fewer commits than that."""
        number, side = point
        code, _ = self._attempt(path, turn, life=life, deadly=number, side=side, **options)
        return bool(code == KILLED)

    def _attempt(self, path: Path, turn: str, **options: Any) -> tuple[int, Any]:
        facts = (str(path), turn, *self.ports)
        return self.lab.run("attempt turn", *facts, place=self._place(path), **options)


@pytest.fixture
def bench(lab: TurnLab, folder: Path, model_port: int, tools_port: int) -> Bench:
    return Bench(lab, folder, (model_port, tools_port))


@pytest.mark.timeout(300)
def test_a_turn_survives_a_crash_at_any_commit(bench: Bench) -> None:
    path, turn = bench.prepared()
    commits = bench.finish(path, turn, life=0)
    assert commits >= 6 + 2 * 5
    for point in points(commits):
        path, turn = bench.prepared()
        assert bench.crash(path, turn, 0, point)
        bench.finish(path, turn, life=1)
        bench.remove(path)


@pytest.mark.timeout(3600 if IS_STORM else 300)
def test_a_turn_survives_a_second_crash_at_any_commit_of_its_recovery(bench: Bench) -> None:
    """In a storm, at all pairs."""
    path, turn = bench.prepared()
    commits = bench.finish(path, turn, life=0)
    pairs = [(first, second) for first in points(commits) for second in points(commits)]
    deaths = 0
    for first, second in pairs if IS_STORM else pairs[:: len(pairs) // 25]:
        path, turn = bench.prepared()
        assert bench.crash(path, turn, 0, first)
        deaths += bench.crash(path, turn, 1, second)
        bench.finish(path, turn, life=2)
        bench.remove(path)
    assert deaths >= 5


@pytest.fixture(scope="module")
def databases(postgres_url: str) -> Iterator[Places]:
    made = Databases(postgres_url, PostgresTurns)
    yield made
    made.close()


@pytest.fixture(scope="module")
def mongo_databases(mongo_url: str) -> Iterator[Places]:
    made = MongoDatabases(mongo_url, MongoTurns, COLLECTIONS)
    yield made
    made.close()


@pytest.mark.timeout(3600 if IS_STORM else 300)
@pytest.mark.parametrize("places", ["databases", "mongo_databases"], ids=["postgres", "mongo"])
def test_a_turn_on_a_server_survives_crashes_at_any_commit(
    bench: Bench, places: str, request: pytest.FixtureRequest
) -> None:
    """Two of them, one after the other."""
    bench.places = request.getfixturevalue(places)
    path, turn = bench.prepared()
    found = points(bench.finish(path, turn, life=0))
    bench.remove(path)
    for first in found if IS_STORM else found[3::17]:
        for second in found[::5] if IS_STORM else found[8::23]:
            path, turn = bench.prepared()
            assert bench.crash(path, turn, 0, first)
            bench.crash(path, turn, 1, second)
            bench.finish(path, turn, life=2)
            bench.remove(path)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("defect", ["fresh keys", "doubts are ignored", "answers come late"])
def test_the_search_finds_a_journal_whose(bench: Bench, defect: str) -> None:
    """Calls have a new key each time, or unknown effects are repeated, or answers are written
    after their tools were called."""
    path, turn = bench.prepared()
    commits = bench.finish(path, turn, life=0, defect=defect)  # unless somebody dies, all is well

    def search() -> None:
        for point in points(commits):
            path, turn = bench.prepared()
            bench.crash(path, turn, 0, point, defect=defect)
            bench.finish(path, turn, life=1, defect=defect)

    with pytest.raises(AssertionError):
        search()
