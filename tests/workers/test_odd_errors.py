"""Whatever a handler raises is recorded, and it is called once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.workers.shop import Shop, eventually, new_store, running

from afl.errors import StoreMisused
from afl.operations import runs
from afl.runtime.entities import TaskDefinition, TaskState
from afl.runtime.registrations import RegistrationLoader
from afl.runtime.registry_runner import RegistryRunner

HANDLERS = """
import os
from pathlib import Path

class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no text")

def half(payload):
    note()
    raise ValueError("half \\ud83d of it")

def mute(payload):
    note()
    raise Mute

def miss(payload):
    note()
    {"g": 1}["kg"]

def leave(payload):
    note()
    raise SystemExit(3)

def vanish(payload):
    os._exit(9)

def nowhere(payload):
    note()
    eval("1 / 0", {})

async def half_later(payload):
    half(payload)

def note():
    with (Path(__file__).parent / "calls").open("a") as file:
        file.write("x")
"""


@pytest.fixture(autouse=True)
def _no_logs(caplog: pytest.LogCaptureFixture) -> None:
    """Processes of tests cannot send each other text that is no Unicode."""
    caplog.set_level(logging.CRITICAL + 1, "afl")


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    store = new_store("sqlite", tmp_path)
    yield Shop(store)
    store.close()


def poll(runner: RegistryRunner) -> None:
    runner.poll_once()


def serve(runner: RegistryRunner) -> None:
    with running(runner):
        eventually(lambda: runner.handled)


def runner_of(shop: Shop, folder: Path, entrypoint: str, isolation: str) -> RegistryRunner:
    (folder / "scales.py").write_text(HANDLERS, encoding="utf-8")
    shop.store.register_handler(
        "shop.Weigh", (folder / "scales.py").as_uri(), entrypoint, isolation=isolation
    )
    loader = RegistrationLoader([folder])
    return RegistryRunner(shop.store, shop.evaluator, loader=loader)


@pytest.mark.parametrize("act", [poll, serve])
@pytest.mark.parametrize("isolation", ["thread", "process"])
@pytest.mark.parametrize(
    ("entrypoint", "kind", "message"),
    [
        ("half", "ValueError", "half \\ud83d of it"),
        ("half_later", "ValueError", "half \\ud83d of it"),
        ("mute", "Mute", "Mute"),
        ("miss", "KeyError", "KeyError: 'kg'"),
        ("leave", "SystemExit", "SystemExit: 3"),
    ],
)
def test_an_error_that_is_hard_to_tell_is_recorded_at_once(
    shop: Shop,
    tmp_path: Path,
    entrypoint: str,
    kind: str,
    message: str,
    isolation: str,
    act: Callable[[RegistryRunner], None],
) -> None:
    run = shop.weigh_all("a")
    act(runner_of(shop, tmp_path, entrypoint, isolation))
    task = shop.task(run)
    assert (task.state, task.deliveries) == (TaskState.FAILED, 1)
    assert (tmp_path / "calls").read_text() == "x"
    assert task.error is not None
    assert (task.error["type"], task.error["message"]) == (kind, message)


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_an_error_from_code_that_belongs_to_no_module_is_recorded(
    shop: Shop, tmp_path: Path, isolation: str
) -> None:
    run = shop.weigh_all("a")
    runner_of(shop, tmp_path, "nowhere", isolation).poll_once()
    with pytest.raises(runs.RunFailed, match=r"ZeroDivisionError|division by zero"):
        shop.outputs(run)
    assert (tmp_path / "calls").read_text() == "x"


def test_a_process_that_a_handler_ends_is_told_by_the_facet(shop: Shop, tmp_path: Path) -> None:
    run = shop.weigh_all("a")
    runner_of(shop, tmp_path, "vanish", "process").poll_once()
    error = shop.task(run).error
    assert error is not None
    assert "the process that did shop.Weigh exited with code 9" in error["message"]
    assert "afl." not in error["message"]


def test_an_error_that_the_store_refuses_is_recorded_as_such(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a database does with what is too large for it."""
    fail_later, refused = shop.evaluator.fail_task_later, list[TaskDefinition]()

    def refuse_once(task: TaskDefinition, *arguments: object, **options: object) -> object:
        if not refused:
            refused.append(task)
            raise StoreMisused("it is too large")
        return fail_later(task, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(shop.evaluator, "fail_task_later", refuse_once)
    run = shop.weigh_all("a")
    runner_of(shop, tmp_path, "half", "thread").poll_once()
    error = shop.task(run).error
    assert error is not None
    expected = "it raised ValueError, which cannot be recorded as it is: it is too large"
    assert (error["type"], error["message"]) == ("Unrecordable", expected)
