"""Workers on SQLite with full durability, beside celery, dramatiq and huey in the same run.

The peers keep their queue in Valkey, once with `appendfsync always`, which is as durable as we
are, and once with its default. Handlers do nothing, so that all time is the machinery's; rates are
counted from the start of the first handler, ours as theirs. How fast machines are differs by half
and more from hour to hour: so rates are judged in times of dramatiq's, measured in turns with ours;
of several turns the median counts.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from afl.clock import SYSTEM_CLOCK
from afl.collector import collector_rare
from afl.runtime.agent_poller import AgentPoller, AgentPollerConfig
from afl.runtime.entities import RunnerState
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.sql_store import SqliteStore
from afl.runtime.types import WorkflowId
from benchmarks.engine import NAME, chain, fan_out
from benchmarks.measure import in_turns, judged, judged_at_least, percentile, times
from benchmarks.sqlite import bare_connection, bare_transaction
from benchmarks.worker_process import SLOTS

TASKS = 5_000
#: Worker processes on one file, where several are measured.
CROWD = 2
PEER_TASKS = 2_000
PEERS = ("celery", "dramatiq", "huey")
#: Where dramatiq did 2,811 tasks in a second, at its default durability.
PER_SECOND = 5_000
YARDSTICK, TIMES_YARDSTICK = "dramatiq", PER_SECOND / 2_811
ROUNDS, WAITING_ROUNDS = 5, 3
LATENCIES, LATENCY_MS = 200, 3.0
WAITING, WAITING_S = 2_000, 2.0
IDLE_S, IDLE_PERCENT, IDLE_MB = 10.0, 0.5, 60.0
#: Lease in milliseconds, and the longest time until its work runs elsewhere.
RESCUES = {"default_lease": (15_000, 20.0), "lease_of_1_s": (1_000, 2.0)}


def run() -> dict[str, Any]:
    return {
        **_throughput(),
        "peers_tasks_per_second": {
            "appendfsync_always": _peers("always"),
            "appendfsync_everysec": _peers("everysec"),
        },
        "submit_to_start": _sqlite_latency(),
        "peers_submit_to_start_ms": _peer_latencies(),
        "waiting_async_handlers": judged(_waiting_s(), WAITING_S, unit=f"s for {WAITING} of 1 s"),
        "idle": _idle(),
        "after_sigkill": {
            name: judged(_rescue_s(lease_ms), aim, unit="s until its task runs elsewhere")
            for name, (lease_ms, aim) in RESCUES.items()
        },
    }


# Throughput

Start = Callable[[Evaluator], Sequence[WorkflowId]]


def _big(evaluator: Evaluator) -> Sequence[WorkflowId]:
    program, inputs = fan_out(TASKS)
    return [evaluator.submit(program, "W", inputs)]


def _each(evaluator: Evaluator, count: int = TASKS) -> Sequence[WorkflowId]:
    program, inputs = chain(1)
    return [evaluator.submit(program, "W", inputs) for _ in range(count)]


def _throughput() -> dict[str, Any]:
    shapes: dict[str, Start] = {"one_big_run": _big, "one_run_each": _each}
    measures: dict[str, Callable[[], float]] = {
        YARDSTICK: partial(_peer_rate, YARDSTICK, "everysec"),
        **{name: partial(_rate, start) for name, start in shapes.items()},
        f"one_run_each_{CROWD}_workers": _crowd_rate,
    }
    rates = in_turns(ROUNDS, measures)
    yardstick = rates.pop(YARDSTICK)
    return {
        name: judged_at_least(
            times(each, yardstick),
            round(TIMES_YARDSTICK, 2),
            unit=f"times one process of {YARDSTICK} in the same minutes, the median",
            tasks_per_second=[round(rate) for rate in each],
            yardstick_per_second=[round(rate) for rate in yardstick],
            is_5000_per_second=max(each) >= PER_SECOND,
        )
        for name, each in rates.items()
    }


def _rate(start: Start) -> float:
    """Tasks in a second, from the start of the first handler."""
    starts: list[float] = []

    def echo(payload: dict[str, Any]) -> dict[str, Any]:
        if not starts:
            starts.append(SYSTEM_CLOCK.monotonic())
        return {"n": payload["n"]}

    _, ended = _worked(start, echo, SLOTS)
    return TASKS / (ended - starts[0])


def _crowd_rate() -> float:
    """Runs of one task each, as many for each of several workers as for one: as `_rate` counts."""
    tasks = CROWD * TASKS
    with ExitStack() as stack:
        url, store = stack.enter_context(_store())
        workers = [stack.enter_context(_worker(url, kind="crowd")) for _ in range(CROWD)]
        runs = _each(Evaluator(store), tasks)
        for each in workers:
            print(file=each.stdin, flush=True)
        wait_for_runs(store, runs)
        ended = SYSTEM_CLOCK.monotonic()
        return tasks / (ended - min(float(each.stdout.readline()) for each in workers))


def _worked(start: Start, handler: Callable[..., Any], slots: int) -> tuple[float, float]:
    """When a worker was started, and when all runs were durably over."""
    with tempfile.TemporaryDirectory() as folder, SqliteStore(Path(folder, "runs.db")) as store:
        evaluator = Evaluator(store)
        runs = start(evaluator)
        poller = AgentPoller(store, evaluator, AgentPollerConfig(max_concurrent=slots))
        poller.register(NAME, handler)
        thread = threading.Thread(target=poller.start, daemon=True)
        with collector_rare():  # as `afl worker` does
            started = SYSTEM_CLOCK.monotonic()
            thread.start()
            wait_for_runs(store, runs)
            ended = SYSTEM_CLOCK.monotonic()
        poller.stop()
        thread.join()
        return started, ended


def wait_for_runs(store: PersistenceAPI, runs: Sequence[WorkflowId]) -> None:
    """Until all are over. The last one first: asking for each while they are done would take the
    time of who does them."""
    store.wait_for_run(runs[-1])
    for each in store.get_runners_by_state(RunnerState.RUNNING):
        store.wait_for_run(WorkflowId(each.workflow_id))


def _waiting_s() -> float:
    import asyncio

    async def wait(payload: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(1.0)
        return {"n": payload["n"]}

    def start(evaluator: Evaluator) -> Sequence[WorkflowId]:
        program, inputs = fan_out(WAITING)
        return [evaluator.submit(program, "W", inputs)]

    times = (_worked(start, wait, WAITING) for _ in range(WAITING_ROUNDS))
    return min(ended - started for started, ended in times)


# Processes


@contextmanager
def _worker(url: str, lease_ms: int = 15_000, kind: str = "quick") -> Iterator[Any]:
    command = ["benchmarks.worker_process", url, str(lease_ms), kind]
    with process(command) as worker:
        assert worker.stdout.readline() == "ready\n"
        yield worker


@contextmanager
def process(command: Sequence[str]) -> Iterator[Any]:
    full = [sys.executable, "-m", *command]
    with subprocess.Popen(
        full, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as started:
        try:
            yield started
        finally:
            started.kill()


@contextmanager
def _store() -> Iterator[tuple[str, SqliteStore]]:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/runs.db"
        with SqliteStore(url) as store:
            yield url, store


def _sqlite_latency() -> dict[str, Any]:
    with _store() as (url, store):
        from_call, _ = latencies(url, store)
        bare = {"bare_commit_ms": round(_bare_commit_ms(), 2)}
        return judged_latency(from_call, LATENCY_MS, **bare)


def _bare_commit_ms() -> float:
    """What one flushed transaction takes on this disk, half of the time, as rarely as those that
    latencies are measured with."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        connection = stack.enter_context(closing(bare_connection(Path(folder, "bare.db"))))

        def once() -> float:
            SYSTEM_CLOCK.sleep(0.005)
            started = SYSTEM_CLOCK.monotonic()
            bare_transaction(connection)
            return (SYSTEM_CLOCK.monotonic() - started) * 1000

        return percentile(sorted(once() for _ in range(LATENCIES)), 50)


