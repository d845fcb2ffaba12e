"""Handlers that are registered in the store are found, loaded and called."""

from __future__ import annotations

import dataclasses
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.workers.shop import SENT, Aside, Shop, eventually, running

from afl import telemetry
from afl.errors import StoreUnavailable
from afl.operations import runs
from afl.runtime.entities import HandlerRegistration, TaskState
from afl.runtime.memory_store import MemoryStore
from afl.runtime.registrations import RegistrationLoader
from afl.runtime.registry_runner import RegistryRunner, RegistryRunnerConfig
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


def runner_of(shop: Shop, **options: Any) -> RegistryRunner:
    options = {
        "poll_interval_ms": NEVER_MS,
        "registry_refresh_interval_ms": NEVER_MS,
        **options,
    }
    return RegistryRunner(shop.store, shop.evaluator, RegistryRunnerConfig(**options))


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


def test_it_is_tried_again_and_reported_once(
    shop: Shop, runner: RegistryRunner, folder: Path
) -> None:
    (folder / "scales.py").write_text("raise SystemExit('not today')\n")
    register(runner, folder)
    quick = runner_of(shop, registry_refresh_interval_ms=0)
    with heard() as found:
        assert [quick.poll_once() for _ in range(3)] == [0, 0, 0]
    assert sorted(each.facet for each in found) == ["shop.Pack", "shop.Weigh"]
    assert "not today" in found[0].error
    (folder / "scales.py").write_text(HANDLERS, encoding="utf-8")
    run = shop.weigh_all("a")
    assert quick.poll_once() == 1
    assert shop.outputs(run) == {"grams": [100]}


def test_a_module_that_hangs_keeps_no_stop_from_being_heard(
    shop: Shop, runner: RegistryRunner, folder: Path
) -> None:
    text = "import threading, builtins\nbuiltins.hanging.set()\nbuiltins.may_go_on.wait(60)\n"
    (folder / "scales.py").write_text(text)
    import builtins

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


def test_a_poll_starts_no_thread(shop: Shop, runner: RegistryRunner, folder: Path) -> None:
    register(runner, folder)
    shop.weigh_all("a")
    threads = set(threading.enumerate())
    assert runner.poll_once() == 1
    assert threads.issuperset(threading.enumerate())
