"""Loops as parts of a process: started, supervised and stopped together, and never losing work."""

from __future__ import annotations

from afl.runtime.heartbeat import Heartbeat
from afl.runtime.lifecycle.base import BaseLoop
from afl.runtime.lifecycle.coordinator import ShutdownCoordinator, Urgency
from afl.runtime.lifecycle.group import LoopGroup
from afl.runtime.lifecycle.runnable import Runnable
from afl.runtime.lifecycle.runs import LoopRuns, LoopState
from afl.runtime.lifecycle.waiting import wait_until
from afl.runtime.phases import Phase

__all__ = [
    "BaseLoop",
    "Heartbeat",
    "LoopGroup",
    "LoopRuns",
    "LoopState",
    "Phase",
    "Runnable",
    "ShutdownCoordinator",
    "Urgency",
    "wait_until",
]
