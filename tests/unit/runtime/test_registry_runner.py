"""Handlers that are registered in the store are found, loaded and called."""

from __future__ import annotations

import builtins
import dataclasses
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.workers.shop import PATIENCE_S, SENT, Aside, Shop, eventually, pack, running

from afl import telemetry
from afl.clock import FakeClock
from afl.errors import (
    ConfigurationError,
    StoreClosed,
    StoreMisused,
    StoreUnavailable,
    UsageError,
)
from afl.operations import runs
from afl.runtime.entities import HandlerRegistration, ServerState, TaskState
from afl.runtime.lifecycle import wait_until
from afl.runtime.memory_store import MemoryStore
from afl.runtime.registrations import RegistrationLoader
from afl.runtime.registry_runner import RegistryRunner, RegistryRunnerConfig
from afl.runtime.sql_store import SqliteStore
from afl.telemetry import HandlerNotLoaded

#: Polls that nobody sees: whatever happens in time is announced.
NEVER_MS = 3_600_000

HANDLERS = """
def weigh(payload):
    return {"grams": 100 * len(payload["item"])}


def pack(payload):
    return {"parcel": f"{payload['item']} ({payload['grams']} g)"}


def handle(payload):
    return {"grams": len(payload["_facet_name"]) + payload["_handler_metadata"].get("more", 0)}
"""


@pytest.fixture
def shop() -> Iterator[Shop]:
    shop = Shop(MemoryStore())
    yield shop
    shop.store.close()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a module of handlers."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "scales.py").write_text(HANDLERS, encoding="utf-8")
    return tmp_path


@pytest.fixture
def runner(shop: Shop, folder: Path) -> RegistryRunner:
    return runner_of(shop)


def runner_of(
    shop: Shop, functions: dict[str, Callable[..., Any]] | None = None, **options: Any
) -> RegistryRunner:
    options = {
        "poll_interval_ms": NEVER_MS,
        "registry_refresh_interval_ms": NEVER_MS,
        **options,
    }
    config = RegistryRunnerConfig(**options)
    return RegistryRunner(shop.store, shop.evaluator, config, functions=functions)


def register(runner: RegistryRunner, folder: Path, **options: Any) -> None:
    uri = (folder / "scales.py").as_uri()
    runner.register_handler("shop.Weigh", uri, "weigh", **options)
    runner.register_handler("shop.Pack", uri, "pack")


@contextmanager
def heard() -> Iterator[list[HandlerNotLoaded]]:
    found: list[HandlerNotLoaded] = []

    def hear(event: telemetry.Event) -> None:
        if isinstance(event, HandlerNotLoaded):
            found.append(event)

    unsubscribe = telemetry.subscribe(hear)
    try:
        yield found
    finally:
        unsubscribe()


def registration(shop: Shop, facet: str = "shop.Weigh") -> HandlerRegistration:
    found = shop.store.get_handler_registration(facet)
    assert found is not None
    return found


def test_its_configuration_has_the_usual_fields_and_defaults() -> None:
    fields = dataclasses.fields(RegistryRunnerConfig)
    positional = [each.name for each in fields if not each.kw_only]
    assert positional == [
        "service_name",
        "server_group",
        "server_name",
        "task_list",
        "poll_interval_ms",
        "max_concurrent",
        "heartbeat_interval_ms",
        "registry_refresh_interval_ms",
        "topics",
    ]
    config = RegistryRunnerConfig()
    assert config.service_name == "afl-registry-runner"
    assert config.server_name == socket.gethostname()
    assert (config.poll_interval_ms, config.registry_refresh_interval_ms) == (2000, 30000)
    assert (config.max_concurrent, config.heartbeat_interval_ms) == (5, 10000)
    assert config.topics == []


@pytest.mark.parametrize("interval_ms", [0, -1])
def test_registrations_are_not_read_without_a_pause(shop: Shop, interval_ms: int) -> None:
    told = f"registry_refresh_interval_ms is {interval_ms}, .*give 1 or more, such as 30000"
    with pytest.raises(ConfigurationError, match=told):
        runner_of(shop, registry_refresh_interval_ms=interval_ms)


# Loading


