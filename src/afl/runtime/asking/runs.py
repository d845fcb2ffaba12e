"""Runs, and waiting for what becomes of them."""

from __future__ import annotations

import math
import threading
from typing import Protocol

from afl.runtime.asking.access import R, R_contra, Storing, W
from afl.runtime.asking.topics import run_topic
from afl.runtime.entities import RunnerDefinition
from afl.runtime.types import WorkflowId


class Runs(Protocol[R_contra]):
    def get(self, reader: R_contra, workflow_id: WorkflowId, /) -> RunnerDefinition | None: ...

    def get_record(self, reader: R_contra, runner_id: str, /) -> RunnerDefinition | None: ...

    def by_key(self, reader: R_contra, key: str, /) -> RunnerDefinition | None: ...

    def by_run(self, reader: R_contra, workflow_id: WorkflowId, /) -> list[RunnerDefinition]: ...

    def by_state(self, reader: R_contra, state: str, /) -> list[RunnerDefinition]: ...

    def newest(self, reader: R_contra, limit: int, /) -> list[RunnerDefinition]: ...

    def is_over(self, reader: R_contra, workflow_id: WorkflowId, /) -> bool: ...


class AskedRuns(Storing[R, W]):
    _runs: Runs[R]

    def get_runner(self, runner_id: str) -> RunnerDefinition | None:
        return self._read(self._runs.get_record, runner_id)

    def get_run(self, workflow_id: WorkflowId) -> RunnerDefinition | None:
        return self._read(self._runs.get, workflow_id)

    def get_run_by_key(self, key: str) -> RunnerDefinition | None:
        return self._read(self._runs.by_key, key)

    def get_runners_by_workflow(self, workflow_id: WorkflowId) -> list[RunnerDefinition]:
        return self._read(self._runs.by_run, workflow_id)

    def get_runners_by_state(self, state: str) -> list[RunnerDefinition]:
        return self._read(self._runs.by_state, state)

    def get_all_runners(self, limit: int = 100) -> list[RunnerDefinition]:
        return self._read(self._runs.newest, limit)

    def wait_for_run(
        self,
        workflow_id: WorkflowId,
        timeout: float | None = None,
        *,
        stop: threading.Event | None = None,
    ) -> bool:
        def seconds_left(reader: R) -> float:
            return 0 if self._runs.is_over(reader, workflow_id) else math.inf

        return self._wait(run_topic(workflow_id), seconds_left, timeout, stop)

    def changes_seen(self, workflow_id: WorkflowId) -> int:
        self._require_open()
        return self.database.bell.count(self._heard_as(run_topic(workflow_id)))

    def wait_for_change(
        self,
        workflow_id: WorkflowId,
        seen: int,
        timeout: float | None = None,
        *,
        stop: threading.Event | None = None,
    ) -> bool:
        topic = self._heard_as(run_topic(workflow_id))
        deadline = math.inf if timeout is None else self._clock.monotonic() + timeout
        while stop is None or not stop.is_set():
            patience = deadline - self._clock.monotonic()
            is_changed = self.changes_seen(workflow_id) != seen
            if is_changed or patience <= 0:
                return is_changed
            self.database.bell.wait(topic, seen, min(patience, self.look_s), stop)
        return False
