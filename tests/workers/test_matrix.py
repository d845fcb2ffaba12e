"""What each way to do tasks can, side by side: one test for each row of the comparison.

"No" means: not by itself. A `LoopGroup` adds signals and health to every worker.
"""

from __future__ import annotations

import inspect
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from tests.workers import scales
from tests.workers.shop import (
    PROGRAM,
    TEXT,
    Aside,
    Gate,
    Shop,
    eventually,
    running,
    weigh,
)

from afl.operations import runs
from afl.runtime import (
    AgentPoller,
    AgentPollerConfig,
    ClaudeAgentRunner,
    ExecutionResult,
    ExecutionStatus,
    FlowDefinition,
    FlowIdentity,
    MemoryStore,
    RegistryRunner,
    RegistryRunnerConfig,
    RunnerConfig,
    RunnerService,
    SourceText,
    TaskDefinition,
    TaskState,
    ToolRegistry,
)

#: Beats are quick; polls are what nobody waits for.
OPTIONS: dict[str, Any] = {"heartbeat_interval_ms": 10, "poll_interval_ms": 20}
NAMES = ("shop.Weigh", "shop.Pack")

Does = Callable[[dict[str, Any], Any], Any]


@pytest.fixture
def shop() -> Iterator[Shop]:
    shop = Shop(MemoryStore())
    yield shop
    shop.store.close()


@pytest.fixture(autouse=True)
def _usual_scales() -> Iterator[None]:
    yield
    scales.does = None


# The columns: each makes a worker whose handlers are those of `scales`


def registry_runner(shop: Shop, names: Any = NAMES, **options: Any) -> RegistryRunner:
    runner = RegistryRunner(shop.store, shop.evaluator, RegistryRunnerConfig(**OPTIONS, **options))
    for each in names:
        runner.register_handler(each, "tests.workers.scales", each.rpartition(".")[2].lower())
    return runner


def agent_poller(shop: Shop, names: Any = NAMES, **options: Any) -> AgentPoller:
    poller = AgentPoller(shop.store, shop.evaluator, AgentPollerConfig(**OPTIONS, **options))
    for each in names:
        poller.register(each, getattr(scales, each.rpartition(".")[2].lower()))
    return poller


def runner_service(shop: Shop, names: Any = NAMES, **options: Any) -> RunnerService:
    config = RunnerConfig(http_port=0, **OPTIONS, **options)
    return RunnerService(shop.store, shop.evaluator, config, tools(names))


def tools(names: Any = NAMES) -> ToolRegistry:
    made = ToolRegistry()
    for each in names:
        made.register(each, getattr(scales, each.rpartition(".")[2].lower()))
    return made


def claude(shop: Shop, names: Any = NAMES) -> Callable[..., ExecutionResult]:
    """Runs `WeighAll` with its tools; no model is asked, since all facets have one."""
    runner = ClaudeAgentRunner(shop.evaluator, shop.store, tool_registry=tools(names))

    def run(*items: str) -> ExecutionResult:
        return runner.run({"name": "shop.WeighAll"}, {"items": list(items)}, program_ast=PROGRAM)

    return run


WORKERS = [registry_runner, agent_poller, runner_service]
each_worker = pytest.mark.parametrize("worker", WORKERS)


@dataclass(frozen=True)
class Watched:
    """What was seen while a handler of a worker was at work."""

    locks: int
    servers: int
    ports: tuple[int, ...]


def watched(shop: Shop, do: Callable[[], object]) -> Watched:
    """Look around from inside of a handler that `do` has called."""
    seen: list[Watched] = []

    def look(payload: dict[str, Any], _context: Any) -> dict[str, Any]:
        servers = shop.store.get_all_servers()
        ports = tuple(each.http_port for each in servers)
        seen.append(Watched(len(shop.store.get_all_locks()), len(servers), ports))
        return weigh(payload)

    scales.does = look
    do()
    return seen[0]


def watched_worker(shop: Shop, worker: Any) -> Watched:
    def do() -> None:
        with running(worker):
            shop.outputs(shop.weigh_all("a"))

    return watched(shop, do)


# The rows


@each_worker
def test_task_queue_polling(shop: Shop, worker: Any) -> None:
    run = shop.weigh_all("a")
    assert worker(shop).poll_once() == 1
    assert shop.outputs(run) == {"grams": [100]}


def test_task_queue_polling_is_nothing_for_claude(shop: Shop) -> None:
    waiting = shop.weigh_all("a")
    assert claude(shop)("b").outputs == {"grams": [100]}
    assert shop.task(waiting).state == TaskState.PENDING


