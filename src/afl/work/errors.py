"""What the consumer itself raises in place of work that did not end."""

from __future__ import annotations

from afl.errors import AflError


class TimedOut(AflError):  # noqa: N818 - what happened is what people read
    """It took longer than it may, or gave no sign of progress for too long."""


class ProcessDied(AflError):  # noqa: N818 - what happened is what people read
    """The process that it ran in ended before it did."""


def was_cancelled(label: str) -> TimedOut:
    """What is recorded for work that ended because the watchdog had it cancelled."""
    return TimedOut(f"{label} was cancelled: its worker seemed to hang")
