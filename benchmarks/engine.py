"""The engine on SQLite with full durability, beside bare transactions on the same disk.

Every completion is counted after its commit. Handlers do nothing, so that all time is ours.
"""

from __future__ import annotations

import gc
import tempfile
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from afl.clock import SYSTEM_CLOCK
from afl.lang.compiler import compile_source
from afl.lang.program import Program
from afl.runtime.claims import NextClaim
from afl.runtime.evaluator import Evaluator, Pending
from afl.runtime.sql_store import SqliteStore
from benchmarks.measure import judged
from benchmarks.sqlite import bare_connection

NAME = "bench.Work"
#: (a) What the last steps of a large run cost, in times of those of a small one.
SMALL, LARGE, LAST = 1_000, 10_000, 1_000
GROWTH, ROUNDS = 1.3, 3
#: (b) What a step of a chain costs, in times of two bare transactions.
CHAIN, CHAIN_AIM = 1_000, 2.0
#: (c) Independent tasks, at most this many outstanding.
TASKS, OUTSTANDING, PER_SECOND = 5_000, 100, 5_000
#: (d) Bytes for a run that waits.
WAITING, WAITING_BYTES = 1_000, 10_000


def run() -> dict[str, Any]:
    return {
        "chain": _chain_result(),
        "throughput": _throughput(),
        "growth": {name: growth(make, slots) for name, (make, slots) in _SHAPES.items()},
        "waiting_run": _waiting(),
    }


# Programs

_HEAD = "namespace bench\nevent facet Work(n: Long) => (n: Long)\n"


def chain(length: int) -> tuple[Program, dict[str, Any]]:
    steps = "\n".join(f"s{i} = Work(n = s{i - 1}.n)" for i in range(1, length))
    return _compiled(f"s0 = Work(n = $.n)\n{steps}\nyield W(n = s{length - 1}.n)"), {"n": 1}


def fan_out(width: int) -> tuple[Program, dict[str, Any]]:
    steps = "\n".join(f"s{i} = Work(n = {i})" for i in range(width))
    return _compiled(f"{steps}\nyield W(n = s0.n)"), {"n": 1}


def foreach(width: int) -> tuple[Program, dict[str, Any]]:
    text = """workflow W(items: [Long]) => (n: [Long]) andThen foreach i in $.items {
        s = Work(n = i)
        yield W(n = s.n)
    }"""
    return compile_source(_HEAD + text), {"items": list(range(width))}


def _compiled(block: str) -> Program:
    return compile_source(f"{_HEAD}workflow W(n: Long) => (n: Long) andThen {{\n{block}\n}}")


Shape = Callable[[int], tuple[Program, dict[str, Any]]]
#: How each is made, and how many tasks may be outstanding.
_SHAPES: dict[str, tuple[Shape, int]] = {
    "chain": (chain, 1),
    "fan_out": (fan_out, OUTSTANDING),
    "foreach": (foreach, OUTSTANDING),
}


# A worker: results and the next claim share a commit


@contextmanager
def _evaluator() -> Iterator[Evaluator]:
    with tempfile.TemporaryDirectory() as folder, SqliteStore(Path(folder, "runs.db")) as store:
        yield Evaluator(store)


def _work(evaluator: Evaluator, slots: int, limit: int) -> int:
    """Complete up to `limit` tasks, with at most `slots` outstanding; how many there were."""
    done, claimed = 0, 0
    under_way: deque[Pending] = deque()
    while True:
        free = min(slots, limit - claimed)
        tasks = evaluator.persistence.claim_tasks([NAME], free) if free else []
        claimed += len(tasks)
        while under_way:
            under_way.popleft().result()
            done += 1
        if not tasks:
            return done
        under_way.extend(evaluator.complete_task_later(task, task.data) for task in tasks)


def _work_on(evaluator: Evaluator, limit: int) -> int:
    """Like `_work` for one slot, but go on with what each result makes possible."""
    claim = NextClaim(frozenset({NAME}), "bench")
    tasks = evaluator.persistence.claim_tasks([NAME], 1, owner=claim.owner)
    done = 0
    while tasks:
        following = claim if done + 1 < limit else None
        tasks = evaluator.complete_task(tasks[0], tasks[0].data, claim=following)
        done += 1
    return done


def _timed(action: Callable[[], object]) -> float:
    gc.collect()
    started = SYSTEM_CLOCK.monotonic()
    action()
    return SYSTEM_CLOCK.monotonic() - started


# Measurements


