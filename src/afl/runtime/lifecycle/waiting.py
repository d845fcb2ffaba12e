"""Waiting for something that tells nobody when it happens."""

from __future__ import annotations

from collections.abc import Callable

from afl.clock import SYSTEM_CLOCK, Clock


def wait_until(
    predicate: Callable[[], bool],
    *,
    timeout: float,
    poll_interval: float = 0.1,
    clock: Clock = SYSTEM_CLOCK,
) -> bool:
    """Look again and again until `predicate()` holds; False if `timeout` seconds passed before.

    Looks before the first wait and once more at the end, so a timeout of 0 asks once.
    """
    deadline = clock.monotonic() + timeout
    while not predicate():
        left = deadline - clock.monotonic()
        if left <= 0:
            return False
        clock.sleep(min(poll_interval, left))
    return True