def test_registered_handlers_do_the_work(shop: Shop, runner: RegistryRunner, folder: Path) -> None:
    register(runner, folder)
    run = shop.send()
    with running(runner):
        assert shop.outputs(run) == SENT


def test_modules_are_found_by_their_names(shop: Shop, runner: RegistryRunner) -> None:
    runner.register_handler("Weigh", "scales", entrypoint="weigh")
    run = shop.weigh_all("a")
    assert runner.poll_once() == 1
    assert shop.outputs(run) == {"grams": [100]}


def test_modules_are_found_in_folders_of_folders(
    shop: Shop, runner: RegistryRunner, folder: Path
) -> None:
    (folder / "outer" / "inner").mkdir(parents=True)
    (folder / "outer" / "inner" / "deep_scales.py").write_text(HANDLERS, encoding="utf-8")
    runner.register_handler("Weigh", "outer.inner.deep_scales", entrypoint="weigh")
    run = shop.weigh_all("a")
    assert runner.poll_once() == 1
    assert shop.outputs(run) == {"grams": [100]}


def test_the_usual_entrypoint_gets_the_facet_and_the_metadata(
    shop: Shop, runner: RegistryRunner
) -> None:
    runner.register_handler("shop.Weigh", "scales", metadata={"more": 5})
    run = shop.weigh_all("a")
    runner.poll_once()
    assert shop.outputs(run) == {"grams": [len("shop.Weigh") + 5]}


def test_a_registration_that_was_saved_directly_counts(shop: Shop, runner: RegistryRunner) -> None:
    shop.store.save_handler_registration(HandlerRegistration("shop.Weigh", "scales", "weigh"))
    run = shop.weigh_all("a")
    runner.poll_once()
    assert shop.outputs(run) == {"grams": [100]}


def test_code_from_elsewhere_is_not_loaded(
    shop: Shop, runner: RegistryRunner, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "other.py").write_text(HANDLERS, encoding="utf-8")
    uri = (elsewhere / "other.py").as_uri()
    runner.register_handler("shop.Weigh", uri, "weigh")
    run = shop.weigh_all("a")
    assert runner.poll_once() == 0
    assert registration(shop).load_error is not None
    trusting = RegistryRunner(shop.store, shop.evaluator, loader=RegistrationLoader([elsewhere]))
    assert trusting.poll_once() == 1
    assert shop.outputs(run) == {"grams": [100]}
    assert registration(shop).load_error is None


def test_code_from_the_folders_of_the_environment_is_loaded(
    shop: Shop,
    folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "other.py").write_text(HANDLERS, encoding="utf-8")
    monkeypatch.setenv("AFL_HANDLER_PATHS", str(elsewhere))
    runner = RegistryRunner(shop.store, shop.evaluator)
    runner.register_handler("shop.Weigh", (elsewhere / "other.py").as_uri(), "weigh")
    run = shop.weigh_all("a")
    assert runner.poll_once() == 1
    assert shop.outputs(run) == {"grams": [100]}


def test_a_handler_may_have_a_process_of_its_own(
    shop: Shop, runner: RegistryRunner, folder: Path
) -> None:
    text = "import os\ndef weigh(payload, context):\n    context.log('hi')\n"
    (folder / "scales.py").write_text(text + "    return {'grams': os.getpid()}\n")
    runner.register_handler("shop.Weigh", "scales", "weigh", isolation="process")
    run = shop.weigh_all("a")
    with running(runner):
        [pid] = shop.outputs(run)["grams"]
    assert pid != os.getpid()
    assert "hi" in [each.message for each in shop.store.get_logs_by_runner(run)]


def test_a_registration_says_how_long_its_handler_may_take(
    shop: Shop, runner: RegistryRunner, folder: Path
) -> None:
    text = "import asyncio\nasync def weigh(payload):\n    await asyncio.sleep(3600)\n"
    (folder / "scales.py").write_text(text)
    runner.register_handler("shop.Weigh", "scales", "weigh", timeout_ms=50)
    run = shop.weigh_all("a")
    with running(runner), pytest.raises(runs.RunFailed, match="took longer than 50ms"):
        shop.outputs(run)


# Changes


def test_new_registrations_are_noticed_at_once(
    shop: Shop, runner: RegistryRunner, folder: Path
) -> None:
    with running(runner):
        run = shop.send()
        register(runner, folder)
        assert shop.outputs(run) == SENT


