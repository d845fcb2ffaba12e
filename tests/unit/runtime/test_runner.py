"""The runner service does tasks with tools, starts runs for others, and tells how it is."""

from __future__ import annotations

import dataclasses
import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.workers.shop import (
    PATIENCE_S,
    PROGRAM,
    SENT,
    TEXT,
    Aside,
    Gate,
    Shop,
    eventually,
    pack,
    running,
    weigh,
)

from afl import telemetry
from afl.errors import ConfigurationError, UsageError
from afl.runtime.agent import ToolRegistry
from afl.runtime.agent_poller import AgentPoller
from afl.runtime.entities import (
    FlowDefinition,
    FlowIdentity,
    HandledCount,
    RunnerState,
    ServerDefinition,
    ServerState,
    SourceText,
    TaskDefinition,
    TaskState,
)
from afl.runtime.lifecycle import BaseLoop, LoopGroup
from afl.runtime.memory_store import MemoryStore
from afl.runtime.runner import RunnerConfig, RunnerService, status
from afl.runtime.runner.__main__ import main
from afl.runtime.runner.safety_net import settle_forgotten_steps
from afl.runtime.types import WorkflowId


@pytest.fixture
def shop() -> Iterator[Shop]:
    shop = Shop(MemoryStore())
    yield shop
    shop.store.close()


@pytest.fixture
def tools() -> ToolRegistry:
    tools = ToolRegistry()
    tools.register("shop.Weigh", weigh)
    tools.register("Pack", pack)
    return tools


def service_of(shop: Shop, tools: ToolRegistry | None = None, **options: Any) -> RunnerService:
    options = {"http_port": 0, "poll_interval_ms": 20, **options}
    return RunnerService(shop.store, shop.evaluator, RunnerConfig(**options), tools)


def server_of(shop: Shop, service: RunnerService) -> ServerDefinition:
    server = shop.store.get_server(service.server_id)
    assert server is not None
    return server


def test_its_configuration_has_the_usual_fields_and_defaults() -> None:
    positional = [each.name for each in dataclasses.fields(RunnerConfig) if not each.kw_only]
    assert positional == [
        "server_group",
        "service_name",
        "server_name",
        "topics",
        "task_list",
        "poll_interval_ms",
        "heartbeat_interval_ms",
        "lock_duration_ms",
        "lock_extend_interval_ms",
        "max_concurrent",
        "shutdown_timeout_ms",
        "http_port",
        "http_max_port_attempts",
    ]
    config = RunnerConfig()
    assert config.server_name == socket.gethostname()
    assert (config.server_group, config.service_name) == ("default", "afl-runner")
    assert (config.lock_duration_ms, config.lock_extend_interval_ms) == (60000, 20000)
    assert (config.shutdown_timeout_ms, config.http_port) == (30000, 8080)
    assert (config.max_concurrent, config.http_max_port_attempts) == (5, 20)


# Tools


def test_tools_do_the_work(shop: Shop, tools: ToolRegistry) -> None:
    service = service_of(shop, tools)
    with running(service):
        assert shop.outputs(shop.send()) == SENT
    assert server_of(shop, service).handled == [
        HandledCount("shop.Pack", 1, 0),
        HandledCount("shop.Weigh", 1, 0),
    ]


def test_a_tool_that_is_replaced_is_replaced(shop: Shop, tools: ToolRegistry) -> None:
    service = service_of(shop, tools)
    assert service.registered_names() == ["Pack", "shop.Weigh"]
    run = shop.weigh_all("a", "b")
    first = service_of(shop, tools, max_concurrent=1)
    assert first.run_once() == 1
    tools.register("shop.Weigh", lambda payload: {"grams": 5})
    assert first.run_once() == 1
    assert shop.outputs(run) == {"grams": [100, 5]}


def test_topics_choose_tools_by_pattern(shop: Shop, tools: ToolRegistry) -> None:
    service = service_of(shop, tools, topics=["shop.*"])
    run = shop.send()
    assert [service.run_once(), service.run_once()] == [1, 0]
    assert [each.state for each in shop.tasks(run)].count(TaskState.PENDING) == 1