@pytest.mark.parametrize(
    ("worker", "polls"), [(registry_runner, False), (agent_poller, False), (runner_service, True)]
)
def test_step_state_polling(shop: Shop, worker: Any, polls: bool) -> None:
    run = shop.weigh_all("a")
    shop.store.update_task_state(shop.task(run).uuid, TaskState.COMPLETED)
    made = worker(shop)
    (made.run_once if polls else made.poll_once)()
    found = shop.store.get_run(run)
    assert found is not None
    assert found.is_over is polls


@pytest.mark.parametrize(
    ("worker", "locks"), [(registry_runner, 0), (agent_poller, 0), (runner_service, 1)]
)
def test_distributed_locking(shop: Shop, worker: Any, locks: int) -> None:
    assert watched_worker(shop, worker(shop)).locks == locks


@pytest.mark.parametrize(
    ("worker", "serves"), [(registry_runner, False), (agent_poller, False), (runner_service, True)]
)
def test_http_status_server(shop: Shop, worker: Any, serves: bool) -> None:
    made = worker(shop)
    started: list[Aside] = []

    def do() -> None:
        started.append(Aside(made.start))
        shop.outputs(shop.weigh_all("a"))

    seen = watched(shop, do)
    made.stop()
    started[0].join()
    assert any(seen.ports) is serves


@each_worker
def test_server_registration(shop: Shop, worker: Any) -> None:
    assert watched_worker(shop, worker(shop)).servers == 1


def test_claude_has_neither_server_nor_locks(shop: Shop) -> None:
    seen = watched(shop, lambda: claude(shop)("a"))
    assert (seen.locks, seen.servers) == (0, 0)


@each_worker
def test_heartbeat(shop: Shop, worker: Any) -> None:
    made = worker(shop)
    with running(made):
        eventually(lambda: shop.store.get_server(made.server_id))
        first = shop.store.get_server(made.server_id)
        assert first is not None
        eventually(lambda: shop.store.get_server(made.server_id).ping_time > first.ping_time)  # type: ignore[union-attr]


def test_handler_model(shop: Shop) -> None:
    """Registrations in the store, functions, tools, and tools with a model behind them."""
    registry_runner(shop)
    assert {each.facet_name for each in shop.store.list_handler_registrations()} == set(NAMES)
    assert agent_poller(shop).registered_names() == sorted(NAMES)
    assert runner_service(shop).registered_names() == sorted(NAMES)
    assert claude(shop)("a").status == ExecutionStatus.COMPLETED


@each_worker
def test_concurrency_of_one_poll_is_none(shop: Shop, worker: Any) -> None:
    """One after another, on the thread that polls."""
    at_work, most, threads = 0, 0, set()

    def count(payload: dict[str, Any], _context: Any) -> dict[str, Any]:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        threads.add(threading.current_thread())
        at_work -= 1
        return weigh(payload)

    scales.does = count
    shop.weigh_all("a", "b", "c")
    assert worker(shop).poll_once() == 3
    assert (most, threads) == (1, {threading.current_thread()})


@each_worker
def test_concurrency_of_a_start_is_as_configured(shop: Shop, worker: Any) -> None:
    together = threading.Barrier(3, timeout=20)

    def meet(payload: dict[str, Any], _context: Any) -> dict[str, Any]:
        together.wait()
        return weigh(payload)

    scales.does = meet
    with running(worker(shop, max_concurrent=3)):
        assert len(shop.outputs(shop.weigh_all("a", "b", "c"))["grams"]) == 3


def test_concurrency_of_claude_is_none(shop: Shop) -> None:
    """All on one thread."""
    threads = set()

    def look(payload: dict[str, Any], _context: Any) -> dict[str, Any]:
        threads.add(threading.current_thread())
        return weigh(payload)

    scales.does = look
    claude(shop)("a", "b", "c")
    assert len(threads) == 1


@pytest.mark.parametrize(
    ("worker", "hears"), [(registry_runner, False), (agent_poller, False), (runner_service, True)]
)
def test_signal_handling(shop: Shop, worker: Any, hears: bool) -> None:
    before, found = signal.getsignal(signal.SIGTERM), []

    def look(payload: dict[str, Any], _context: Any) -> dict[str, Any]:
        found.append(signal.getsignal(signal.SIGTERM))
        made.request_stop()
        return weigh(payload)

    scales.does = look
    made = worker(shop)
    shop.weigh_all("a")
    made.start()  # here, on the main thread
    assert (found[0] is not before) is hears
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("worker", "does"), [(registry_runner, False), (agent_poller, False), (runner_service, True)]
)
def test_non_event_tasks(shop: Shop, worker: Any, does: bool) -> None:
    sources = [SourceText("shop.afl", TEXT)]
    shop.store.save_flow(FlowDefinition("f1", FlowIdentity("shop", "", "f1"), sources))
    data = {"flow_id": "f1", "workflow_name": "WeighAll", "inputs": {"items": []}}
    shop.store.save_task(TaskDefinition("x1", "afl:execute", "", "", "", "", data=data))
    assert worker(shop).poll_once() == int(does)
    assert len(shop.store.get_all_runners()) == int(does)