def test_registrations_are_noticed_at_latest_after_the_interval(shop: Shop, folder: Path) -> None:
    class Silent(MemoryStore):
        """Announces no registrations."""

        def wait_for_registrations(self, seen: int, *args: Any, **options: Any) -> bool:
            return super().wait_for_registrations(-2, 0.01, **options)

        def registrations_version(self) -> int:
            return -2

    silent = Shop(Silent())
    runner = runner_of(silent, registry_refresh_interval_ms=10)
    with running(runner):
        run = silent.send()
        register(runner, folder)
        assert silent.outputs(run) == SENT


def test_what_is_disabled_or_removed_is_not_claimed(
    shop: Shop, runner: RegistryRunner, folder: Path
) -> None:
    register(runner, folder)
    with running(runner):
        eventually(lambda: runner.claimed_names)
        shop.store.save_handler_registration(replace(registration(shop), is_enabled=False))
        eventually(lambda: "shop.Weigh" not in runner.claimed_names)
        assert runner.registered_names() == ["shop.Pack"]
        run = shop.send()
        shop.store.delete_handler_registration("shop.Pack")
        eventually(lambda: not runner.claimed_names)
        assert shop.task(run).state == TaskState.PENDING
        register(runner, folder)
        assert shop.outputs(run) == SENT


def test_a_changed_checksum_loads_the_new_text(
    shop: Shop, runner: RegistryRunner, folder: Path
) -> None:
    register(runner, folder)
    with running(runner):
        assert shop.outputs(shop.weigh_all("a")) == {"grams": [100]}
        (folder / "scales.py").write_text(HANDLERS.replace("100 *", "7 *"), encoding="utf-8")
        register(runner, folder, checksum="v2")
        eventually(lambda: shop.outputs(shop.weigh_all("a")) == {"grams": [7]})


# What cannot be loaded


def test_what_cannot_be_loaded_says_so_and_disturbs_nobody(
    shop: Shop, runner: RegistryRunner, folder: Path
) -> None:
    register(runner, folder)
    shop.store.register_handler("shop.Weigh", "no_such_module", "weigh")
    run, other = shop.send(), shop.store.register_handler("other.Thing", "scales", "handle")
    with heard() as found, running(runner):
        eventually(lambda: registration(shop).load_error)
        error = registration(shop).load_error
        assert error is not None
        assert "no_such_module" in error["message"]
        assert error["server"] == runner.server_id
        assert error["time"] > 0
        eventually(lambda: "other.Thing" in runner.claimed_names)
        assert runner.registered_names() == ["other.Thing", "shop.Pack"]
        assert shop.task(run).state == TaskState.PENDING
        register(runner, folder)
        assert shop.outputs(run) == SENT
        eventually(lambda: registration(shop).load_error is None)
    assert [each.facet for each in found] == ["shop.Weigh"]
    assert other.facet_name in runner.registered_names()


def test_it_is_tried_again_and_reported_once(timed: Shop, clock: FakeClock, folder: Path) -> None:
    (folder / "scales.py").write_text("raise SystemExit('not today')\n")
    runner = timed_runner(timed, clock)
    register(runner, folder)

    def polled() -> int:
        """When it is time to read the registrations again."""
        clock.advance(30)
        return runner.poll_once()

    with heard() as found:
        assert [polled() for _ in range(3)] == [0, 0, 0]
    assert sorted(each.facet for each in found) == ["shop.Pack", "shop.Weigh"]
    assert "not today" in found[0].error
    (folder / "scales.py").write_text(HANDLERS, encoding="utf-8")
    run = timed.weigh_all("a")
    assert polled() == 1
    assert timed.outputs(run) == {"grams": [100]}


def test_a_module_that_hangs_keeps_no_stop_from_being_heard(
    shop: Shop, runner: RegistryRunner, folder: Path
) -> None:
    text = "import threading, builtins\nbuiltins.hanging.set()\nbuiltins.may_go_on.wait(60)\n"
    (folder / "scales.py").write_text(text)
    builtins.hanging, builtins.may_go_on = threading.Event(), threading.Event()  # type: ignore[attr-defined]
    register(runner, folder)
    try:
        run = Aside(runner.start)
        assert builtins.hanging.wait(20)  # type: ignore[attr-defined]
        assert runner.unready_reason == "starting: what it needs is being loaded"
        runner.stop()
        run.join()
    finally:
        builtins.may_go_on.set()  # type: ignore[attr-defined]