def test_the_default_handler_does_what_nobody_else_does(shop: Shop) -> None:
    tools = ToolRegistry()
    tools.set_default_handler(lambda name, payload: {"grams": len(name)})
    service = service_of(shop, tools)
    with running(service):
        assert shop.outputs(shop.weigh_all("a")) == {"grams": [len("shop.Weigh")]}
        # What is only left over is no promise to others.
        assert server_of(shop, service).handlers == ["afl:execute", "afl:resume"]


def test_the_default_handler_leaves_what_is_registered(shop: Shop) -> None:
    tools = ToolRegistry()
    tools.set_default_handler(lambda name, payload: {"grams": 1})
    shop.store.register_handler("Weigh", "scales")
    run = shop.weigh_all("a")
    assert service_of(shop, tools).run_once() == 0
    assert shop.task(run).state == TaskState.PENDING
    shop.store.delete_handler_registration("Weigh")
    assert service_of(shop, tools).run_once() == 1


def test_the_default_handler_leaves_what_another_server_serves(shop: Shop) -> None:
    tools = ToolRegistry()
    tools.set_default_handler(lambda name, payload: {"grams": 1})
    service = service_of(shop, tools)
    poller = AgentPoller(shop.store, shop.evaluator)
    poller.register("Weigh", weigh)
    with running(poller):
        poller.pause()
        run = shop.weigh_all("a")
        assert service.run_once() == 0
    assert service.run_once() == 1
    assert shop.outputs(run) == {"grams": [1]}


def test_a_task_that_nobody_serves_is_left_alone(shop: Shop) -> None:
    run = shop.send()
    assert service_of(shop).run_once() == 0
    assert shop.task(run).state == TaskState.PENDING


# Locks


def test_what_is_at_work_is_locked(shop: Shop) -> None:
    gate, tools = Gate(), ToolRegistry()
    tools.register("Weigh", gate)
    service = service_of(shop, tools)
    with running(service):
        run = shop.weigh_all("a")
        gate.wait_begun()
        [lock] = shop.store.get_all_locks()
        assert lock.key == f"runner:task:{shop.task(run).uuid}"
        assert lock.owner.startswith(f"runner:{service.server_id}:")
        gate.may_end.set()
        eventually(lambda: not shop.store.get_all_locks())


def test_a_task_that_somebody_has_locked_waits_and_counts_as_nothing(
    shop: Shop, tools: ToolRegistry
) -> None:
    run = shop.weigh_all("a")
    key = f"runner:task:{shop.task(run).uuid}"
    assert shop.store.acquire_lock(key, 300, owner="an operator")
    service = service_of(shop, tools)
    with running(service):
        assert shop.outputs(run) == {"grams": [100]}
    assert server_of(shop, service).handled == [HandledCount("shop.Weigh", 1, 0)]


def test_a_lost_lock_ends_the_attempt(shop: Shop) -> None:
    gate, tools = Gate(), ToolRegistry()
    tools.register("Weigh", gate)
    service = service_of(shop, tools, lock_extend_interval_ms=20)
    with running(service):
        run = shop.weigh_all("a")
        gate.wait_begun()
        [lock] = shop.store.get_all_locks()
        shop.store.release_lock(lock.key, owner=lock.owner)
        eventually(lambda: gate.contexts[0].cancelled)
        gate.may_end.set()
        # It was given back, and is done again under a lock that holds.
        assert shop.outputs(run) == {"grams": [100]}


# Tasks of the runtime


def execute(shop: Shop, **data: Any) -> TaskDefinition:
    task = TaskDefinition("x1", "afl:execute", "", "", "", "", data=data)
    shop.store.save_task(task)
    return task


def flow_of(shop: Shop, **parts: Any) -> str:
    shop.store.save_flow(FlowDefinition("f1", FlowIdentity("shop", "shop.afl", "f1"), **parts))
    return "f1"


@pytest.mark.parametrize("form", ["text", "program"])
@pytest.mark.parametrize("name", ["Send", "shop.Send"])
def test_a_run_can_be_asked_for_by_a_task(
    shop: Shop, tools: ToolRegistry, form: str, name: str
) -> None:
    parts: dict[str, Any] = {"compiled_sources": [SourceText("shop.afl", TEXT)]}
    if form == "program":
        parts = {"program": PROGRAM.to_json()}
    execute(
        shop,
        flow_id=flow_of(shop, **parts),
        workflow_name=name,
        inputs={"item": "cup"},
        runner_id="r1",
    )
    with running(service_of(shop, tools)):
        eventually(lambda: shop.store.get_runner("r1"))
        run = shop.store.get_runner("r1")
        assert run is not None
        assert shop.outputs(WorkflowId(run.workflow_id)) == SENT
    ended = shop.store.get_runner("r1")
    assert ended is not None
    assert ended.state == RunnerState.COMPLETED
    task = shop.store.get_task("x1")
    assert task is not None
    assert task.state == TaskState.COMPLETED


