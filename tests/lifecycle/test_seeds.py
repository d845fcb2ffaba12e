"""The calls that programs of others make: names, defaults and answers that they rely on."""

from __future__ import annotations

import inspect
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.lifecycle.children import child
from tests.lifecycle.loops import PATIENCE_S, BusyLoop, EndingLoop, IdleLoop, PlainLoop

import afl.runtime
from afl.runtime import (
    HealthServer,
    Heartbeat,
    LoopGroup,
    Phase,
    Runnable,
    ShutdownCoordinator,
    Watchdog,
    wait_until,
)


@pytest.fixture(autouse=True)
def nobody_is_installed() -> Iterator[None]:
    ShutdownCoordinator.reset()
    yield
    ShutdownCoordinator.reset()


def defaults(function: Any) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    return {each.name: each.default for each in parameters if each.default is not each.empty}


def test_everything_is_where_it_is_imported_from() -> None:
    from afl.runtime import lifecycle

    assert lifecycle.LoopGroup is LoopGroup
    assert lifecycle.ShutdownCoordinator is ShutdownCoordinator
    assert lifecycle.Runnable is Runnable
    assert lifecycle.wait_until is wait_until
    assert {"Heartbeat", "Watchdog", "HealthServer", "Phase"} <= set(afl.runtime.__all__)
    assert [Heartbeat, Watchdog, HealthServer, Phase]


def test_defaults_are_those_that_are_known() -> None:
    group = defaults(LoopGroup.__init__)
    assert group["shutdown_timeout"] == 30.0
    assert group["health_port"] is None
    assert group["health_host"] == "0.0.0.0"
    assert (group["watchdog_threshold"], group["watchdog_interval"]) == (720.0, 60.0)
    run = defaults(LoopGroup.run)
    assert run["install_signals"] is True
    assert (run["visibility_timeout"], run["wait_time_seconds"]) == (1800, 30)
    loop = defaults(Runnable.run)
    assert loop == {"max_iterations": None, "visibility_timeout": 300, "wait_time_seconds": 20}
    assert defaults(Runnable.shutdown) == {"timeout": 30.0}
    assert defaults(ShutdownCoordinator.install)["signals"] == (signal.SIGTERM, signal.SIGINT)
    assert defaults(wait_until)["poll_interval"] == 0.1


def test_a_loop_in_a_thread_is_shut_down_by_the_program() -> None:
    loop = IdleLoop()
    thread = threading.Thread(target=loop.run)
    thread.start()
    assert wait_until(lambda: loop.running, timeout=PATIENCE_S)
    assert loop.shutdown(timeout=60.0)
    thread.join(timeout=PATIENCE_S)
    assert not loop.running
    assert not thread.is_alive()


def test_a_shutdown_waits_for_what_is_in_flight() -> None:
    loop = BusyLoop()
    thread = threading.Thread(target=loop.run, kwargs={"max_iterations": 1})
    thread.start()
    assert loop.is_working.wait(PATIENCE_S)

    def finish() -> None:
        loop.is_asked.wait(PATIENCE_S)
        loop.finish.set()

    finishing = threading.Thread(target=finish)
    finishing.start()
    assert loop.shutdown(timeout=PATIENCE_S)
    assert loop.has_finished
    thread.join()
    finishing.join()


def test_a_group_in_a_thread_is_left_with_its_block() -> None:
    """With its default `install_signals`, although this is not the main thread."""
    loops = [IdleLoop("main"), IdleLoop("evals")]
    with LoopGroup(loops=loops) as group:
        thread = threading.Thread(target=group.run)
        thread.start()
        for loop in loops:
            assert loop.is_working.wait(PATIENCE_S)
    thread.join(timeout=PATIENCE_S)
    assert not thread.is_alive()
    assert [each.running for each in loops] == [False, False]


def test_a_group_stops_all_its_loops() -> None:
    loops = [IdleLoop(), IdleLoop()]
    group = LoopGroup(loops=loops)
    thread = threading.Thread(target=group.run)
    thread.start()
    for loop in loops:
        assert loop.is_working.wait(PATIENCE_S)
    assert group.shutdown(timeout=PATIENCE_S)
    thread.join(timeout=PATIENCE_S)
    assert [each.running for each in loops] == [False, False]


def test_a_group_takes_every_keyword_of_deployments() -> None:
    loop = EndingLoop()
    loop.end.set()
    group = LoopGroup(
        loops=[loop],
        shutdown_timeout=30.0,
        health_port=0,
        health_host="127.0.0.1",
        watchdog_threshold=720.0,
        watchdog_interval=60.0,
    )
    group.run()
    assert loop.runs == 1


def test_a_loop_whose_run_takes_only_iterations_is_welcome() -> None:
    plain: Any = PlainLoop()
    with LoopGroup(loops=[plain]) as group:
        thread = threading.Thread(target=group.run)
        thread.start()
        assert plain.is_working.wait(PATIENCE_S)
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_a_coordinator_is_installed_once_and_triggered_by_hand() -> None:
    coordinator = ShutdownCoordinator.install()
    assert ShutdownCoordinator.install() is coordinator
    assert ShutdownCoordinator.get() is coordinator
    loop = IdleLoop()
    coordinator.register(loop.shutdown)
    thread = threading.Thread(target=loop.run)
    thread.start()
    assert loop.is_working.wait(PATIENCE_S)
    coordinator.trigger()
    assert coordinator.triggered
    assert not loop.running
    thread.join()
    coordinator.unregister(loop.shutdown)
    ShutdownCoordinator.reset()
    assert ShutdownCoordinator.get() is None


def test_a_heartbeat_has_an_age() -> None:
    heartbeat = Heartbeat()
    heartbeat.beat()
    assert heartbeat.elapsed() >= 0


def test_a_single_loop_with_signals_ends_with_success() -> None:
    code = """
coordinator = ShutdownCoordinator.install()
loop = Idle('one')
coordinator.register(loop.shutdown)
loop.run()
"""
    with child(code) as process:
        process.hears("working one")
        process.send(signal.SIGTERM)
        assert process.end()[0] == 0


def test_a_group_with_signals_ends_with_success() -> None:
    with child("LoopGroup(loops=[Idle('one'), Idle('two')]).run()") as process:
        process.hears("working one")
        process.hears("working two")
        process.send(signal.SIGTERM)
        assert process.end()[0] == 0