def test_an_outage_at_the_start_is_waited_for(folder: Path) -> None:
    class Out(MemoryStore):
        is_out = True

        def list_handler_registrations(self) -> list[HandlerRegistration]:
            if self.is_out:
                raise StoreUnavailable("out of reach")
            return super().list_handler_registrations()

    store = Out()
    shop = Shop(store)
    runner = runner_of(shop)
    register(runner, folder)
    with running(runner):
        run = shop.send()
        store.is_out = False
        assert shop.outputs(run) == SENT


def test_who_cannot_read_its_registrations_is_not_ready_and_says_why(folder: Path) -> None:
    class Odd(MemoryStore):
        is_odd = True

        def list_handler_registrations(self) -> list[HandlerRegistration]:
            if self.is_odd:
                raise StoreMisused("no such column")
            return super().list_handler_registrations()

    store = Odd()
    shop = Shop(store)
    runner = runner_of(shop)
    register(runner, folder)
    with running(runner):
        reason = "starting: its handlers are not known: no such column"
        eventually(lambda: runner.unready_reason == reason)
        server = store.get_server(runner.server_id)
        assert server is not None
        assert (server.state, server.phase) == (ServerState.STARTUP, "warmup")
        store.is_odd = False
        eventually(lambda: runner.unready_reason is None)
        assert shop.outputs(shop.send()) == SENT


@pytest.mark.parametrize("start", [RegistryRunner.run, RegistryRunner.start])
def test_who_starts_on_a_closed_store_says_so_and_ends(
    shop: Shop, runner: RegistryRunner, start: Callable[[RegistryRunner], None]
) -> None:
    shop.store.close()
    with pytest.raises(StoreClosed, match="store was closed"):
        Aside(lambda: start(runner)).join()
    assert not runner.running


def test_a_store_that_is_closed_with_the_stop_is_no_problem() -> None:
    class Closing(MemoryStore):
        def registrations_version(self) -> int:
            stopped.request_stop()
            raise StoreClosed("the store was closed")

    stopped = runner_of(Shop(Closing()))
    Aside(stopped.run).join()


