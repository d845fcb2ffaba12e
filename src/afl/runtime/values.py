"""Values that many steps of a run read again and again, kept decoded for a while.

The parameters of a workflow may be large, and every step of it may read them. They do not change
while its blocks run, so they need not be read and decoded for each step. Only committed values
come in here; what is forgotten is read again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from afl.runtime.types import StepId


class ValueCache:
    """The values of the containers that were used last. Nobody may change what it gives."""

    def __init__(self, size: int = 64) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._values: OrderedDict[StepId, dict[str, Any]] = OrderedDict()

    def get(self, step_id: StepId) -> dict[str, Any] | None:
        with self._lock:
            found = self._values.get(step_id)
            if found is not None:
                self._values.move_to_end(step_id)
            return found

    def put(self, step_id: StepId, values: dict[str, Any]) -> None:
        with self._lock:
            self._values[step_id] = values
            self._values.move_to_end(step_id)
            while len(self._values) > self._size:
                self._values.popitem(last=False)

    def drop(self, step_id: StepId) -> None:
        with self._lock:
            self._values.pop(step_id, None)
