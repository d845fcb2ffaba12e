"""Real worker processes on one store: racing, killed, stopped and gone on with."""

from __future__ import annotations

import os
import random
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path

import pytest
from tests.contracts import mongo_stores
from tests.contracts.postgres_stores import emptied
from tests.engine.cases import BY_NAME, CASES, check_result, expected
from tests.engine.lab import KILLED, Lab
from tests.engine.ledger import Ledger
from tests.engine.places import Store, open_at
from tests.engine.profile import IS_STORM
from tests.engine.programs import Case
from tests.engine.rest import check_rest, shape_of

from afl.clock import SYSTEM_CLOCK
from afl.runtime.evaluator import Evaluator
from afl.runtime.types import WorkflowId

WORKERS = 4
STORM_S = 120 if IS_STORM else 4
#: A MongoDB beside other tests is slow.
SLOW = () if IS_STORM else ("mongodb:",)
ROUND_S = 0.03
#: Shorter than most halts: a worker that goes on finds its task with somebody else.
LEASE_MS = 300
GATE = BY_NAME["one event"]
Runs = list[tuple[Case, WorkflowId]]


def submit(evaluator: Evaluator, cases: list[Case]) -> Runs:
    return [(case, evaluator.submit(case.program, case.workflow, case.inputs)) for case in cases]


@pytest.fixture(params=["sqlite", "postgres", "mongo"])
def place(request: pytest.FixtureRequest, folder: Path) -> str:
    if request.param == "sqlite":
        return str(folder / "afl.db")
    if request.param == "postgres":
        return emptied(request.getfixturevalue("postgres_url"))
    return mongo_stores.emptied(request.getfixturevalue("mongo_url"))


def some_cases(place: str) -> list[Case]:
    return CASES[::2] if place.startswith(SLOW) else CASES * 2


def check_ends(store: Store, runs: Runs, ledger: Ledger) -> None:
    evaluator = Evaluator(store)
    for case, run_id in runs:
        check_rest(store, run_id)
        check_result(case, evaluator.result(run_id))
        assert shape_of(store, run_id) == expected(case.name).shape
        ledger.check(case.name, run_id)


def test_processes_that_race_for_tasks_do_each_once(lab: Lab, ledger: Ledger, place: str) -> None:
    with open_at(place) as store:
        runs = submit(Evaluator(store), some_cases(place))
        # Longer than any pause of the machine: no task may be done by two.
        workers = [lab.start("work", place, ledger.port, lease_ms=600_000) for _ in range(WORKERS)]
        done = [lab.wait(each)[1] for each in workers]
        check_ends(store, runs, ledger)
        assert sum(done) == sum(expected(case.name).claims for case, _ in runs)
        deliveries = [each.deliveries for _, run_id in runs for each in ledger.entries(run_id)]
        assert sum(deliveries) == sum(done)


class Supervisor:
    """Keeps workers alive, and does them harm."""

    def __init__(self, lab: Lab, place: str, port: int) -> None:
        self._lab = lab
        self._order = (place, port)
        self._random = random.Random(4)
        self._workers = [self._start() for _ in range(WORKERS)]
        #: Workers that are halted, and how many rounds they stay so.
        self._halted: dict[int, int] = {}
        self.kills = 0
        self.halts = 0

    def storm(self, stop: threading.Event) -> None:
        """Go on until told to stop; then nobody is halted any more."""
        while not SYSTEM_CLOCK.wait(stop, ROUND_S):
            self._resume()
            self._harm(self._random.randrange(WORKERS))
        for pid in self._halted:
            os.kill(pid, signal.SIGCONT)

    def wait(self) -> None:
        """Until all workers have come to their end."""
        for pid in self._workers:
            assert self._lab.wait(pid)[0] == 0

    def _resume(self) -> None:
        # Soon enough: one that is halted in a transaction keeps everybody else from writing.
        self._halted = {pid: rounds - 1 for pid, rounds in self._halted.items()}
        for pid in [pid for pid, rounds in self._halted.items() if rounds == 0]:
            del self._halted[pid]
            os.kill(pid, signal.SIGCONT)

    def _harm(self, place: int) -> None:
        pid = self._workers[place]
        if pid not in self._halted and self._random.random() < 0.5:
            os.kill(pid, signal.SIGSTOP)
            self._halted[pid] = self._random.randrange(5, 25)
            self.halts += 1
        else:
            os.kill(pid, signal.SIGKILL)
            self._halted.pop(pid, None)
            assert self._lab.wait(pid)[0] == KILLED
            self.kills += 1
            self._workers[place] = self._start()

    def _start(self) -> int:
        return self._lab.start("work", *self._order, lease_ms=LEASE_MS)


def test_runs_survive_a_storm_of_kills(lab: Lab, ledger: Ledger, place: str) -> None:
    stop = threading.Event()
    with open_at(place) as store, ThreadPoolExecutor(1) as pool:
        evaluator = Evaluator(store)
        # Nobody works on this one; as long as it waits, the workers look for more.
        gate = evaluator.submit(GATE.program, GATE.workflow, GATE.inputs, task_list="gate")
        runs = submit(evaluator, some_cases(place))
        supervisor = Supervisor(lab, place, ledger.port)
        storm = pool.submit(supervisor.storm, stop)
        with ExitStack() as ending:
            ending.callback(stop.set)
            ends = SYSTEM_CLOCK.monotonic() + (STORM_S / 2 if place.startswith(SLOW) else STORM_S)
            cases = cycle(CASES)
            while SYSTEM_CLOCK.monotonic() < ends:
                runs += submit(evaluator, [next(cases)])
                store.wait_for_run(runs[-1][1], ROUND_S)
        storm.result()
        evaluator.cancel(gate)
        supervisor.wait()
        assert supervisor.kills
        assert supervisor.halts
        check_ends(store, runs, ledger)