@each_worker
def test_ast_caching(shop: Shop, worker: Any) -> None:
    """Accepted; what a run needs travels with it."""
    made = worker(shop)
    run = shop.weigh_all("a")
    made.cache_workflow_ast(run, {"type": "WorkflowDecl", "name": "WeighAll"})
    made.poll_once()
    assert shop.outputs(run) == {"grams": [100]}


@each_worker
def test_short_name_fallback(shop: Shop, worker: Any) -> None:
    run = shop.weigh_all("a")
    worker(shop, names=("Weigh",)).poll_once()
    assert shop.outputs(run) == {"grams": [100]}


def test_short_name_fallback_of_claude(shop: Shop) -> None:
    assert claude(shop, names=("Weigh",))("a").outputs == {"grams": [100]}


def refuse(payload: dict[str, Any], _context: Any) -> None:
    raise ValueError("too heavy")


@each_worker
def test_an_error_fails_the_step(shop: Shop, worker: Any) -> None:
    scales.does = refuse
    run = shop.weigh_all("a")
    worker(shop).poll_once()
    with pytest.raises(runs.RunFailed, match="too heavy"):
        shop.outputs(run)
    assert shop.task(run).state == TaskState.FAILED


def test_an_error_fails_the_step_of_claude(shop: Shop) -> None:
    scales.does = refuse
    result = claude(shop)("a")
    assert result.status == ExecutionStatus.ERROR
    assert "too heavy" in str(result.error)


@pytest.mark.parametrize(
    ("worker", "loads"), [(registry_runner, True), (agent_poller, False), (runner_service, False)]
)
def test_dynamic_handler_loading(shop: Shop, worker: Any, loads: bool) -> None:
    shop.store.register_handler("shop.Weigh", "tests.workers.scales", "weigh")
    shop.weigh_all("a")
    assert worker(shop, names=()).poll_once() == int(loads)


class TestModuleCaching:
    """By module and checksum: one module, however many facets are in it."""

    text: ClassVar[str] = "LOADED = []\ndef weigh(payload): return {'grams': len(LOADED)}\n"

    def test_module_caching(
        self, shop: Shop, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        path = tmp_path / "counted.py"
        path.write_text("import builtins\nbuiltins.loads.append(1)\n" + self.text)
        import builtins

        loads: list[int] = []
        monkeypatch.setattr(builtins, "loads", loads, raising=False)
        runner = registry_runner(shop, names=())
        for facet in ("shop.Weigh", "shop.Other"):
            runner.register_handler(facet, path.as_uri(), "weigh")
        shop.weigh_all("a")
        runner.poll_once()
        assert loads == [1]
        runner.register_handler("shop.Weigh", path.as_uri(), "weigh", checksum="v2")
        shop.weigh_all("a")
        runner.poll_once()
        assert loads == [1, 1]


@pytest.mark.parametrize("worker", [registry_runner, runner_service])
def test_topic_filtering(shop: Shop, worker: Any) -> None:
    shop.weigh_all("a")
    assert worker(shop, topics=["shop.P*"]).poll_once() == 0
    assert worker(shop, topics=["shop.[VW]*"]).poll_once() == 1


def test_topic_filtering_is_nothing_for_functions() -> None:
    assert "topics" not in inspect.signature(AgentPollerConfig).parameters


def test_registry_refresh(shop: Shop) -> None:
    runner = registry_runner(shop, names=())
    with running(runner):
        run = shop.weigh_all("a")
        shop.store.register_handler("shop.Weigh", "tests.workers.scales", "weigh")
        assert shop.outputs(run) == {"grams": [100]}


def test_leases_give_everybody_what_locks_give_the_service(shop: Shop) -> None:
    """Two workers never do one task at the same time, with locks or without."""
    gate = Gate()
    scales.does = gate
    with running(agent_poller(shop)):
        run = shop.weigh_all("a")
        gate.wait_begun()
        assert runner_service(shop).poll_once() == 0
        gate.may_end.set()
        assert shop.outputs(run) == {"grams": [100]}
    assert len(gate.items) == 1
