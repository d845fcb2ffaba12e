"""The engine on PostgreSQL and MongoDB, each durable, beside bare loops of the same database.

A bare loop makes the same two commits for each task with the driver alone, and nothing else: it
reads nothing, decides nothing, and knows no leases or fences. Beside it stands one that changes a
single row in each commit. Procrastinate and DBOS do tasks on the same PostgreSQL. Handlers do
nothing, so that all time is the machinery's; rates are counted from the start of the first handler,
ours as theirs. What is compared is measured in turns, and of several turns the median counts.
"""

from __future__ import annotations

import select
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from statistics import median
from typing import Any

from afl.bootstrap import open_store
from afl.clock import SYSTEM_CLOCK
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.types import WorkflowId
from afl.testing.servers import MongoServer, PostgresServer, Server
from benchmarks.bare_stores import prepare_bare
from benchmarks.engine import chain, foreach, growth
from benchmarks.measure import in_turns, judged_at_least, percentile, times
from benchmarks.store_process import SLOTS
from benchmarks.workers import (
    judged_latency,
    latencies,
    peer_command,
    process,
    wait_for_runs,
)

#: Tasks for all workers, one by one and together; and how many workers there are.
TASKS, TOGETHER = 1_000, 4_000
WORKERS = (1, 4, 8)
LOOPS = ("ours", "bare", "bare_row")
ROUNDS, PEER_ROUNDS, GROWTH_ROUNDS = 5, 3, 5
#: In times of one bare loop.
ONE_BY_ONE_AIM, TOGETHER_AIM = 0.6, 1.8
PEERS, PEER_TASKS, PEERS_AIM = ("procrastinate", "procrastinate_at_once", "dbos"), 1_000, 5.0
WAKE_MS = 10.0


def run() -> dict[str, Any]:
    with PostgresServer(is_durable=True) as postgres, MongoServer(is_durable=True) as mongo:
        of_postgres = _results(postgres) | {"peers": _peers(postgres.url)}
        return {"postgres": of_postgres, "mongo": _results(mongo)}


def _results(server: Server) -> dict[str, Any]:
    url = server.url
    with closing(open_store(url)) as store:
        bare, one_by_one = _one_by_one(url, store)
        return {
            "one_by_one": one_by_one,
            "together": _together(url, store, bare),
            "wake_up": _wake_up(url, store),
            "growth": growth(foreach, SLOTS, lambda: _evaluator(store), GROWTH_ROUNDS),
        }


@contextmanager
def _evaluator(store: PersistenceAPI) -> Iterator[Evaluator]:
    yield Evaluator(store)


# Tasks a second


def _one_by_one(url: str, store: PersistenceAPI) -> tuple[float, dict[str, Any]]:
    """The rate of a bare loop, and what was measured."""

    def rates(workers: int, rounds: int) -> dict[str, Sequence[float]]:
        kinds = {each: partial(_loop_rate, url, store, each, workers) for each in LOOPS}
        return in_turns(rounds, kinds)

    found = {each: rates(each, ROUNDS if each == 1 else 1) for each in WORKERS}
    alone = found[1]
    per_second = {
        f"{kind}_per_second": _named({each: median(found[each][kind]) for each in WORKERS})
        for kind in LOOPS
    }
    return median(alone["bare"]), judged_at_least(
        times(alone["ours"], alone["bare"]),
        ONE_BY_ONE_AIM,
        unit="times a bare loop with the same commits, one worker, the median",
        times_a_loop_with_one_row=round(times(alone["ours"], alone["bare_row"]), 3),
        **per_second,
    )


def _together(url: str, store: PersistenceAPI, bare: float) -> dict[str, Any]:
    """With workers as we ship them, for whom all tasks wait when they start."""
    rates = {each: _worker_rate(url, store, each) for each in WORKERS}
    batched = _loop_rate(url, store, "bare_rows", 1)
    facts = {"tasks_per_second": _named(rates), "bare_rows_batched_per_second": round(batched)}
    return judged_at_least(
        rates[1] / bare, TOGETHER_AIM, unit="times a bare loop one by one, one worker", **facts
    )


def _wake_up(url: str, store: PersistenceAPI) -> dict[str, Any]:
    """From the moment a task is durable to its start in an idle worker."""
    from_call, from_return = latencies(url, store)
    return judged_latency(
        from_return, WAKE_MS, from_call_of_submit=round(percentile(from_call, 50), 2)
    )


def _named(rates: dict[int, float]) -> dict[str, int]:
    return {f"{number}_workers": round(rate) for number, rate in rates.items()}


def _submit(store: PersistenceAPI, count: int) -> Sequence[WorkflowId]:
    """A run for each task."""
    evaluator = Evaluator(store)
    program, inputs = chain(1)
    with ThreadPoolExecutor(16) as threads:
        return list(threads.map(lambda _: evaluator.submit(program, "W", inputs), range(count)))


def _loop_rate(url: str, store: PersistenceAPI, kind: str, workers: int) -> float:
    """Tasks in a second, until none of them finds anything more."""
    if kind == "ours":
        _submit(store, TASKS)
    else:
        prepare_bare(url, TASKS)
    with _started(url, kind, workers) as processes:
        started = _begin(processes)
        ended = max(float(each.stdout.readline()) for each in processes)
        return TASKS / (ended - started)


def _worker_rate(url: str, store: PersistenceAPI, workers: int) -> float:
    runs = _submit(store, TOGETHER)
    with _started(url, "worker", workers) as processes:
        _begin(processes)
        wait_for_runs(store, runs)
        ended = SYSTEM_CLOCK.monotonic()
        # One that came too late for any task tells nothing.
        told = select.select([each.stdout for each in processes], [], [], 0)[0]
        return TOGETHER / (ended - min(float(each.readline()) for each in told))


@contextmanager
def _started(url: str, kind: str, count: int) -> Iterator[list[Any]]:
    command = ["benchmarks.store_process", kind, url]
    with ExitStack() as stack:
        processes = [stack.enter_context(process(command)) for _ in range(count)]
        for each in processes:
            assert each.stdout.readline() == "ready\n"
        yield processes


def _begin(processes: Sequence[Any]) -> float:
    started = SYSTEM_CLOCK.monotonic()
    for each in processes:
        each.stdin.write("\n")
        each.stdin.flush()
    return started


# Peers


def _peers(url: str) -> dict[str, Any]:
    """Procrastinate as it comes, which does one task at a time, and told to do many at once."""
    with closing(open_store(url)) as store:
        peers = {name: partial(_peer_rate, name, url) for name in PEERS}
        rates = in_turns(PEER_ROUNDS, {"ours": partial(_worker_rate, url, store, 1), **peers})
    ours = rates.pop("ours")
    return {
        name: judged_at_least(
            times(ours, each),
            PEERS_AIM,
            unit="times its rate, the median",
            tasks_per_second=[round(rate) for rate in each],
        )
        for name, each in rates.items()
    }


def _peer_rate(name: str, url: str) -> float:
    url = _own_database(url, name)
    subprocess.run(peer_command(name, url, "send", str(PEER_TASKS)), check=True)
    with process(peer_command(name, url, "work", str(PEER_TASKS))[2:]) as worker:
        return (PEER_TASKS - 1) / float(worker.stdout.readline())


def _own_database(url: str, name: str) -> str:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())
        connection.execute(f"CREATE DATABASE {name}".encode())
    return f"{url.rpartition('/')[0]}/{name}"