def test_a_note_that_cannot_be_written_keeps_no_handler_from_being_served(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Refusing(MemoryStore):
        def set_load_error(self, *_anything: Any) -> bool:
            raise StoreMisused("no such text")

    shop = Shop(Refusing())
    runner = runner_of(shop)
    register(runner, folder)
    runner.register_handler("a.Broken", "no_such_module")
    with running(runner):
        assert shop.outputs(shop.send()) == SENT
        assert runner.unready_reason is None
    [line] = [each for each in caplog.messages if each.startswith("load_error_not_written")]
    assert "a.Broken" in line
    assert "no such text" in line


def test_an_odd_problem_of_a_module_can_be_noted(tmp_path: Path, folder: Path) -> None:
    with SqliteStore(tmp_path / "shop.db") as store:
        shop = Shop(store)
        runner = runner_of(shop)
        register(runner, folder)
        (folder / "odd.py").write_text("raise ValueError('half \\ud83d of it')\n")
        runner.register_handler("a.Odd", "odd")
        run = shop.weigh_all("a")
        assert runner.poll_once() == 1
        assert shop.outputs(run) == {"grams": [100]}
        error = registration(shop, "a.Odd").load_error
    assert error is not None
    assert error["message"].endswith("ValueError: half \\ud83d of it")


# What hangs


class Hang:
    """A module that hangs while it is imported, until it may go on."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "hanging.py"
        self.imports = 0
        self.has_begun, self.may_go_on = threading.Event(), threading.Event()
        name = f"hang_{id(self)}"
        setattr(builtins, name, self)
        text = f"import builtins\nbuiltins.{name}()\n{HANDLERS}"
        self.path.write_text(text, encoding="utf-8")

    def __call__(self) -> None:
        self.imports += 1
        self.has_begun.set()
        assert self.may_go_on.wait(60)

    def wait_for_begin(self) -> None:
        assert self.has_begun.wait(20)


@pytest.fixture
def hang(folder: Path) -> Iterator[Hang]:
    hang = Hang(folder)
    yield hang
    hang.may_go_on.set()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def timed(clock: FakeClock) -> Iterator[Shop]:
    """A shop that has the time of the clock."""
    shop = Shop(MemoryStore(clock))
    yield shop
    shop.store.close()


def timed_runner(shop: Shop, clock: FakeClock) -> RegistryRunner:
    config = RegistryRunnerConfig(registry_refresh_interval_ms=30_000, lease_ms=NEVER_MS)
    return RegistryRunner(shop.store, shop.evaluator, config, clock=clock)


def go_by(clock: FakeClock, condition: Callable[[], object]) -> None:
    """Let time go by until it is so; slowly enough for threads that wait for it to come along."""

    def is_so() -> bool:
        clock.advance(1.0)
        return bool(condition())

    assert wait_until(is_so, timeout=PATIENCE_S, poll_interval=0.04)


def is_at_work(shop: Shop, runner: RegistryRunner) -> bool:
    server = shop.store.get_server(runner.server_id)
    return server is not None and server.state == ServerState.RUNNING


def is_given_up(shop: Shop) -> bool:
    error = registration(shop, "a.Hangs").load_error or {}
    return "importing it took longer than 1m" in error.get("message", "")


def test_a_module_that_hangs_keeps_nobody_else_from_being_loaded(
    timed: Shop, clock: FakeClock, folder: Path, hang: Hang
) -> None:
    runner = timed_runner(timed, clock)
    with running(runner):
        eventually(lambda: is_at_work(timed, runner))
        runner.register_handler("a.Hangs", "hanging", "weigh")
        hang.wait_for_begin()
        began = clock.monotonic()
        register(runner, folder)
        run = timed.send()
        go_by(clock, lambda: timed.store.wait_for_run(run, 0))
        assert clock.monotonic() - began < 60, "it need not be given up for that"
        assert timed.outputs(run) == SENT


def test_a_module_that_hangs_is_reported_and_not_started_again(
    timed: Shop, clock: FakeClock, folder: Path, hang: Hang
) -> None:
    runner = timed_runner(timed, clock)
    with heard() as found, running(runner):
        eventually(lambda: is_at_work(timed, runner))
        runner.register_handler("a.Hangs", "hanging", "weigh")
        hang.wait_for_begin()
        go_by(clock, lambda: is_given_up(timed))
        assert 60 <= clock.monotonic() < 90
        given_up = clock.monotonic()
        go_by(clock, lambda: clock.monotonic() > given_up + 100)
        assert hang.imports == 1
        assert [(each.facet, is_given_up(timed)) for each in found] == [("a.Hangs", True)]
        assert "a.Hangs" not in runner.claimed_names
        hang.may_go_on.set()
        eventually(lambda: "a.Hangs" in runner.claimed_names)
        eventually(lambda: registration(timed, "a.Hangs").load_error is None)


def test_a_worker_that_starts_beside_a_module_that_hangs_is_ready_after_the_limit(
    timed: Shop, clock: FakeClock, folder: Path, hang: Hang
) -> None:
    runner = timed_runner(timed, clock)
    runner.register_handler("a.Hangs", "hanging", "weigh")
    register(runner, folder)
    run = timed.send()
    with running(runner):
        hang.wait_for_begin()
        assert runner.unready_reason == "starting: what it needs is being loaded"
        go_by(clock, lambda: timed.store.wait_for_run(run, 0))
        assert runner.unready_reason is None
        assert is_given_up(timed)
        assert timed.outputs(run) == SENT


def test_the_old_text_goes_on_until_the_new_one_is_loaded(
    timed: Shop, clock: FakeClock, folder: Path, hang: Hang
) -> None:
    runner = timed_runner(timed, clock)
    register(runner, folder)
    with running(runner):
        eventually(lambda: "shop.Weigh" in runner.claimed_names)
        runner.register_handler("shop.Weigh", "hanging", "weigh")
        hang.wait_for_begin()
        began = clock.monotonic()
        go_by(clock, lambda: clock.monotonic() > began + 20)
        assert timed.outputs(timed.send()) == SENT


def test_a_stop_is_not_kept_waiting_by_a_turn(
    timed: Shop, clock: FakeClock, folder: Path, hang: Hang
) -> None:
    """Nobody advances the clock."""
    runner = timed_runner(timed, clock)
    runner.register_handler("a.Hangs", "hanging", "weigh")
    register(runner, folder)
    threads = set(threading.enumerate())
    with running(runner):
        hang.wait_for_begin()
    eventually(lambda: len(set(threading.enumerate()) - threads) == 1)
    assert runner.claimed_names == ()


# Which ones


def test_topics_choose_facets_by_pattern(shop: Shop, folder: Path) -> None:
    runner = runner_of(shop, topics=["shop.W*", "other.[ab]"])
    register(runner, folder)
    for name in ("other.a", "other.c"):
        runner.register_handler(name, "scales")
    assert runner.registered_names() == ["other.a", "shop.Weigh"]
    run = shop.send()
    assert [runner.poll_once(), runner.poll_once()] == [1, 0]
    assert [each.state for each in shop.tasks(run)].count(TaskState.PENDING) == 1
    with running(runner):
        server = shop.store.get_server(runner.server_id)
        assert server is not None
        assert server.topics == ["shop.W*", "other.[ab]"]
        eventually(lambda: shop.store.get_server(runner.server_id).handlers)  # type: ignore[union-attr]


# Functions beside them


def weigh_nothing(_payload: dict[str, Any]) -> dict[str, Any]:
    return {"grams": 0}


def test_functions_do_the_work_beside_what_is_registered(shop: Shop, folder: Path) -> None:
    runner = runner_of(shop, {"shop.Pack": pack})
    runner.register_handler("shop.Weigh", "scales", "weigh")
    assert runner.registered_names() == ["shop.Pack", "shop.Weigh"]
    with running(runner):
        assert shop.outputs(shop.send()) == SENT
        [server] = shop.store.get_all_servers()
        assert server.handlers == ["shop.Pack", "shop.Weigh"]


def test_functions_do_the_work_where_nothing_is_registered(shop: Shop) -> None:
    run = shop.weigh_all("a")
    assert runner_of(shop, {"Weigh": weigh_nothing}).poll_once() == 1
    assert shop.outputs(run) == {"grams": [0]}


def test_a_function_goes_before_what_is_registered_for_the_same_name(
    shop: Shop, folder: Path
) -> None:
    (folder / "scales.py").write_text("raise ValueError('never imported')\n")
    runner = runner_of(shop, {"shop.Weigh": weigh_nothing})
    runner.register_handler("shop.Weigh", "scales", "weigh")
    run = shop.weigh_all("a")
    with heard() as found:
        assert runner.poll_once() == 1
    assert shop.outputs(run) == {"grams": [0]}
    assert (found, registration(shop).load_error) == ([], None)


def test_a_whole_name_that_is_registered_goes_before_the_short_one_of_a_function(
    shop: Shop, folder: Path
) -> None:
    runner = runner_of(shop, {"Weigh": weigh_nothing})
    runner.register_handler("shop.Weigh", "scales", "weigh")
    run = shop.weigh_all("a")
    assert runner.poll_once() == 1
    assert shop.outputs(run) == {"grams": [100]}


def test_topics_choose_functions_by_pattern(shop: Shop, folder: Path) -> None:
    runner = runner_of(shop, {"shop.Weigh": weigh_nothing, "Pack": pack}, topics=["shop.*"])
    assert runner.registered_names() == ["shop.Weigh"]
    shop.send()
    assert [runner.poll_once(), runner.poll_once()] == [1, 0]


def test_what_cannot_be_called_is_no_function(shop: Shop) -> None:
    with pytest.raises(UsageError, match=r"the handler of shop\.Weigh is of type str"):
        runner_of(shop, {"shop.Weigh": "weigh"})  # type: ignore[dict-item]


def test_a_poll_starts_no_thread(shop: Shop, runner: RegistryRunner, folder: Path) -> None:
    register(runner, folder)
    shop.weigh_all("a")
    threads = set(threading.enumerate())
    assert runner.poll_once() == 1
    assert threads.issuperset(threading.enumerate())
