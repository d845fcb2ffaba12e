"""Workers beside other loops in one group, and as processes of their own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.workers.shop import (
    PATIENCE_S,
    SENT,
    TEXT,
    Gate,
    Shop,
    eventually,
    new_store,
    pack,
    running,
)

from afl import telemetry
from afl.runtime import (
    AgentPoller,
    AgentPollerConfig,
    BaseLoop,
    LoopGroup,
    RegistryRunner,
    RegistryRunnerConfig,
    RunnerConfig,
    RunnerService,
    ServerDefinition,
    ServerState,
    SqliteStore,
    TaskState,
    ToolRegistry,
)
from afl.runtime.entities import FlowDefinition, FlowIdentity, SourceText, TaskDefinition
from afl.telemetry import PhaseChanged

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short enough for sockets beside a file, which pytest's own folders are not."""
    path = Path(tempfile.mkdtemp(prefix="afl-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture(params=["memory", "sqlite"])
def shop(request: pytest.FixtureRequest, folder: Path) -> Iterator[Shop]:
    store = new_store(request.param, folder)
    yield Shop(store)
    store.close()


# In one group


class Idle(BaseLoop):
    """A loop that has nothing to do with tasks."""

    def work(self, stop: threading.Event, **_options: Any) -> None:
        stop.wait()


class Group:
    """The three workers and another loop: one weighs, one packs, one starts runs."""

    def __init__(self, shop: Shop, gate: Gate | None = None, **options: Any) -> None:
        registry = RegistryRunner(shop.store, shop.evaluator, RegistryRunnerConfig(topics=["*.W*"]))
        registry.register_handler("shop.Weigh", "tests.workers.scales", "weigh")
        self.poller = AgentPoller(shop.store, shop.evaluator, AgentPollerConfig())
        self.poller.register("shop.Pack", gate or pack)
        tools = ToolRegistry()
        self.service = RunnerService(shop.store, shop.evaluator, RunnerConfig(), tools)
        loops = [Idle("idle"), registry, self.poller, self.service]
        self.names = ["idle", "afl-registry-runner", "afl-agent", "afl-runner"]
        self.group = LoopGroup(loops, health_port=0, watchdog_threshold=None, **options)

    def get(self, path: str) -> tuple[int, dict[str, Any]]:
        eventually(lambda: self.group.health_address)
        assert self.group.health_address is not None
        url = f"http://127.0.0.1:{self.group.health_address[1]}{path}"
        try:
            with urllib.request.urlopen(url) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, json.load(refused)


def servers(shop: Shop) -> dict[str, ServerDefinition]:
    return {each.service_name: each for each in shop.store.get_all_servers()}


def test_workers_share_a_group_with_other_loops(shop: Shop) -> None:
    phases: list[str] = []

    def hear(event: telemetry.Event) -> None:
        if isinstance(event, PhaseChanged):
            phases.append(event.phase)

    unsubscribe = telemetry.subscribe(hear)
    made = Group(shop)
    with running(made.group):
        eventually(lambda: made.get("/health/ready")[0] == 200)
        assert shop.outputs(shop.send()) == SENT
        loops = made.get("/status")[1]["loops"]
        assert [each["name"] for each in loops] == made.names
        assert {each["state"] for each in loops} == {"running"}
        assert {each.state for each in servers(shop).values()} == {ServerState.RUNNING}
    unsubscribe()
    assert phases == ["warmup", "ready", "drain", "terminate"]
    assert {each.state for each in servers(shop).values()} == {ServerState.SHUTDOWN}
    assert set(servers(shop)) == set(made.names[1:])


def test_a_stop_of_the_group_finishes_what_is_in_hand(shop: Shop) -> None:
    gate = Gate()
    made = Group(shop, gate=gate_for_pack(gate))
    with running(made.group) as run:
        sent = shop.send()
        gate.wait_begun()
        made.group.request_stop()
        eventually(lambda: made.get("/health/ready")[0] == 503)
        assert made.get("/health/live")[0] == 200
        assert made.get("/status")[1]["loops"][2]["in_flight"] == 1
        gate.may_end.set()
        run.join()
    assert shop.outputs(sent) == SENT


def gate_for_pack(gate: Gate) -> Any:
    def wait(payload: dict[str, Any], context: Any) -> dict[str, Any]:
        gate(payload, context)
        return pack(payload)

    return wait


def test_what_does_not_end_in_time_is_given_back(shop: Shop) -> None:
    gate = Gate()
    times = {"drain_deadline_seconds": 10.0, "checkpoint_reserve_seconds": 9.9}
    made = Group(shop, gate=gate_for_pack(gate), **times)
    with running(made.group) as run:
        sent = shop.send()
        gate.wait_begun()
        made.group.request_stop()
        run.join()
        gate.may_end.set()
    assert made.group.abandoned == ()
    [task] = [each for each in shop.tasks(sent) if each.name == "shop.Pack"]
    assert (task.state, task.deliveries) == (TaskState.PENDING, 0)
    assert gate.contexts[0].cancelled


def test_drain_mode_of_the_group_rests_its_workers(shop: Shop) -> None:
    made = Group(shop)
    with running(made.group):
        eventually(lambda: made.get("/health/ready")[0] == 200)
        made.group.drain()
        eventually(lambda: not made.poller.running and not made.service.running)
        assert {each.state for each in servers(shop).values()} == {ServerState.SHUTDOWN}
        sent = shop.send()
        assert shop.task(sent).state == TaskState.PENDING
        made.group.undrain()
        assert shop.outputs(sent) == SENT


def test_a_worker_that_is_paused_makes_the_group_unready_and_goes_on(shop: Shop) -> None:
    made = Group(shop)
    with running(made.group):
        eventually(lambda: made.get("/health/ready")[0] == 200)
        made.poller.pause()
        code, answer = made.get("/health/ready")
        assert code == 503
        assert answer["reasons"] == ["afl-agent: paused: it takes no work"]
        made.poller.unpause()
        assert shop.outputs(shop.send()) == SENT


# As a process


class Runner:
    """`python -m afl.runtime.runner` on a SQLite file."""

    def __init__(self, folder: Path, *options: str) -> None:
        command = [sys.executable, "-m", "afl.runtime.runner", "--store", self.url(folder)]
        self._log = (folder / "runner.log").open("a")
        self.process = subprocess.Popen(
            [*command, "--port", "0", "--heartbeat-interval", "200", *options],
            cwd=ROOT,
            stderr=self._log,
        )

    @staticmethod
    def url(folder: Path) -> str:
        return f"sqlite:///{folder / 'shop.db'}"

    def wait(self) -> int:
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._log.close()


@pytest.fixture
def file_shop(folder: Path) -> Iterator[Shop]:
    store = SqliteStore(folder / "shop.db")
    yield Shop(store)
    store.close()


@pytest.fixture
def start(folder: Path) -> Iterator[Any]:
    runners: list[Runner] = []

    def begin(*options: str) -> Runner:
        runners.append(Runner(folder, *options))
        return runners[-1]

    yield begin
    for each in runners:
        each.close()


def running_server(shop: Shop, pid: int) -> ServerDefinition:
    def find() -> list[ServerDefinition]:
        all_ = shop.store.get_servers_by_state(ServerState.RUNNING)
        return [each for each in all_ if each.pid == pid and each.service_name == "afl-runner"]

    eventually(find)
    return find()[0]


def test_a_runner_does_registered_tasks_and_ends_when_told(
    file_shop: Shop, start: Any, folder: Path
) -> None:
    runner = start("--registry", "--log-file", str(folder / "own.log"), "--log-level", "debug")
    server = running_server(file_shop, runner.process.pid)
    # While it runs: what is registered is noticed long before it would look again.
    for facet, name in (("shop.Weigh", "weigh"), ("shop.Pack", "pack")):
        file_shop.store.register_handler(facet, "tests.workers.scales", name)
    flow = FlowDefinition(
        "f1",
        FlowIdentity("shop", "", "f1"),
        [SourceText("shop.afl", TEXT)],
    )
    file_shop.store.save_flow(flow)
    data = {"flow_id": "f1", "workflow_name": "Send", "inputs": {"item": "cup"}, "runner_id": "r1"}
    file_shop.store.save_task(TaskDefinition("x1", "afl:execute", "", "", "", "", data=data))
    eventually(lambda: file_shop.store.get_runner("r1"))
    run = file_shop.store.get_runner("r1")
    assert run is not None
    assert file_shop.outputs(run.workflow_id) == SENT  # type: ignore[arg-type]
    url = f"http://127.0.0.1:{server.http_port}/status"
    with urllib.request.urlopen(url) as answer:
        assert json.load(answer)["server_id"] == server.uuid
    runner.process.send_signal(signal.SIGTERM)
    assert runner.wait() == 0
    states = {each.state for each in file_shop.store.get_all_servers()}
    assert states == {ServerState.SHUTDOWN}
    logged = [json.loads(each) for each in (folder / "own.log").read_text().splitlines()]
    [served] = [each for each in logged if each["event"] == "health_served"]
    assert served["port"] == server.http_port
    assert "run_ended" in {each["event"] for each in logged}


def status(port: int) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/status") as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def test_a_runner_is_what_its_options_say(file_shop: Shop, start: Any, folder: Path) -> None:
    (folder / "trusted").mkdir()
    shutil.copy(ROOT / "tests/workers/scales.py", folder / "trusted")
    (folder / "own.toml").write_text('[handlers]\npaths = ["trusted"]\n', encoding="utf-8")
    for facet, name in (("shop.Weigh", "weigh"), ("shop.Pack", "pack")):
        uri = (folder / "trusted/scales.py").as_uri()
        file_shop.store.register_handler(facet, uri, name)
    start(
        *("--config", str(folder / "own.toml"), "--registry"),
        *("--server-group", "night", "--service-name", "scales", "--server-name", "cellar"),
        *("--topics", "shop.W*", "other.*", "--task-list", "heavy"),
        *("--poll-interval", "700", "--max-concurrent", "3"),
    )
    eventually(lambda: set(servers(file_shop)) == {"scales", "scales-registry"})
    for each in servers(file_shop).values():
        assert (each.server_group, each.server_name) == ("night", "cellar")
        assert (each.topics, each.task_list) == (["shop.W*", "other.*"], "heavy")
    eventually(lambda: servers(file_shop)["scales-registry"].state == ServerState.RUNNING)
    [port] = {each.http_port for each in servers(file_shop).values()}
    config = status(port)["config"]
    assert (config["poll_interval_ms"], config["max_concurrent"]) == (700, 3)
    run = file_shop.weigh_all("a", task_list="heavy")
    assert file_shop.outputs(run) == {"grams": [100]}
    sent = file_shop.send(task_list="heavy")
    eventually(lambda: [each.name for each in file_shop.tasks(sent)].count("shop.Pack"))
    [left] = [each for each in file_shop.tasks(sent) if each.name == "shop.Pack"]
    assert left.state == TaskState.PENDING
    assert file_shop.task(file_shop.weigh_all("a")).state == TaskState.PENDING


#: Its import ends as soon as somebody opens the pipe beside it.
SLOW = """
from pathlib import Path

(Path(__file__).parent / "go").open("r").close()


def weigh(payload):
    return {"grams": 1}
"""


def why_unready(url: str) -> list[str]:
    try:
        with urllib.request.urlopen(url) as answer:
            reasons: list[str] = json.load(answer)["reasons"]
    except urllib.error.HTTPError as refused:
        with refused:
            reasons = json.load(refused)["reasons"]
    return reasons


def test_a_runner_is_ready_when_its_registered_handlers_are(
    file_shop: Shop, start: Any, folder: Path
) -> None:
    (folder / "slow.py").write_text(SLOW, encoding="utf-8")
    (folder / "own.toml").write_text('[handlers]\npaths = ["."]\n', encoding="utf-8")
    os.mkfifo(folder / "go")
    file_shop.store.register_handler("shop.Weigh", (folder / "slow.py").as_uri(), "weigh")
    runner = start("--registry", "--config", str(folder / "own.toml"))
    port = running_server(file_shop, runner.process.pid).http_port
    url = f"http://127.0.0.1:{port}/health/ready"
    waits = "afl-runner-registry: starting: what it needs is being loaded"
    eventually(lambda: why_unready(url) == [waits])
    (folder / "go").open("w").close()
    eventually(lambda: servers(file_shop)["afl-runner-registry"].state == ServerState.RUNNING)
    assert file_shop.outputs(file_shop.weigh_all("a")) == {"grams": [1]}
    eventually(lambda: why_unready(url) == [])
    done = {"shop.Weigh": {"handled": 1, "not_handled": 0}}
    eventually(lambda: status(port)["handled"] == done)


def test_a_runner_that_was_killed_is_reported_by_the_next_one(file_shop: Shop, start: Any) -> None:
    killed = start()
    lost = running_server(file_shop, killed.process.pid)
    killed.process.kill()
    killed.wait()
    following = start()
    running_server(file_shop, following.process.pid)

    def incidents() -> list[dict[str, Any]]:
        found = file_shop.store.get_server(lost.uuid)
        assert found is not None
        return found.incidents

    eventually(incidents)
    [incident] = incidents()
    assert (
        f"its process {killed.process.pid} on {os.uname().nodename} is gone" in incident["message"]
    )
    reported = file_shop.store.get_server(lost.uuid)
    assert reported is not None
    assert reported.state == ServerState.ERROR
    following.process.send_signal(signal.SIGINT)
    assert following.wait() == 0
