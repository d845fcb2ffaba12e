"""A process that receives: prints each body, answers it, and acknowledges it.

At the body `hang` it prints that and does nothing more; it is there to be killed.
"""

from __future__ import annotations

import sys

from afl.clock import SYSTEM_CLOCK
from afl.mailbox import open_mailbox


def main(url: str, lease_s: str) -> None:
    mailbox = open_mailbox(url, "requests")
    print("ready", flush=True)  # noqa: T201
    while True:
        for message in mailbox.receive(visibility_timeout=float(lease_s), wait_time_seconds=20):
            print(f"{message.body} {message.delivery_count}", flush=True)  # noqa: T201
            if message.body == "hang":
                SYSTEM_CLOCK.sleep(3600)
            if message.reply_to is not None:
                message.reply(f"answer to {message.body}")
            message.acknowledge()


if __name__ == "__main__":
    main(*sys.argv[1:])
