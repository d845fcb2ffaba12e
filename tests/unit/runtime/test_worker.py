"""What all workers do in the same way: start, stop, pause, tell how they stand."""

from __future__ import annotations

import asyncio
import ipaddress
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.workers.shop import (
    PATIENCE_S,
    SENT,
    Aside,
    Gate,
    Shop,
    eventually,
    pack,
    running,
    weigh,
)

from afl import telemetry
from afl.errors import StoreUnavailable, UsageError
from afl.runtime.agent_poller import AgentPoller, AgentPollerConfig
from afl.runtime.dispatch import HandlerContext
from afl.runtime.entities import HandledCount, ServerDefinition, ServerState, TaskState
from afl.runtime.evaluator import Evaluator
from afl.runtime.lifecycle import LoopGroup
from afl.runtime.memory_store import MemoryStore
from afl.runtime.registry_runner import RegistryRunner, RegistryRunnerConfig
from afl.runtime.runner import RunnerConfig, RunnerService
from afl.runtime.script_executor import ScriptExecutor
from afl.runtime.watchdog import StallStage
from afl.runtime.worker import TaskWorker, in_signal_handler

#: Polls that nobody sees: whatever happens in time is announced.
NEVER_MS = 3_600_000


@pytest.fixture
def shop() -> Iterator[Shop]:
    shop = Shop(MemoryStore())
    yield shop
    shop.store.close()


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.may_end.set()


def poller_of(shop: Shop, *, weigh: Any = weigh, **options: Any) -> AgentPoller:
    options.setdefault("poll_interval_ms", NEVER_MS)
    poller = AgentPoller(shop.store, shop.evaluator, AgentPollerConfig(**options))
    poller.register("shop.Weigh", weigh)
    poller.register("shop.Pack", pack)
    return poller


def server_of(shop: Shop, poller: AgentPoller) -> ServerDefinition:
    server = shop.store.get_server(poller.server_id)
    assert server is not None
    return server


# Polling


def test_one_poll_does_what_waits_and_leaves_no_trace(shop: Shop) -> None:
    poller = poller_of(shop)
    run = shop.send()
    threads = set(threading.enumerate())
    assert [poller.poll_once() for _ in range(3)] == [1, 1, 0]
    assert threads.issuperset(threading.enumerate())
    assert shop.outputs(run) == SENT
    assert shop.store.get_all_servers() == []
    assert poller.is_running is False


def test_one_poll_takes_no_more_than_may_work_at_once(shop: Shop) -> None:
    poller = poller_of(shop, max_concurrent=2)
    run = shop.weigh_all("a", "bb", "ccc")
    assert [poller.poll_once() for _ in range(3)] == [2, 1, 0]
    assert shop.outputs(run) == {"grams": [100, 200, 300]}


