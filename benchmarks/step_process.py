"""Durable steps in DBOS and LangGraph, each on SQLite as it ships.

`python -m benchmarks.step_process PEER FOLDER N` does N steps that do nothing, and prints the
seconds for each as JSON.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from typing import Any

from afl.clock import SYSTEM_CLOCK


def _imported(name: str) -> Any:
    """Only here, because they are not installed where nobody measures."""
    return importlib.import_module(name)


def dbos(folder: str, count: int) -> float:
    """Steps of one workflow."""
    system = _imported("dbos").DBOS
    system(config={"name": "bench", "system_database_url": f"sqlite:///{folder}/dbos.db"})

    @system.step()  # type: ignore[untyped-decorator]
    def step(number: int) -> str:
        return f"answer {number}"

    @system.workflow()  # type: ignore[untyped-decorator]
    def workflow(steps: int) -> float:
        return _timed(steps, step)

    system.launch()
    try:
        return float(workflow(count))
    finally:
        system.destroy()


def langgraph(folder: str, count: int) -> float:
    """One node that goes round, with a checkpoint after each step."""
    graph = _imported("langgraph.graph")
    saver = _imported("langgraph.checkpoint.sqlite").SqliteSaver
    builder = graph.StateGraph(dict)
    builder.add_node("step", lambda state: {"number": state["number"] + 1})
    builder.add_edge(graph.START, "step")
    builder.add_conditional_edges(
        "step", lambda state: "step" if state["number"] < count else graph.END
    )
    with saver.from_conn_string(f"{folder}/langgraph.db") as checkpointer:
        app = builder.compile(checkpointer=checkpointer)
        settings = {"configurable": {"thread_id": "bench"}, "recursion_limit": count + 5}
        started = SYSTEM_CLOCK.monotonic()
        app.invoke({"number": 0}, settings)
        return (SYSTEM_CLOCK.monotonic() - started) / count


def _timed(count: int, step: Callable[[int], object]) -> float:
    started = SYSTEM_CLOCK.monotonic()
    for number in range(count):
        step(number)
    return (SYSTEM_CLOCK.monotonic() - started) / count


if __name__ == "__main__":
    chosen: Callable[[str, int], float] = {"dbos": dbos, "langgraph": langgraph}[sys.argv[1]]
    print(json.dumps(chosen(sys.argv[2], int(sys.argv[3]))))
