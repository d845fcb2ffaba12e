"""A small shop: its program, its handlers, and stores for tests of workers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from afl import compile_source
from afl.clock import SYSTEM_CLOCK, Clock
from afl.operations import runs
from afl.runtime.entities import TaskDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.lifecycle import wait_until
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.sql_store import SqliteStore
from afl.runtime.types import WorkflowId

#: Longer than anything here takes, on a busy machine too.
PATIENCE_S = 20.0

TEXT = """
namespace shop

event facet Weigh(item: String) => (grams: Long)
event facet Pack(item: String, grams: Long) => (parcel: String)

workflow Send(item: String) => (parcel: String) andThen {
    weighed = Weigh(item = $.item)
    packed = Pack(item = $.item, grams = weighed.grams)
    yield Send(parcel = packed.parcel)
}

workflow WeighAll(items: [String]) => (grams: [Long]) andThen foreach item in $.items {
    weighed = Weigh(item = item)
    yield WeighAll(grams = weighed.grams)
}
"""
PROGRAM = compile_source(TEXT)


def weigh(payload: dict[str, Any]) -> dict[str, Any]:
    return {"grams": 100 * len(payload["item"])}


def pack(payload: dict[str, Any]) -> dict[str, Any]:
    return {"parcel": f"{payload['item']} ({payload['grams']} g)"}


SENT = {"parcel": "cup (300 g)"}


class Shop:
    """A store with an engine, and short ways to use them."""

    def __init__(self, store: PersistenceAPI) -> None:
        self.store = store
        self.evaluator = Evaluator(store)

    def send(self, item: str = "cup", **options: Any) -> WorkflowId:
        return runs.submit(self.evaluator, PROGRAM, "Send", {"item": item}, **options)

    def weigh_all(self, *items: str, **options: Any) -> WorkflowId:
        return runs.submit(self.evaluator, PROGRAM, "WeighAll", {"items": list(items)}, **options)

    def outputs(self, run: WorkflowId, timeout: float = PATIENCE_S) -> dict[str, Any]:
        return runs.result(self.store, self.evaluator, run, timeout)

    def tasks(self, run: WorkflowId) -> list[TaskDefinition]:
        return self.store.get_tasks_by_runner(run)

    def task(self, run: WorkflowId) -> TaskDefinition:
        [task] = self.tasks(run)
        return task


def new_store(kind: str, folder: Path, clock: Clock = SYSTEM_CLOCK) -> PersistenceAPI:
    return MemoryStore(clock) if kind == "memory" else SqliteStore(folder / "shop.db", clock=clock)


class Aside:
    """Something that blocks, on a thread of its own."""

    def __init__(self, action: Callable[[], object]) -> None:
        self._action = action
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._do, daemon=True)
        self._thread.start()

    def _do(self) -> None:
        try:
            self._action()
        except BaseException as error:
            self._error = error

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def join(self, timeout: float = PATIENCE_S) -> None:
        """Wait for its end; raises what it raised."""
        self._thread.join(timeout)
        assert not self._thread.is_alive(), "it did not end"
        if self._error is not None:
            raise self._error


class Gate:
    """A handler that says when it begins and waits until it may end."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Event()
        self.contexts: list[Any] = []
        self.items: list[str] = []

    def __call__(self, payload: dict[str, Any], context: Any) -> dict[str, Any]:
        self.contexts.append(context)
        self.items.append(payload["item"])
        self.begun.release()
        assert self.may_end.wait(PATIENCE_S)
        return weigh(payload)

    def wait_begun(self) -> None:
        assert self.begun.acquire(timeout=PATIENCE_S)


def eventually(condition: Callable[[], object]) -> None:
    is_so = wait_until(lambda: bool(condition()), timeout=PATIENCE_S, poll_interval=0.005)
    assert is_so, "it never came to that"


@contextmanager
def running(loop: Any, start: Callable[[], object] | None = None) -> Iterator[Aside]:
    """Run a loop until the end of the block."""
    run = Aside(start or loop.run)
    eventually(lambda: loop.running or not run.is_alive)
    try:
        yield run
    finally:
        loop.shutdown(timeout=PATIENCE_S)
        run.join()
