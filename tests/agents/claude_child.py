"""A process that runs a workflow with Claude, to be killed: DATABASE URL."""

from __future__ import annotations

import sys

import anthropic
from tests.agents.programs import COUNT, NUMBERS, program

from afl.runtime import ClaudeAgentRunner, Evaluator, SqliteStore


def main(database: str, url: str) -> None:
    store = SqliteStore(database)
    client = anthropic.Anthropic(base_url=url, api_key="key")
    runner = ClaudeAgentRunner(Evaluator(store), store, anthropic_client=client, lease_ms=1000)
    runner.run({"name": "Each"}, NUMBERS, program(COUNT), key="killed")


if __name__ == "__main__":
    main(*sys.argv[1:])