def test_asynchronous_handlers_are_polled_on_the_same_thread(shop: Shop) -> None:
    seen: list[threading.Thread] = []

    async def weigh_slowly(payload: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        seen.append(threading.current_thread())
        return weigh(payload)

    poller = poller_of(shop, weigh=weigh_slowly)
    shop.weigh_all("a")
    threads = set(threading.enumerate())
    assert poller.poll_once() == 1
    assert seen == [threading.current_thread()]
    assert threads.issuperset(threading.enumerate())


def test_what_a_poll_has_in_hand_is_seen(shop: Shop) -> None:
    seen: list[int] = []

    def look(payload: dict[str, Any]) -> dict[str, Any]:
        seen.append(poller.in_flight)
        return weigh(payload)

    poller = poller_of(shop, weigh=look)
    shop.weigh_all("a", "b")
    poller.poll_once()
    assert seen == [2, 1]


def test_what_it_has_done_and_what_failed_is_counted(shop: Shop) -> None:
    def weigh_light(payload: dict[str, Any]) -> dict[str, Any]:
        if payload["item"] == "lead":
            raise ValueError("too heavy")
        return weigh(payload)

    poller = poller_of(shop, weigh=weigh_light)
    shop.weigh_all("a", "lead", "b")
    poller.poll_once()
    assert poller.handled == [("shop.Weigh", 2, 1)]


# Starting and stopping


def test_a_start_works_until_the_stop(shop: Shop) -> None:
    poller = poller_of(shop)
    started = Aside(poller.start)
    eventually(lambda: poller.is_running)
    run = shop.send()
    assert shop.outputs(run) == SENT
    assert server_of(shop, poller).state == ServerState.RUNNING
    poller.stop()
    assert poller.is_running is False
    assert server_of(shop, poller).state == ServerState.SHUTDOWN
    started.join()


def test_a_worker_starts_only_once_at_a_time(shop: Shop) -> None:
    poller = poller_of(shop)
    with running(poller), pytest.raises(UsageError, match="running already"):
        poller.start()


def test_a_stop_lets_handlers_end(shop: Shop, gate: Gate) -> None:
    poller = poller_of(shop, weigh=gate)
    started = Aside(poller.start)
    run = shop.send()
    gate.wait_begun()
    stopping = Aside(poller.stop)
    eventually(lambda: poller.state == "draining")
    gate.may_end.set()
    stopping.join()
    started.join()
    weighed, _packed = sorted(shop.tasks(run), key=lambda each: each.name != "shop.Weigh")
    assert weighed.state == TaskState.COMPLETED
    assert [each.state for each in shop.tasks(run)].count(TaskState.PENDING) == 1


def test_a_stop_does_not_wait_for_ever(shop: Shop, gate: Gate) -> None:
    poller = poller_of(shop, weigh=gate, drain_timeout_ms=1)
    started = Aside(poller.start)
    run = shop.send()
    gate.wait_begun()
    poller.stop()
    started.join()
    assert gate.contexts[0].cancelled
    task = shop.task(run)
    assert (task.state, task.deliveries) == (TaskState.PENDING, 0)


def test_a_group_decides_how_long_a_drain_takes(shop: Shop, gate: Gate) -> None:
    poller = poller_of(shop, weigh=gate, drain_timeout_ms=1)
    with running(poller) as run:
        task = shop.send()
        gate.wait_begun()
        poller.request_stop()
        assert not poller.shutdown(timeout=0.1)
        assert run.is_alive
        poller.checkpoint()
        run.join()
    assert shop.task(task).state == TaskState.PENDING


class Hanging(MemoryStore):
    """Answers no claim until it may."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked, self.may_answer = threading.Event(), threading.Event()

    def claim_tasks(self, *args: Any, **options: Any) -> Any:
        self.is_asked.set()
        self.may_answer.wait()
        return super().claim_tasks(*args, **options)


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    store = Hanging()
    yield store
    store.may_answer.set()
    store.close()


@pytest.fixture
def left(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    """The loops that were named as left behind, in events and in the log."""
    events: list[telemetry.Event] = []
    unsubscribe = telemetry.subscribe(events.append)

    def names() -> list[str]:
        found = [each for each in events if isinstance(each, telemetry.LoopAbandoned)]
        assert all("Condition.wait" in each.line for each in found)
        logged = [each for each in caplog.messages if each.startswith("loop_abandoned")]
        assert len(logged) == len(found)
        return [each.loop for each in found]

    yield names
    unsubscribe()


SHORT_MS = 50


def short_poller(shop: Shop) -> TaskWorker:
    return poller_of(shop, service_name="w", drain_timeout_ms=SHORT_MS)


def short_registry_runner(shop: Shop) -> TaskWorker:
    config = RegistryRunnerConfig("w", drain_timeout_ms=SHORT_MS)
    runner = RegistryRunner(shop.store, shop.evaluator, config)
    runner.register_handler("shop.Weigh", "tests.workers.shop", "weigh")
    return runner


def short_service(shop: Shop) -> TaskWorker:
    config = RunnerConfig(service_name="w", shutdown_timeout_ms=SHORT_MS)
    return RunnerService(shop.store, shop.evaluator, config)


@pytest.mark.parametrize("make", [short_poller, short_registry_runner, short_service])
def test_a_stop_after_a_group_has_left_it_behind_ends_and_names_it(
    make: Callable[[Shop], TaskWorker], hanging: Hanging, left: Callable[[], list[str]]
) -> None:
    worker = make(Shop(hanging))
    group = LoopGroup([worker], SHORT_MS / 1000, watchdog_threshold=None)
    run = Aside(lambda: group.run(install_signals=False))
    assert hanging.is_asked.wait(PATIENCE_S)
    assert group.shutdown() is False
    run.join()
    assert group.abandoned == ("w",)
    assert left() == ["w"]
    Aside(worker.stop).join()
    assert worker.is_running
    assert left() == ["w", "w"]
    hanging.may_answer.set()
    eventually(lambda: not worker.is_running)
    Aside(worker.stop).join()
    assert left() == ["w", "w"], "it has ended"


def test_a_stop_of_a_worker_that_hangs_by_itself_ends_and_names_it(
    hanging: Hanging, left: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("afl.runtime.worker.CLOSING_S", 0.05)
    poller = short_poller(Shop(hanging))
    started = Aside(poller.start)
    assert hanging.is_asked.wait(PATIENCE_S)
    Aside(poller.stop).join()
    assert left() == ["w"]
    hanging.may_answer.set()
    started.join()


def test_a_handler_may_stop_its_own_worker(shop: Shop) -> None:
    def last(payload: dict[str, Any]) -> dict[str, Any]:
        poller.stop()
        return weigh(payload)

    poller = poller_of(shop, weigh=last)
    run = shop.send()
    poller.start()
    assert [each.name for each in shop.tasks(run) if each.state == TaskState.COMPLETED] == [
        "shop.Weigh"
    ]


def test_an_asynchronous_handler_may_stop_its_own_worker(shop: Shop) -> None:
    async def last(payload: dict[str, Any]) -> dict[str, Any]:
        poller.stop()
        return weigh(payload)

    poller = poller_of(shop, weigh=last)
    shop.send()
    poller.start()
    assert server_of(shop, poller).handled == [HandledCount("shop.Weigh", 1, 0)]


def test_a_stop_in_a_signal_handler_only_asks(shop: Shop, gate: Gate) -> None:
    poller = poller_of(shop, weigh=gate)
    started = Aside(poller.start)
    shop.send()
    gate.wait_begun()
    seen: list[bool] = []

    def receive(_signum: int, _frame: object) -> None:
        seen.append(in_signal_handler())
        poller.stop()

    before = signal.signal(signal.SIGUSR1, receive)
    try:
        signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen == [True]
    assert started.is_alive
    gate.may_end.set()
    started.join()


def test_outside_of_a_signal_handler_is_outside() -> None:
    assert in_signal_handler() is False


def test_a_number_of_polls_is_a_run(shop: Shop) -> None:
    poller = poller_of(shop)
    run = shop.weigh_all("a", "bb")
    poller.run(max_iterations=1)
    assert shop.outputs(run) == {"grams": [100, 200]}


def test_numbers_grow_over_all_runs(shop: Shop) -> None:
    poller = poller_of(shop)
    shop.weigh_all("a")
    poller.run(max_iterations=1)
    before = poller.progress
    shop.weigh_all("a", "b")
    poller.run(max_iterations=1)
    assert poller.progress > before > 0
    assert server_of(shop, poller).handled == [HandledCount("shop.Weigh", 3, 0)]


# How it stands


def test_failures_are_counted_apart(shop: Shop) -> None:
    def refuse(payload: dict[str, Any]) -> None:
        raise ValueError("too heavy")

    poller = poller_of(shop, weigh=refuse)
    shop.send()
    shop.send("pot")
    poller.run(max_iterations=1)
    assert server_of(shop, poller).handled == [HandledCount("shop.Weigh", 0, 2)]


def test_a_failure_is_logged_with_its_trace_and_kept_with_its_line(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(payload: dict[str, Any]) -> None:
        return int("too heavy")  # type: ignore[return-value]

    run = shop.send()
    poller_of(shop, weigh=refuse).run(max_iterations=1)
    task = shop.task(run)
    assert task.error is not None
    line = refuse.__code__.co_firstlineno + 1
    assert task.error["raised_at"] == f"{__file__}:{line} in {refuse.__qualname__}"
    [record] = [each for each in caplog.records if "handler_failed" in each.getMessage()]
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ValueError)
    facts: Any = record.msg
    assert (facts["facet"], facts["task"], facts["delivery"]) == ("shop.Weigh", task.uuid, 1)


def test_what_libraries_raise_is_blamed_on_the_line_that_called_them(shop: Shop) -> None:
    def refuse(payload: dict[str, Any]) -> None:
        ipaddress.ip_address("nowhere")

    run = shop.send()
    poller_of(shop, weigh=refuse).poll_once()
    error = shop.task(run).error
    assert error is not None
    assert error["raised_at"].startswith(f"{__file__}:")


def test_its_record_names_the_port_at_which_its_group_answers_probes(shop: Shop) -> None:
    poller = poller_of(shop)
    group = LoopGroup([poller], health_port=0)
    with running(group):
        eventually(lambda: shop.store.get_server(poller.server_id))
        address = group.health_address
        assert address is not None
        assert server_of(shop, poller).http_port == address[1]


def test_others_see_what_it_serves_and_has_in_hand(shop: Shop, gate: Gate) -> None:
    poller = poller_of(shop, weigh=gate, heartbeat_interval_ms=10)
    with running(poller):
        shop.send()
        gate.wait_begun()
        eventually(lambda: server_of(shop, poller).in_flight == 1)
        assert server_of(shop, poller).handlers == ["shop.Pack", "shop.Weigh"]
        gate.may_end.set()


@pytest.mark.parametrize("is_on", [True, False])
def test_others_see_whether_it_does_scripts(shop: Shop, is_on: bool) -> None:
    evaluator = Evaluator(shop.store, scripts=ScriptExecutor() if is_on else None)
    poller = AgentPoller(shop.store, evaluator)
    with running(poller):
        eventually(lambda: server_of(shop, poller).phase == "ready")
        assert server_of(shop, poller).handlers == (["afl:script"] if is_on else [])


def test_others_see_its_phase_before_the_next_beat(shop: Shop, gate: Gate) -> None:
    poller = poller_of(shop, weigh=gate, heartbeat_interval_ms=NEVER_MS)
    with running(poller):
        eventually(lambda: server_of(shop, poller).phase == "ready")
        poller.pause()
        eventually(lambda: server_of(shop, poller).phase == "drain")
        poller.unpause()
        eventually(lambda: server_of(shop, poller).phase == "ready")
        shop.send()
        gate.wait_begun()
        poller.request_stop()
        eventually(lambda: server_of(shop, poller).phase == "drain")
        gate.may_end.set()
    assert server_of(shop, poller).phase == "terminate"


def test_a_facet_that_is_registered_later_is_served_at_once(shop: Shop) -> None:
    poller = AgentPoller(shop.store, shop.evaluator, AgentPollerConfig(poll_interval_ms=NEVER_MS))
    with running(poller):
        run = shop.send()
        poller.register("Weigh", weigh)
        poller.register("Pack", pack)
        assert shop.outputs(run) == SENT
        eventually(lambda: server_of(shop, poller).handlers == ["Pack", "Weigh"])


class Fragile(MemoryStore):
    """A store whose claims fail as a test wants."""

    problem: Exception | None = None

    def claim_tasks(self, *args: Any, **options: Any) -> Any:
        if self.problem is not None:
            raise self.problem
        return super().claim_tasks(*args, **options)


def test_an_outage_is_told_and_waited_for() -> None:
    store = Fragile()
    shop = Shop(store)
    poller = poller_of(shop)
    store.problem = StoreUnavailable("locked by a backup")
    with running(poller):
        eventually(lambda: "locked by a backup" in str(poller.unready_reason))
        store.problem = None
        run = shop.send()
        assert shop.outputs(run) == SENT
        assert poller.unready_reason is None


@pytest.mark.parametrize("call", ["claim_tasks", "beat_server"])
def test_it_is_ready_once_its_store_has_answered_a_claim_and_not_before(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first one it says in the store that it is there: that may hang as well."""
    store, is_asked, may_answer = MemoryStore(), threading.Event(), threading.Event()
    answer = getattr(store, call)

    def hang(*args: Any, **options: Any) -> Any:
        is_asked.set()
        assert may_answer.wait(PATIENCE_S)
        return answer(*args, **options)

    monkeypatch.setattr(store, call, hang)
    poller = poller_of(Shop(store))
    assert poller.unready_reason is None
    for _ in range(2):  # the answers of one run say nothing about the next
        with running(poller):
            assert is_asked.wait(PATIENCE_S)
            assert str(poller.unready_reason).startswith("starting")
            may_answer.set()
            eventually(lambda: poller.unready_reason is None)
        assert poller.unready_reason is None
        is_asked.clear()
        may_answer.clear()


def test_a_defect_ends_it_with_its_reason() -> None:
    store = Fragile()
    shop = Shop(store)
    poller = poller_of(shop)
    store.problem = ValueError("a defect")
    with pytest.raises(ValueError, match="a defect"):
        poller.start()
    server = server_of(shop, poller)
    assert server.state == ServerState.ERROR
    assert server.error == {"message": "a defect", "type": "ValueError"}


# Operators


def test_an_operator_may_drain_a_worker_for_a_while(shop: Shop, gate: Gate) -> None:
    poller = poller_of(shop, weigh=gate, heartbeat_interval_ms=10)
    with running(poller):
        run = shop.send()
        gate.wait_begun()
        assert shop.store.ask_server(poller.server_id, "drain")
        eventually(lambda: "operator" in str(poller.unready_reason))
        eventually(lambda: server_of(shop, poller).phase == "drain")
        gate.may_end.set()
        eventually(lambda: poller.in_flight == 0)
        # What it finished made another task possible, which it leaves alone.
        assert [each.state for each in shop.tasks(run)].count(TaskState.PENDING) == 1
        assert poller.is_running
        assert "operator" in str(poller.unready_reason)
        assert shop.store.ask_server(poller.server_id, "")
        assert shop.outputs(run) == SENT
        assert poller.unready_reason is None


def test_an_idle_worker_drains_as_soon_as_it_is_asked_to(shop: Shop) -> None:
    poller = poller_of(shop, heartbeat_interval_ms=3_600_000)
    with running(poller):
        assert shop.store.ask_server(poller.server_id, "drain")
        eventually(lambda: "operator" in str(poller.unready_reason))
        assert shop.store.ask_server(poller.server_id, "")
        eventually(lambda: poller.unready_reason is None)


def test_a_pause_is_not_ended_by_an_operator_who_asks_for_nothing(shop: Shop) -> None:
    poller = poller_of(shop, heartbeat_interval_ms=5)
    with running(poller):
        poller.pause()
        run = shop.weigh_all("a")
        first = server_of(shop, poller).ping_time
        eventually(lambda: server_of(shop, poller).ping_time > first + 20)
        assert shop.task(run).state == TaskState.PENDING
        assert poller.unready_reason == "paused: it takes no work"
        poller.unpause()
        assert shop.outputs(run) == {"grams": [100]}


def test_a_cancelled_run_tells_its_handlers(shop: Shop, gate: Gate) -> None:
    poller = poller_of(shop, weigh=gate, lease_ms=90)
    with running(poller):
        run = shop.send()
        gate.wait_begun()
        shop.evaluator.cancel(run)
        assert gate.contexts[0].cancellation.wait(PATIENCE_S)
        gate.may_end.set()
        eventually(lambda: poller.leases_lost == 1)


class Endless:
    """A handler that waits for ever: it is a coroutine function, or it gives a coroutine."""

    def __init__(self) -> None:
        self.begun, self.cancelled = threading.Event(), threading.Event()

    async def weigh(self, payload: dict[str, Any]) -> None:
        self.begun.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    def give(self, payload: dict[str, Any]) -> Any:
        return self.weigh(payload)


@pytest.fixture(params=["function", "coroutine"])
def endless(request: pytest.FixtureRequest) -> tuple[Endless, Any]:
    endless = Endless()
    return endless, endless.give if request.param == "function" else endless.weigh


def test_a_cancelled_run_ends_its_asynchronous_handlers(
    shop: Shop, endless: tuple[Endless, Any]
) -> None:
    work, handler = endless
    poller = poller_of(shop, weigh=handler, lease_ms=90)
    with running(poller):
        run = shop.send()
        assert work.begun.wait(PATIENCE_S)
        shop.evaluator.cancel(run)
        assert work.cancelled.wait(PATIENCE_S)
        eventually(lambda: poller.in_flight == 0)


def test_the_end_of_a_drain_ends_asynchronous_handlers(
    shop: Shop, endless: tuple[Endless, Any], caplog: pytest.LogCaptureFixture
) -> None:
    work, handler = endless
    poller = poller_of(shop, weigh=handler, drain_timeout_ms=1)
    started = Aside(poller.start)
    run = shop.send()
    assert work.begun.wait(PATIENCE_S)
    poller.stop()
    started.join()
    assert work.cancelled.is_set()
    assert shop.task(run).state == TaskState.PENDING
    assert not any(each.startswith("thread_abandoned") for each in caplog.messages)


def test_an_asynchronous_handler_that_the_watchdog_has_cancelled_has_failed(
    shop: Shop, endless: tuple[Endless, Any]
) -> None:
    work, handler = endless
    poller = poller_of(shop, weigh=handler)
    with running(poller):
        run = shop.send()
        assert work.begun.wait(PATIENCE_S)
        poller.rescue(StallStage.CANCELLED)
        eventually(lambda: shop.task(run).state == TaskState.FAILED)
    error = shop.task(run).error
    assert error is not None
    assert error["message"].endswith("shop.Weigh was cancelled: its worker seemed to hang")


@pytest.mark.parametrize("stage", [StallStage.CANCELLED, StallStage.FORCED])
def test_the_watchdog_can_have_handlers_cancelled(
    shop: Shop, gate: Gate, stage: StallStage
) -> None:
    poller = poller_of(shop, weigh=gate)
    with running(poller):
        shop.send()
        gate.wait_begun()
        poller.rescue(stage)
        assert gate.contexts[0].cancelled
        gate.may_end.set()


# Steps and programs


def test_partial_results_can_be_shown_from_outside(shop: Shop, gate: Gate) -> None:
    def weigh_in_parts(payload: dict[str, Any], context: HandlerContext) -> dict[str, Any]:
        poller.update_step(context.step_id, {"grams": 7})
        step = shop.store.get_step(context.step_id)  # type: ignore[arg-type]
        assert step is not None
        return {"grams": step.get_attribute("grams") + 1}

    poller = poller_of(shop, weigh=weigh_in_parts)
    run = shop.weigh_all("a")
    poller.poll_once()
    assert shop.outputs(run) == {"grams": [8]}


def test_a_program_may_be_cached_although_it_need_not(shop: Shop) -> None:
    poller = poller_of(shop)
    run = shop.send()
    poller.cache_workflow_ast(run, {"type": "WorkflowDecl"})
    poller.cache_workflow_ast(run, {"type": "WorkflowDecl"}, program_ast={"type": "Program"})
    with running(poller):
        assert shop.outputs(run) == SENT
