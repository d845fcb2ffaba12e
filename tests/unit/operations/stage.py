"""A store with an engine and a small program, for tests of the operations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from afl import compile_source
from afl.clock import FakeClock
from afl.operations import runs
from afl.runtime.entities import RunnerDefinition, ServerDefinition, ServerState, TaskDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore

PROGRAM = compile_source("""
namespace t

event facet Ask(question: String) => (answer: String)
event facet Tell(text: String)

workflow Greet(name: String) => (text: String) andThen {
    yield Greet(text = "Hello " ++ $.name)
}

workflow Talk(questions: [String]) => (text: String) andThen {
    first = Ask(question = "first?")
    second = Ask(question = first.answer)
    sys.log("first: " ++ first.answer)
    yield Talk(text = second.answer)
} andThen foreach q in $.questions {
    asked = Ask(question = $.q)
}
""")


@dataclass(frozen=True)
class Stage:
    clock: FakeClock
    store: MemoryStore
    evaluator: Evaluator

    def greet(self, name: str = "Ada") -> RunnerDefinition:
        """A run that is over at once."""
        return self._submit("Greet", {"name": name})

    def talk(self, *questions: str, task_list: str = "default") -> RunnerDefinition:
        """A run that waits for answers: to `first`, and to each of the questions."""
        return self._submit("Talk", {"questions": list(questions)}, task_list)

    def _submit(
        self, workflow: str, inputs: dict[str, Any], task_list: str = "default"
    ) -> RunnerDefinition:
        run = runs.submit(self.evaluator, PROGRAM, workflow, inputs, task_list=task_list)
        self.clock.advance(1)
        return runs.status(self.store, run)

    def claim(self, task_list: str = "default") -> TaskDefinition:
        [task] = self.store.claim_tasks(["t.Ask"], 1, task_list=task_list)
        return task

    def answer(self, text: str) -> None:
        self.evaluator.complete_task(self.claim(), {"answer": text})

    def answer_all(self, *texts: str) -> None:
        for each in texts:
            self.answer(each)

    def fail(self, reason: str = "nobody knows") -> TaskDefinition:
        task = self.claim()
        self.evaluator.fail_task(task, ValueError(reason))
        return task

    def server(self, server_id: str = "server-1", **facts: Any) -> ServerDefinition:
        """A server that was heard of just now."""
        server = ServerDefinition(
            server_id, "default", "afl-worker", "host-1", state=ServerState.RUNNING
        )
        server.ping_time = server.start_time = self.store.now_ms()
        for name, value in facts.items():
            setattr(server, name, value)
        self.store.save_server(server)
        return server


@contextmanager
def stage() -> Iterator[Stage]:
    clock = FakeClock()
    store = MemoryStore(clock)
    try:
        yield Stage(clock, store, Evaluator(store))
    finally:
        store.close()