def latencies(url: str, store: PersistenceAPI) -> tuple[list[float], list[float]]:
    """Milliseconds to the first line of the handler, in an idle worker elsewhere: from the call of
    submit, and from its return, when the task is durable. Ordered."""
    program, inputs = chain(1)
    from_call, from_return = [], []
    with _worker(url) as worker:
        evaluator = Evaluator(store)
        for _ in range(LATENCIES):
            called = SYSTEM_CLOCK.monotonic()
            run = evaluator.submit(program, "W", inputs)
            returned = SYSTEM_CLOCK.monotonic()
            began = float(worker.stdout.readline())
            store.wait_for_run(run)
            from_call.append((began - called) * 1000)
            from_return.append(max(began - returned, 0.0) * 1000)
    return sorted(from_call), sorted(from_return)


def judged_latency(ordered: list[float], aim_ms: float, **facts: Any) -> dict[str, Any]:
    facts = {"p99": round(percentile(ordered, 99), 2), "count": len(ordered), **facts}
    return judged(percentile(ordered, 50), aim_ms, unit="ms, p50", **facts)


def _idle() -> dict[str, Any]:
    with _store() as (url, _), _worker(url) as worker:
        before = _cpu_s(worker.pid)
        SYSTEM_CLOCK.sleep(IDLE_S)
        percent = (_cpu_s(worker.pid) - before) / IDLE_S * 100
        return {
            "cpu": judged(percent, IDLE_PERCENT, unit="percent of a core"),
            "memory": judged(_memory_mb(worker.pid), IDLE_MB, unit="MB resident"),
        }


