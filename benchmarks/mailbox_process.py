"""An idle receiver: `python -m benchmarks.mailbox_process URL KIND` prints the monotonic time,
which all processes of a machine share, whenever it has a message in hand. KIND is `bare`, or `loop`
for an agent loop."""

from __future__ import annotations

import sys

from afl.clock import SYSTEM_CLOCK
from afl.loops import AgentLoop, AgentLoopRequest
from afl.mailbox import open_mailbox

NAME, LOOP_NAME = "bench", "bench-loop"


def run_loop(url: str) -> None:
    def answer(request: str) -> str:
        print(SYSTEM_CLOCK.monotonic(), flush=True)
        return request

    requests = open_mailbox(url, LOOP_NAME, body_type=AgentLoopRequest[str])
    print("ready", flush=True)
    AgentLoop.from_function(answer, requests=requests).run()


def receive(url: str) -> None:
    mailbox = open_mailbox(url, NAME)
    print("ready", flush=True)
    while True:
        for message in mailbox.receive(wait_time_seconds=20):
            print(SYSTEM_CLOCK.monotonic(), flush=True)
            message.acknowledge()


if __name__ == "__main__":
    {"bare": receive, "loop": run_loop}[sys.argv[2]](sys.argv[1])
