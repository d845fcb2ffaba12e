"""Answer a letter: a handler tracks the order, Claude reads and writes.

python answer.py            without network: a script stands for Claude
python answer.py --claude   with Claude; the key is in ANTHROPIC_API_KEY
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from afl import compile_source, open_store
from afl.agents.adapters.anthropic import AnthropicAdapter
from afl.agents.adapters.scripted import ScriptedAdapter, calls
from afl.agents.budget import Budget
from afl.agents.model import ModelAdapter, Usage
from afl.runtime import ClaudeAgentRunner, Evaluator, PersistenceAPI, ToolRegistry, WorkflowId

PROGRAM = Path(__file__).with_name("letters.afl")
LETTER = "Where is my order A-17? I have been waiting for three weeks!"

#: What Claude might answer. The first answer breaks the schema: it is told, and corrects itself.
SCRIPT = [
    calls(
        "letters-Read", {"mood": {"name": "impatient"}, "orders": ["A-17"]}, usage=Usage(310, 30)
    ),
    calls(
        "letters-Read",
        {"mood": {"name": "impatient", "strength": 4}, "orders": ["A-17"]},
        usage=Usage(390, 34),
    ),
    calls(
        "letters-Write",
        {"text": "We are sorry for the wait. Order A-17 left our house today."},
        usage=Usage(280, 25),
    ),
]


def track(payload: dict[str, Any]) -> dict[str, Any]:
    """A service of the shop would know."""
    return {"status": f"{payload['order']} was sent today"}


def model(arguments: list[str]) -> ModelAdapter:
    budget = Budget(max_calls=20, max_tokens=50_000)
    if "--claude" in arguments:
        return AnthropicAdapter(budget=budget)
    return ScriptedAdapter(SCRIPT, budget=budget)


def main(arguments: list[str]) -> None:
    program = compile_source(PROGRAM.read_text(encoding="utf-8"), str(PROGRAM))
    registry = ToolRegistry()
    registry.register("letters.Track", track)
    store = open_store("memory:")
    runner = ClaudeAgentRunner(
        Evaluator(store), store, adapter=model(arguments), tool_registry=registry
    )
    result = runner.run({"name": "Answer"}, {"letter": LETTER}, program)
    if result.error is not None:
        sys.exit(str(result.error))
    print(result.outputs["text"])
    print_usage(store, result.workflow_id)
    store.close()


def print_usage(store: PersistenceAPI, run_id: WorkflowId) -> None:
    run = store.get_run(run_id)
    assert run is not None
    for line in store.get_logs_by_runner(run.uuid):
        if line.object_type == "model":
            print(f"  {line.message}")


if __name__ == "__main__":
    main(sys.argv[1:])
