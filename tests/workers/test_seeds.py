"""The ways in which people register and start workers, on every store that needs no server.

The calls are those of the documentation; the programs and handlers are our own.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.workers.shop import Aside, Shop, eventually, new_store

from afl import compile_source
from afl.operations import runs
from afl.runtime import (
    AgentPoller,
    Evaluator,
    ExecutionStatus,
    HandlerRegistration,
    MemoryStore,
    PersistenceAPI,
    TaskState,
)
from afl.runtime.registry_runner import RegistryRunner, RegistryRunnerConfig

PROGRAM = compile_source("""
namespace library

event facet Lend(title: String, days: Long) => (ticket: String, due: String)

workflow Borrow(title: String) => (receipt: String) andThen {
    lent = Lend(title = $.title, days = 14)
    yield Borrow(receipt = lent.ticket)
}
""")
DESK = """
def lend(payload: dict) -> dict:
    days = payload.get("days", 7)
    return {"ticket": f"{payload['title']}/{days}", "due": "Friday"}
"""
COUNT = """
def handle(payload: dict) -> dict:
    return {"count": len(payload.get("shelf", ""))}
"""
BRANCHES = """
STOCK = {"branch.North": "north", "branch.South": "south"}


def handle(payload: dict) -> dict:
    name = payload["_facet_name"]
    if name not in STOCK:
        raise LookupError(f"no such branch: {name}")
    return {"stock": STOCK[name]}
"""
ROOMS = """
FLOORS = {"Attic": "a", "Cellar": "c"}
PLACE = "house.rooms."


def enlist(runner):
    for each in FLOORS:
        runner.register_handler(PLACE + each, __name__)


def handle(payload: dict) -> dict:
    return {"stock": FLOORS[payload["_facet_name"].removeprefix(PLACE)]}
"""


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest) -> Iterator[PersistenceAPI]:
    # Short enough for sockets beside a file, which pytest's own folders are not.
    folder = Path(tempfile.mkdtemp(prefix="afl-"))
    store = new_store(request.param, folder)
    yield store
    store.close()
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def _handlers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory with a package of handlers."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "handlers").mkdir()
    for name, text in {"desk": DESK, "count": COUNT, "branches": BRANCHES, "rooms": ROOMS}.items():
        (tmp_path / "handlers" / f"{name}.py").write_text(text, encoding="utf-8")
    for each in [name for name in sys.modules if name.partition(".")[0] == "handlers"]:
        monkeypatch.delitem(sys.modules, each)


def runner_on(store: PersistenceAPI, **options: Any) -> RegistryRunner:
    return RegistryRunner(
        persistence=store,
        evaluator=Evaluator(persistence=store),
        config=RegistryRunnerConfig(service_name="library-runner", **options),
    )


def test_a_facet_with_a_handler_that_loads_itself(store: PersistenceAPI) -> None:
    runner = runner_on(store)
    runner.register_handler(
        facet_name="library.Lend",
        module_uri="handlers.desk",
        entrypoint="lend",
    )
    evaluator = Evaluator(persistence=store)
    run = runs.submit(evaluator, PROGRAM, "Borrow", {"title": "Emma"})
    started = Aside(runner.start)
    assert runs.result(store, evaluator, run, 20) == {"receipt": "Emma/14"}
    assert runner.is_running
    server = store.get_server(runner.server_id)
    assert server is not None
    assert (server.service_name, server.handlers) == ("library-runner", ["library.Lend"])
    runner.stop()
    started.join()
    assert not runner.is_running


def test_a_registration_survives_the_runner_that_made_it(store: PersistenceAPI) -> None:
    store.save_handler_registration(
        HandlerRegistration(
            facet_name="library.Lend", module_uri="handlers.desk", entrypoint="lend"
        )
    )
    evaluator = Evaluator(persistence=store)
    result = evaluator.execute({"name": "Borrow"}, {"title": "Emma"}, program_ast=PROGRAM)
    assert result.status == ExecutionStatus.PAUSED
    assert runner_on(store).poll_once() == 1
    resumed = evaluator.resume(result.workflow_id, {"name": "Borrow"}, program_ast=PROGRAM)
    assert resumed.status == ExecutionStatus.COMPLETED
    assert resumed.outputs == {"receipt": "Emma/14"}


def one_facet(namespace: str, facet: str, returns: str) -> Any:
    return compile_source(f"""
namespace {namespace}

event facet {facet}(shelf: String) => ({returns})

workflow W(shelf: String) => ({returns}) andThen {{
    x = {facet}(shelf = $.shelf)
    yield W({returns.partition(":")[0]} = x.{returns.partition(":")[0]})
}}
""")


def done(store: PersistenceAPI, runner: RegistryRunner, program: Any) -> dict[str, Any]:
    evaluator = Evaluator(persistence=store)
    run = runs.submit(evaluator, program, "W", {"shelf": "abc"})
    runner.poll_once()
    return runs.result(store, evaluator, run, 20)


def test_a_module_for_one_facet(store: PersistenceAPI) -> None:
    runner = runner_on(store)
    runner.register_handler("stock.Count", "handlers.count")
    assert done(store, runner, one_facet("stock", "Count", "count: Long")) == {"count": 3}


def test_a_module_for_many_facets(store: PersistenceAPI) -> None:
    runner = runner_on(store)
    for name in ("North", "South", "West"):
        runner.register_handler(f"branch.{name}", "handlers.branches", "handle")
    for name in ("North", "South"):
        program = one_facet("branch", name, "stock: String")
        assert done(store, runner, program) == {"stock": name.lower()}
    with pytest.raises(runs.RunFailed, match=r"no such branch: branch\.West"):
        done(store, runner, one_facet("branch", "West", "stock: String"))


def test_a_module_that_registers_itself(store: PersistenceAPI) -> None:
    import importlib

    sys.path.insert(0, "")
    importlib.invalidate_caches()
    runner = runner_on(store)
    importlib.import_module("handlers.rooms").enlist(runner)
    assert runner.registered_names() == ["house.rooms.Attic", "house.rooms.Cellar"]
    program = one_facet("house.rooms", "Attic", "stock: String")
    assert done(store, runner, program) == {"stock": "a"}


def test_a_function_of_a_service(store: PersistenceAPI) -> None:
    evaluator = Evaluator(persistence=store)
    poller = AgentPoller(persistence=store, evaluator=evaluator)

    def lend(payload: dict[str, Any]) -> dict[str, Any]:
        return {"ticket": payload["title"].upper(), "due": "today"}

    poller.register("library.Lend", lend)
    result = evaluator.execute({"name": "Borrow"}, {"title": "Emma"}, program_ast=PROGRAM)
    poller.cache_workflow_ast(result.workflow_id, {"name": "Borrow"})
    started = Aside(poller.start)
    eventually(lambda: store.get_run(result.workflow_id).is_over)  # type: ignore[union-attr]
    poller.stop()
    started.join()
    assert evaluator.result(result.workflow_id).outputs == {"receipt": "EMMA"}


def test_topics_leave_the_rest_to_others() -> None:
    shop = Shop(MemoryStore())
    run = shop.weigh_all("a")
    runner = RegistryRunner(
        shop.store, shop.evaluator, RegistryRunnerConfig(topics=["house.*", "library.*"])
    )
    runner.register_handler("shop.Weigh", "handlers.count")
    assert runner.poll_once() == 0
    assert shop.task(run).state == TaskState.PENDING
