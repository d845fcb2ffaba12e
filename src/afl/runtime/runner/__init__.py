"""The runner service: a worker that also starts runs, locks what it does, and tells how it is."""

from __future__ import annotations

from afl.runtime.runner.config import RunnerConfig as RunnerConfig
from afl.runtime.runner.service import RunnerService as RunnerService

__all__ = ["RunnerConfig", "RunnerService"]
