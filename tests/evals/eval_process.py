"""A process that evaluates, to be killed at any moment.

It says which samples it begins. One that is called `stuck` never ends in a process that is told to
hang.
"""

from __future__ import annotations

import os
import sys
import threading

from afl.evals import EvalLoop, EvalRequest, exact_match, open_results
from afl.loops import AgentLoop
from afl.mailbox import InMemoryMailbox, open_mailbox
from afl.runtime import LoopGroup

LEASE_S = 1.0


def main(url: str, name: str, manner: str) -> None:
    def answer(text: str) -> str:
        os.write(1, f"{text}\n".encode())
        if text == "stuck" and manner == "hangs":
            threading.Event().wait()
        return text.upper()

    loop = EvalLoop(
        loop=AgentLoop.from_function(answer, requests=InMemoryMailbox()),
        evaluator=exact_match,
        requests=open_mailbox(url, name, body_type=EvalRequest[str, str]),
        results=open_results(url),
        lease_s=LEASE_S,
    )
    LoopGroup([loop], shutdown_timeout=30, warmup=[]).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