def _cpu_s(pid: int) -> float:
    import os

    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory_mb(pid: int) -> float:
    (line,) = (
        each
        for each in Path(f"/proc/{pid}/status").read_text().splitlines()
        if each.startswith("VmRSS")
    )
    return int(line.split()[1]) / 1024


def _rescue_s(lease_ms: int) -> float:
    """From SIGKILL of a worker to the start of its task in another one, which is idle."""
    program, inputs = chain(1)
    with _store() as (url, store), _worker(url, lease_ms, "endless") as first:
        Evaluator(store).submit(program, "W", inputs)
        first.stdout.readline()
        with _worker(url, lease_ms) as second:
            started = SYSTEM_CLOCK.monotonic()
            first.send_signal(signal.SIGKILL)
            return float(second.stdout.readline()) - started


# Peers


def _peers(appendfsync: str) -> dict[str, int]:
    return {name: round(_peer_rate(name, appendfsync)) for name in PEERS}


def _peer_rate(name: str, appendfsync: str) -> float:
    from afl.testing.servers import ValkeyServer

    with ValkeyServer(appendfsync=appendfsync) as server:
        command = partial(peer_command, name, server.url)
        subprocess.run(command("send", str(PEER_TASKS)), check=True)
        with process(command("work", str(PEER_TASKS))[2:]) as worker:
            return (PEER_TASKS - 1) / float(worker.stdout.readline())


def _peer_latencies() -> dict[str, dict[str, float]]:
    return {name: _peer_latency(name) for name in ("celery", "dramatiq")}


def _peer_latency(name: str) -> dict[str, float]:
    from afl.testing.servers import ValkeyServer
    from benchmarks.peer_process import PEERS as SENDERS

    with ValkeyServer(appendfsync="everysec") as server:
        send = SENDERS[name](server.url, "send", _nothing)
        assert send is not None
        with process(peer_command(name, server.url, "echo")[2:]) as worker:
            send()
            worker.stdout.readline()  # it has started

            def once() -> float:
                SYSTEM_CLOCK.sleep(0.01)
                started = SYSTEM_CLOCK.monotonic()
                send()
                return (float(worker.stdout.readline()) - started) * 1000

            ordered = sorted(once() for _ in range(LATENCIES))
    return {"p50": round(percentile(ordered, 50), 2), "p99": round(percentile(ordered, 99), 2)}


def _nothing() -> None:
    """A task, for who only sends it."""


def peer_command(name: str, url: str, *rest: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks.peer_process", name, url, *rest]