def test_a_run_that_was_asked_for_is_started_once(shop: Shop, tools: ToolRegistry) -> None:
    service = service_of(shop, tools)
    flow = flow_of(shop, compiled_sources=[SourceText("shop.afl", TEXT)])
    handler = service.handler_for(execute(shop, flow_id=flow, workflow_name="Send"))
    assert handler is not None

    class Context:
        task = execute(shop, flow_id=flow, workflow_name="Send")
        idempotency_key = ""
        task_id = "x1"

    payload = {"flow_id": flow, "workflow_name": "Send", "inputs": {"item": "cup"}}
    # As after a crash between its end and that of the task.
    first, second = (handler.call(payload, Context()) for _ in range(2))
    assert first == second
    assert len(shop.store.get_all_runners()) == 1


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({}, "must have flow_id and workflow_name"),
        ({"flow_id": "f0", "workflow_name": "Send"}, "there is no flow f0"),
        ({"flow_id": "f1", "workflow_name": "Sent"}, "there is no workflow 'Sent'"),
        ({"flow_id": "f2", "workflow_name": "Send"}, "neither a program nor AFL text"),
    ],
)
def test_a_run_that_cannot_be_started_fails_its_task_only(
    shop: Shop, data: dict[str, Any], problem: str
) -> None:
    flow_of(shop, compiled_sources=[SourceText("shop.afl", TEXT)])
    shop.store.save_flow(FlowDefinition("f2", FlowIdentity("empty", "", "f2")))
    execute(shop, **data)
    assert service_of(shop).run_once() == 1
    task = shop.store.get_task("x1")
    assert task is not None
    assert task.state == TaskState.FAILED
    assert problem in (task.error or {})["message"]


def test_a_step_can_be_resumed_by_a_task(shop: Shop, tools: ToolRegistry) -> None:
    """As somebody does who wrote the result of the step without this package."""
    run = shop.weigh_all("a")
    [claimed] = shop.store.claim_tasks(["Weigh"], 1)
    shop.evaluator.update_step(claimed.step_id, {"grams": 9})  # type: ignore[arg-type]
    data = {"step_id": claimed.step_id, "workflow_id": run}
    shop.store.save_task(TaskDefinition("x1", "afl:resume", "", run, "", "", data=data))
    assert service_of(shop, tools).run_once() == 1
    assert shop.outputs(run) == {"grams": [9]}


def test_a_resume_without_a_step_fails(shop: Shop) -> None:
    shop.store.save_task(TaskDefinition("x1", "afl:resume", "", "", "", "", data={}))
    service_of(shop).run_once()
    task = shop.store.get_task("x1")
    assert task is not None
    assert "must have step_id" in (task.error or {})["message"]


# Steps that were forgotten


@pytest.mark.parametrize(
    ("state", "ends"),
    [
        (TaskState.COMPLETED, RunnerState.COMPLETED),
        (TaskState.IGNORED, RunnerState.FAILED),
    ],
)
def test_a_step_whose_task_was_ended_behind_its_back_goes_on(
    shop: Shop, state: TaskState, ends: RunnerState
) -> None:
    run = shop.weigh_all("a")
    task = shop.task(run)
    shop.evaluator.update_step(task.step_id, {"grams": 9})  # type: ignore[arg-type]
    assert shop.store.update_task_state(task.uuid, state)
    service_of(shop).run_once()
    found = shop.store.get_run(run)
    assert found is not None
    assert found.state == ends


def test_a_step_that_waits_for_its_task_is_left_alone(shop: Shop) -> None:
    run = shop.weigh_all("a")
    service_of(shop).run_once()
    assert shop.task(run).state == TaskState.PENDING


