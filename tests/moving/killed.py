"""A copy that is killed at its n-th step: `python -m tests.moving.killed FROM TO N`."""

from __future__ import annotations

import os
import signal
import sys

from tests.moving.warehouse import copied

#: So that the one who comes next need not wait long for the lock.
LEASE_MS = 500


class Death:
    """Comes after so many calls."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def began(self, kind: str, total: int) -> None:
        self.went_on(0)

    def went_on(self, records: int) -> None:
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    source, target, steps = sys.argv[1:]
    copied(source, target, Death(int(steps)), lease_ms=LEASE_MS)
