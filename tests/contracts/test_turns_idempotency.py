"""Every place for idempotency keys lets each of them act once."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from afl.clock import FakeClock
from afl.errors import ConfigurationError
from afl.ids import new_id
from afl.turns.errors import KeyReused
from afl.turns.idempotency import Cells, Held, IdempotencyStore, Kept, KeyBusy
from afl.turns.idempotency.memory import MemoryCells

Advance = Callable[[float], None]


class IdempotencyContract:
    """Subclasses give `place`: cells, and how time passes there."""

    @pytest.fixture
    def place(self) -> Any:
        raise NotImplementedError

    @pytest.fixture
    def cells(self, place: tuple[Cells, Advance]) -> Cells:
        return place[0]

    @pytest.fixture
    def advance(self, place: tuple[Cells, Advance]) -> Advance:
        return place[1]

    @pytest.fixture
    def store(self, cells: Cells) -> IdempotencyStore:
        return IdempotencyStore(cells, window_s=3600, lease_s=30)

    @pytest.fixture
    def key(self) -> str:
        # Tests share servers.
        return new_id()

    def test_the_first_one_acts_and_the_others_get_its_answer(
        self, store: IdempotencyStore, key: str
    ) -> None:
        held = store.begin(key, "request")
        assert isinstance(held, Held)
        assert store.finish(held, b"answer \x00\xff")
        assert store.begin(key, "request") == Kept(b"answer \x00\xff")

    def test_another_request_with_the_key_is_refused(
        self, store: IdempotencyStore, key: str
    ) -> None:
        held = store.begin(key, "request")
        with pytest.raises(KeyReused):
            store.begin(key, "other")
        assert isinstance(held, Held)
        store.finish(held, b"answer")
        with pytest.raises(KeyReused):
            store.begin(key, "other")

    def test_a_twin_waits_until_the_lease_is_over(
        self, store: IdempotencyStore, advance: Advance, key: str
    ) -> None:
        store.begin(key, "request")
        with pytest.raises(KeyBusy) as busy:
            store.begin(key, "request")
        assert 25 < busy.value.seconds_left <= 30
        advance(31)
        assert isinstance(store.begin(key, "request"), Held)

    def test_a_lease_that_is_renewed_holds(
        self, store: IdempotencyStore, advance: Advance, key: str
    ) -> None:
        held = store.begin(key, "request")
        assert isinstance(held, Held)
        advance(20)
        longer = store.extend(held)
        assert longer is not None
        advance(20)
        with pytest.raises(KeyBusy):
            store.begin(key, "request")
        assert store.finish(longer, b"answer")

    def test_a_holder_that_lost_its_key_says_nothing(
        self, store: IdempotencyStore, advance: Advance, key: str
    ) -> None:
        lost = store.begin(key, "request")
        assert isinstance(lost, Held)
        advance(31)
        current = store.begin(key, "request")
        assert isinstance(current, Held)
        assert store.extend(lost) is None
        assert not store.finish(lost, b"late")
        store.release(lost)
        assert store.finish(current, b"answer")
        assert store.begin(key, "request") == Kept(b"answer")

    def test_a_change_that_nobody_heard_of_was_made(
        self, store: IdempotencyStore, key: str
    ) -> None:
        """As in an outage: the holder goes on from what it last heard."""
        held = store.begin(key, "request")
        assert isinstance(held, Held)
        assert store.extend(held)
        assert store.extend(held)
        assert store.finish(held, b"answer")
        assert store.finish(held, b"answer")
        assert not store.finish(held, b"another")
        assert store.extend(held) is None
        assert store.begin(key, "request") == Kept(b"answer")

    def test_who_did_nothing_lets_the_next_one_act(self, store: IdempotencyStore, key: str) -> None:
        held = store.begin(key, "request")
        assert isinstance(held, Held)
        store.release(held)
        assert isinstance(store.begin(key, "request"), Held)

    def test_an_answer_is_kept_for_the_window(
        self, store: IdempotencyStore, advance: Advance, key: str
    ) -> None:
        held = store.begin(key, "request")
        assert isinstance(held, Held)
        advance(20)
        store.finish(held, b"answer")
        advance(3590)
        assert isinstance(store.begin(key, "request"), Kept)

    def test_of_many_who_come_together_one_acts(self, store: IdempotencyStore, key: str) -> None:
        found: list[Any] = []

        def come() -> None:
            try:
                found.append(store.begin(key, "request"))
            except KeyBusy as busy:
                found.append(busy)

        threads = [threading.Thread(target=come) for _ in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert [type(each) for each in found].count(Held) == 1
        assert len(found) == 8

    def test_a_value_is_swapped_only_for_what_it_was(self, cells: Cells, key: str) -> None:
        assert cells.get(key) is None
        assert not cells.swap(key, b"a", b"b", 10_000)
        assert cells.swap(key, None, b"a", 10_000)
        assert not cells.swap(key, None, b"b", 10_000)
        assert not cells.swap(key, b"b", b"c", 10_000)
        assert cells.swap(key, b"a", b"b", 10_000)
        assert cells.get(key) == b"b"
        assert cells.swap(key, b"b", None, 1)
        assert cells.get(key) is None


class TestInMemory(IdempotencyContract):
    @pytest.fixture
    def place(self) -> tuple[Cells, Advance]:
        clock = FakeClock()
        return MemoryCells(clock=clock), clock.advance

    def test_after_the_window_a_key_is_new(
        self, store: IdempotencyStore, advance: Advance, key: str
    ) -> None:
        after_the_window(store, advance, key)


class TestSqlite(IdempotencyContract):
    @pytest.fixture
    def place(self) -> Iterator[tuple[Cells, Advance]]:
        from afl.turns.idempotency.sqlite import SqliteCells

        clock = FakeClock()
        folder = Path(tempfile.mkdtemp(prefix="afl-"))
        with closing(SqliteCells(folder / "afl.db", clock=clock)) as cells:
            yield cells, clock.advance
        shutil.rmtree(folder)

    def test_after_the_window_a_key_is_new(
        self, store: IdempotencyStore, advance: Advance, key: str
    ) -> None:
        after_the_window(store, advance, key)

    def test_new_keys_sweep_out_old_ones(self, tmp_path: Path, key: str) -> None:
        from afl.turns.idempotency.sqlite import SqliteCells

        clock, file = FakeClock(), tmp_path / "afl.db"
        with closing(SqliteCells(file, clock=clock)) as cells:
            after_many_windows(cells, clock.advance, key)
            with closing(sqlite3.connect(file)) as connection:
                found = connection.execute("SELECT key FROM idempotency_key").fetchall()
        assert sorted(each for (each,) in found) == new_keys(key)


class Offset:
    """Moves the clock of a server, as far as our own statements see it."""

    def __init__(self) -> None:
        self._ms = 0

    def __call__(self) -> int:
        return self._ms

    def advance(self, seconds: float) -> None:
        self._ms += round(timedelta(seconds=seconds).total_seconds() * 1000)


class TestPostgres(IdempotencyContract):
    @pytest.fixture
    def place(self, postgres_url: str) -> Iterator[tuple[Cells, Advance]]:
        from afl.turns.idempotency.postgres import PostgresCells

        offset = Offset()
        with closing(PostgresCells(postgres_url, offset=offset)) as cells:
            yield cells, offset.advance

    def test_after_the_window_a_key_is_new(
        self, store: IdempotencyStore, advance: Advance, key: str
    ) -> None:
        after_the_window(store, advance, key)

    def test_new_keys_sweep_out_old_ones(self, postgres_url: str, key: str) -> None:
        import psycopg

        from afl.turns.idempotency.postgres import PostgresCells

        offset, mine = Offset(), "SELECT key FROM afl_idempotency_key WHERE key LIKE %s"
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            with closing(PostgresCells(postgres_url, offset=offset)) as cells:
                # What others have left there would be swept out first.
                connection.execute("DELETE FROM afl_idempotency_key")
                after_many_windows(cells, offset.advance, key)
            found = connection.execute(mine, (f"{key}%",)).fetchall()
        assert sorted(each for (each,) in found) == new_keys(key)


class TestRedis(IdempotencyContract):
    """Its own clock ends the window, which nobody can move."""

    @pytest.fixture
    def place(self, redis_url: str) -> Iterator[tuple[Cells, Advance]]:
        from afl.turns.idempotency.redis import RedisCells

        offset = Offset()
        with closing(RedisCells(redis_url, offset=offset)) as cells:
            yield cells, offset.advance


def after_the_window(store: IdempotencyStore, advance: Advance, key: str) -> None:
    held = store.begin(key, "request")
    assert isinstance(held, Held)
    store.finish(held, b"answer")
    advance(3601)
    again = store.begin(key, "another request")
    assert isinstance(again, Held)
    assert store.finish(again, b"another answer")


def after_many_windows(cells: Cells, advance: Advance, key: str) -> None:
    """Nothing is kept for long after its time, also if nobody asks for it again."""
    for number in range(6):
        assert cells.swap(f"{key}-old-{number}", None, b"a", 10_000)
    advance(11)
    for each in new_keys(key):
        assert cells.swap(each, None, b"a", 10_000)


def new_keys(key: str) -> list[str]:
    return [f"{key}-new-{number}" for number in range(6)]


def test_a_window_is_not_shorter_than_a_drain() -> None:
    with pytest.raises(ConfigurationError, match="drain deadline of 600 s"):
        IdempotencyStore(MemoryCells(), window_s=300, drain_deadline_s=600)