def test_a_step_that_ends_while_it_is_looked_at_is_not_forgotten() -> None:
    class Late(MemoryStore):
        """A task ends between two looks."""

        def get_task(self, task_id: str) -> TaskDefinition | None:
            for claimed in self.claim_tasks(["Weigh"], 1):
                late.evaluator.complete_task(claimed, {"grams": 3})
            return super().get_task(task_id)

    late = Shop(Late())
    run = late.weigh_all("a")
    assert settle_forgotten_steps(late.store, late.evaluator) == 0
    assert late.outputs(run) == {"grams": [3]}


def test_forgotten_steps_are_found_while_it_runs(shop: Shop) -> None:
    run = shop.weigh_all("a")
    task = shop.task(run)
    with running(service_of(shop, step_poll_interval_ms=10)):
        shop.store.update_task_state(task.uuid, TaskState.FAILED)
        eventually(lambda: shop.store.get_run(run).is_over)  # type: ignore[union-attr]


# Over HTTP


def get(service: RunnerService, path: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{service.http_port}{path}") as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.load(refused)


def started(service: RunnerService) -> Aside:
    aside = Aside(service.start)
    eventually(lambda: service.is_running or not aside.is_alive)
    return aside


def test_it_tells_how_it_is(shop: Shop, tools: ToolRegistry) -> None:
    service = service_of(shop, tools, service_name="packer")
    aside = started(service)
    shop.outputs(shop.send())
    eventually(lambda: server_of(shop, service).http_port)
    assert server_of(shop, service).http_port == service.http_port > 0
    assert get(service, "/health") == (200, {"ok": True, "reasons": []})
    assert get(service, "/health/ready")[0] == 200
    assert get(service, "/nowhere")[0] == 404
    code, status = get(service, "/status")
    assert code == 200
    assert status["server_id"] == service.server_id
    assert status["state"] == ServerState.RUNNING
    assert status["running"] is True
    assert status["uptime_ms"] >= 0
    assert status["active_work_items"] == 0
    assert status["handled"]["shop.Weigh"] == {"handled": 1, "not_handled": 0}
    assert status["config"]["service_name"] == "packer"
    service.pause()
    code, answer = get(service, "/health/ready")
    assert code == 503
    assert answer["reasons"] == ["paused: it takes no work"]
    assert get(service, "/health")[0] == 200
    service.stop()
    aside.join()


class Idle(BaseLoop):
    """What may run beside a service: it does nothing until it is stopped."""

    def work(self, stop: threading.Event, **_options: Any) -> None:
        stop.wait()


class Starting(Idle):
    """It cannot take work before it has all that it needs."""

    unready_reason: str | None = "starting: its modules are being loaded"


def test_it_is_not_ready_before_what_runs_beside_it(shop: Shop) -> None:
    service, beside = service_of(shop), Starting("registry")
    aside = Aside(lambda: service.start(beside=[beside]))
    told = ["registry: starting: its modules are being loaded"]
    eventually(lambda: service.is_running and service.status()["reasons"] == told)
    code, answer = get(service, "/health/ready")
    assert (code, answer["reasons"]) == (503, told)
    assert get(service, "/health")[0] == 200
    assert get(service, "/status")[1]["ready"] is False
    beside.unready_reason = None
    assert get(service, "/health/ready") == (200, {"ok": True, "reasons": []})
    service.stop()
    aside.join()


def packing_later(gate: Gate) -> Any:
    def pack_later(payload: dict[str, Any], context: Any) -> dict[str, Any]:
        gate(payload, context)
        return pack(payload)

    return pack_later


def test_it_tells_also_what_is_done_beside_it(shop: Shop) -> None:
    gate, tools = Gate(), ToolRegistry()
    tools.register("Weigh", weigh)
    poller = AgentPoller(shop.store, shop.evaluator)
    poller.register("shop.Pack", pack)
    service = service_of(shop, tools)
    aside = Aside(lambda: service.start(beside=[poller, Idle("idle")]))
    eventually(lambda: poller.is_running and service.is_running)
    assert shop.outputs(shop.send()) == SENT
    one = {"handled": 1, "not_handled": 0}
    both = {"shop.Weigh": one, "shop.Pack": one}
    eventually(lambda: get(service, "/status")[1]["handled"] == both)
    poller.register("shop.Pack", packing_later(gate))
    sent = shop.send()
    gate.wait_begun()
    assert get(service, "/status")[1]["active_work_items"] == 1
    servers = shop.store.get_all_servers()
    assert {each.http_port for each in servers} == {service.http_port}
    gate.may_end.set()
    assert shop.outputs(sent) == SENT
    service.stop()
    aside.join()


def test_it_takes_the_next_port_that_is_free(shop: Shop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        service = service_of(shop, http_port=port)
        assert service.http_port == port
        aside = started(service)
        assert port < service.http_port < port + 20
        eventually(lambda: server_of(shop, service).http_port == service.http_port)
        service.stop()
        aside.join()
        full = service_of(shop, http_port=port, http_max_port_attempts=1)
        with pytest.raises(ConfigurationError, match=rf"no port from {port} to {port} .* is free"):
            full.start()


def test_there_are_no_ports_beyond_the_last(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="http_port is 65536, and there are no ports"):
        service_of(shop, http_port=65536).start()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(status, "_PORTS", port + 1)
        with pytest.raises(ConfigurationError, match=rf"no port from {port} to {port} .* is free"):
            service_of(shop, http_port=port).start()


def test_in_a_group_the_group_serves(shop: Shop, tools: ToolRegistry) -> None:
    service = service_of(shop, tools, http_port=1)
    group = LoopGroup([service], health_port=0, watchdog_threshold=None)
    with running(group):
        assert shop.outputs(shop.send()) == SENT
        address = group.health_address
        assert address is not None
        with urllib.request.urlopen(f"http://127.0.0.1:{address[1]}/status") as answer:
            assert json.load(answer)["loops"][0]["name"] == "afl-runner"
        assert server_of(shop, service).http_port == address[1]


def test_its_failure_comes_out_as_it_is(shop: Shop) -> None:
    class Broken(MemoryStore):
        def claim_tasks(self, *args: Any, **options: Any) -> Any:
            raise ValueError("a defect")

    broken = Shop(Broken())
    service = service_of(broken)
    with pytest.raises(ValueError, match="a defect"):
        service.start()
    assert server_of(broken, service).state == ServerState.ERROR


def test_a_stop_before_the_start_is_honoured(shop: Shop) -> None:
    service = service_of(shop)
    service.stop()
    service.start()
    assert service.is_running is False


def test_a_stop_before_the_start_is_honoured_by_what_runs_beside(shop: Shop) -> None:
    service, beside = service_of(shop), Idle()
    service.stop()
    Aside(lambda: service.start(beside=[beside])).join()
    assert not service.is_running
    assert not beside.running


def test_a_stop_while_it_starts_is_for_that_start_alone(shop: Shop) -> None:
    service = service_of(shop)

    def stop(event: telemetry.Event) -> None:
        if isinstance(event, telemetry.PhaseChanged) and event.phase == "warmup":
            service.request_stop()

    unsubscribe = telemetry.subscribe(stop)
    Aside(service.start).join()
    unsubscribe()
    assert shop.store.get_all_servers() == [], "it came to no run"
    aside = started(service)
    eventually(lambda: get(service, "/health/ready")[0] == 200)
    service.stop()
    aside.join()


def test_a_second_start_is_refused_and_disturbs_nothing(shop: Shop) -> None:
    service, beside = service_of(shop), Idle()
    aside = Aside(lambda: service.start(beside=[beside]))
    eventually(lambda: service.is_running and beside.running)
    port = service.http_port
    for again in (service.start, service.run):
        with pytest.raises(UsageError, match="running already"):
            again()
    assert service.http_port == port > 0
    assert service.is_running
    assert beside.running
    service.stop()
    assert not beside.running
    aside.join()


def test_a_start_beside_a_run_in_a_group_is_refused_and_disturbs_nothing(shop: Shop) -> None:
    service = service_of(shop)
    group = LoopGroup([service], health_port=0, watchdog_threshold=None)
    with running(group):
        eventually(lambda: service.is_running)
        port = service.http_port
        with pytest.raises(UsageError, match="runs already"):
            service.start()
        assert service.http_port == port > 0
        assert service.is_running


def test_a_stop_does_not_wait_for_a_loop_that_was_left_behind() -> None:
    is_asked, may_answer = threading.Event(), threading.Event()

    class Hanging(MemoryStore):
        def claim_tasks(self, *args: Any, **options: Any) -> Any:
            is_asked.set()
            may_answer.wait()
            return super().claim_tasks(*args, **options)

    service = service_of(Shop(Hanging()), shutdown_timeout_ms=100)
    events: list[telemetry.Event] = []
    unsubscribe = telemetry.subscribe(events.append)
    aside = started(service)
    assert is_asked.wait(PATIENCE_S)
    Aside(service.stop).join()
    aside.join()
    assert service.is_running
    Aside(service.stop).join()  # nor does a later one
    unsubscribe()
    left = [each.loop for each in events if isinstance(each, telemetry.LoopAbandoned)]
    assert left == [service.name], "its start has named it, once"
    with pytest.raises(UsageError, match="runs already"):
        service.start()
    may_answer.set()
    eventually(lambda: not service.is_running)


@pytest.mark.parametrize("is_beside", [False, True])
def test_whoever_it_waits_for_may_stop_it(shop: Shop, is_beside: bool) -> None:
    """A tool of its own, or a handler of what runs beside it: there, a stop only asks."""

    def last(payload: dict[str, Any]) -> dict[str, Any]:
        service.stop()
        return weigh(payload)

    tools, poller = ToolRegistry(), AgentPoller(shop.store, shop.evaluator)
    if is_beside:
        poller.register("Weigh", last)
    else:
        tools.register("Weigh", last)
    service = service_of(shop, tools)
    run = shop.weigh_all("a")
    Aside(lambda: service.start(beside=[poller])).join()
    assert shop.outputs(run) == {"grams": [100]}


def test_a_short_stop_leaves_time_to_finish(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    gate, tools = Gate(), ToolRegistry()
    tools.register("Weigh", gate)
    service = service_of(shop, tools, shutdown_timeout_ms=2500)
    events: list[telemetry.Event] = []
    unsubscribe = telemetry.subscribe(events.append)
    aside = started(service)
    run = shop.weigh_all("a")
    gate.wait_begun()
    service.request_stop()
    eventually(lambda: "drain" in [getattr(each, "phase", "") for each in events])
    gate.may_end.set()
    aside.join()
    unsubscribe()
    assert shop.task(run).state == TaskState.COMPLETED
    assert not [each for each in events if isinstance(each, telemetry.CheckpointRequested)]
    assert not any(each.startswith("timings_contradict") for each in caplog.messages)


def test_while_it_drains_it_is_live_and_not_ready(shop: Shop) -> None:
    gate, tools = Gate(), ToolRegistry()
    tools.register("Weigh", gate)
    service = service_of(shop, tools)
    aside = started(service)
    shop.weigh_all("a")
    gate.wait_begun()
    service.request_stop()
    assert get(service, "/health/ready") == (
        503,
        {"ok": False, "reasons": ["drain: asked to stop"]},
    )
    assert get(service, "/health")[0] == 200
    gate.may_end.set()
    aside.join()


def test_a_stop_takes_no_longer_than_it_may(shop: Shop) -> None:
    gate, tools = Gate(), ToolRegistry()
    tools.register("Weigh", gate)
    service = service_of(shop, tools, shutdown_timeout_ms=3000)
    aside = started(service)
    run = shop.weigh_all("a")
    gate.wait_begun()
    service.request_stop()
    aside.join()
    gate.may_end.set()
    assert shop.task(run).state == TaskState.PENDING
    assert shop.task(run).deliveries == 0


def test_a_poll_starts_no_thread(shop: Shop, tools: ToolRegistry) -> None:
    service = service_of(shop, tools)
    shop.weigh_all("a")
    threads = set(threading.enumerate())
    assert service.run_once() == 1
    assert threads.issuperset(threading.enumerate())
    assert shop.store.get_all_locks() == []


# The command


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--lock-duration", "0", "lock_duration_ms is 0"),
        ("--heartbeat-interval", "0", "heartbeat_interval_ms is 0"),
    ],
)
def test_a_number_that_it_cannot_work_with_starts_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, value: str, told: str
) -> None:
    assert main(["--store", f"sqlite:///{tmp_path}/none.db", option, value]) == 2
    assert told in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_wrong_settings_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--store", "nowhere:"]) == 2
    assert "Error: " in capsys.readouterr().err
    with pytest.raises(SystemExit) as refused:
        main(["--log-level", "shrill"])
    assert refused.value.code == 2
