"""A program, and how its runs go on, for the tests of commands that look and act."""

from __future__ import annotations

import re
from typing import Any

from tests.acceptance.in_process import afl, afl_json

from afl.runtime.entities import ServerDefinition, ServerState
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI

PROGRAM = """
namespace t

event facet Work(n: Long) => (n: Long)

workflow Chain(n: Long = 1) => (n: Long) andThen {
    a = Work(n = $.n)
    b = Work(n = a.n + 1)
    sys.log("a is " ++ a.n)
    yield Chain(n = b.n)
}

workflow Now(text: String) => (text: String) andThen {
    yield Now(text = $.text)
}
"""


def submit(*args: str) -> str:
    run: str = afl_json("submit", "program.afl", "--workflow", "Chain", *args)["run"]
    return run


def finish(store: PersistenceAPI, error: str | None = None) -> None:
    """Do one task."""
    [task] = store.claim_tasks(["t.Work"], 1)
    if error is None:
        Evaluator(store).complete_task(task, {"n": (task.data or {})["n"]})
    else:
        Evaluator(store).fail_task(task, ValueError(error))


def lines(*args: str) -> list[list[str]]:
    """The cells of a table."""
    done = afl(*args)
    assert done.code == 0, done.err
    return [re.split(r"\s{2,}", each) for each in done.out.splitlines()]


def server(store: PersistenceAPI, name: str, **facts: Any) -> None:
    record = ServerDefinition(name, "default", "afl-registry-runner", "host-1", version="1.0")
    record.state = facts.pop("state", ServerState.RUNNING)
    record.ping_time = store.now_ms() - facts.pop("age_ms", 0)
    for key, value in facts.items():
        setattr(record, key, value)
    store.save_server(record)