def _chain_result() -> dict[str, Any]:
    bare, ours = float("inf"), float("inf")
    for _ in range(3):
        bare = min(bare, _bare_pairs(CHAIN))
        with _evaluator() as evaluator:
            evaluator.submit(*_started(chain(CHAIN)))
            ours = min(ours, _timed(lambda each=evaluator: _work_on(each, CHAIN)))  # type: ignore[misc]
    return judged(
        ours / bare,
        CHAIN_AIM,
        unit="times two bare transactions for each step",
        step_ms=round(ours / CHAIN * 1000, 3),
        bare_ms=round(bare / CHAIN * 1000, 3),
    )


def _started(made: tuple[Program, dict[str, Any]]) -> tuple[Program, str, dict[str, Any]]:
    program, inputs = made
    return program, "W", inputs


def _bare_pairs(count: int) -> float:
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(bare_connection(Path(folder, "bare.db"))) as connection,
    ):

        def pairs() -> None:
            for _ in range(2 * count):
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("INSERT INTO item (state) VALUES ('new')")
                connection.execute("UPDATE item SET state = 'done' WHERE id = 1")
                connection.execute("COMMIT")

        return _timed(pairs)


def _throughput() -> dict[str, Any]:
    program = fan_out(TASKS)
    seconds = bare = float("inf")
    for _ in range(3):
        with _evaluator() as evaluator:
            evaluator.submit(*_started(program))
            seconds = min(seconds, _timed(lambda each=evaluator: _work(each, OUTSTANDING, TASKS)))  # type: ignore[misc]
        bare = min(bare, _bare_batches())
    return {
        "tasks_per_second": round(TASKS / seconds),
        "aim": PER_SECOND,
        "met": TASKS / seconds >= PER_SECOND,
        "bare_batched_per_second": round(TASKS / bare),
        "times_the_bare_time": round(seconds / bare, 2),
    }


def _bare_batches() -> float:
    """A claim and a completion of each task, as bare updates, in batches of the same size."""
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(bare_connection(Path(folder, "bare.db"))) as connection,
    ):
        rows = [("new",)] * TASKS
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO item (state) VALUES (?)", rows)
        connection.execute("COMMIT")

        def batches() -> None:
            for first in range(0, TASKS, OUTSTANDING):
                keys = [(each,) for each in range(first + 1, first + OUTSTANDING + 1)]
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany("UPDATE item SET state = 'claimed' WHERE id = ?", keys)
                connection.executemany("UPDATE item SET state = 'done' WHERE id = ?", keys)
                connection.execute("COMMIT")

        return _timed(batches)


Opened = Callable[[], AbstractContextManager[Evaluator]]


class _Costs(NamedTuple):
    """In seconds."""

    steps: float
    end: float


def growth(
    make: Shape, slots: int, opened: Opened = _evaluator, rounds: int = ROUNDS
) -> dict[str, Any]:
    # In turns, so that noise hits both alike.
    times = [
        [_last_steps(make, size, slots, opened) for size in (SMALL, LARGE)] for _ in range(rounds)
    ]
    small, large = (
        _Costs(min(each.steps for each in some), min(each.end for each in some))
        for some in zip(*times, strict=True)
    )
    return judged(
        large.steps / small.steps,
        GROWTH,
        unit=f"cost of a step, the last {LAST} of {LARGE}, in times of those of {SMALL}",
        small_ms=_ms(small.steps / LAST),
        large_ms=_ms(large.steps / LAST),
        end_of_small_run_ms=_ms(small.end),
        end_of_large_run_ms=_ms(large.end),
    )


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)


def _last_steps(make: Shape, size: int, slots: int, opened: Opened) -> _Costs:
    """Of the last steps but one; and of that one, which collects what all have given."""
    with opened() as evaluator:
        evaluator.submit(*_started(make(size)))
        _work(evaluator, slots, size - LAST)
        steps = _timed(lambda: _work(evaluator, slots, LAST - 1))
        return _Costs(steps, _timed(lambda: _work(evaluator, slots, 1)))


def _waiting() -> dict[str, Any]:
    program, inputs = chain(3)
    with _evaluator() as evaluator:
        evaluator.submit(program, "W", inputs)  # what all runs share
        store = evaluator.persistence
        assert isinstance(store, SqliteStore)
        file = Path(store.database.path)
        gc.collect()
        tracemalloc.start()
        before, size = tracemalloc.get_traced_memory()[0], _on_disk(file)
        for _ in range(WAITING):
            evaluator.submit(program, "W", inputs)
        gc.collect()
        memory = (tracemalloc.get_traced_memory()[0] - before) / WAITING
        tracemalloc.stop()
        disk = (_on_disk(file) - size) / WAITING
    return judged(
        memory, WAITING_BYTES, unit="bytes of memory for a waiting run", disk_bytes=round(disk)
    )


def _on_disk(file: Path) -> int:
    """The file itself: the log beside it is emptied into it."""
    import sqlite3

    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return file.stat().st_size
