"""Plans of programs that are in use, made once in each process."""

from __future__ import annotations

import threading
from collections import OrderedDict

from afl.errors import NotFound
from afl.ids import stable_id
from afl.lang.program import Program
from afl.runtime.persistence import FlowStore
from afl.runtime.plan import Plan


def flow_id_of(program: Program) -> str:
    """A program is stored once, however many runs it has."""
    return stable_id("flow", program.digest)


class PlanCache:
    """The plans that were used last; others are read from the store again."""

    def __init__(self, flows: FlowStore, size: int = 64) -> None:
        self._flows = flows
        self._size = size
        self._lock = threading.Lock()
        self._plans: OrderedDict[str, Plan] = OrderedDict()
        #: What somebody is just reading.
        self._coming: dict[str, threading.Event] = {}

    def of(self, program: Program) -> Plan:
        flow_id = flow_id_of(program)
        return self._known(flow_id) or self._keep(flow_id, Plan(program))

    def get(self, flow_id: str) -> Plan:
        """The plan of a stored program. Raises NotFound if it is not there."""
        return self._known(flow_id) or self._read_once(flow_id)

    def _read_once(self, flow_id: str) -> Plan:
        """All handlers of a new worker ask in the same moment; one of them reads."""
        with self._lock:
            other, mine = self._coming.get(flow_id), threading.Event()
            if other is None:
                self._coming[flow_id] = mine
        if other is not None:
            other.wait()
            # If it failed there, everybody is told what is wrong here.
            return self._known(flow_id) or self._keep(flow_id, self._read(flow_id))
        try:
            return self._keep(flow_id, self._read(flow_id))
        finally:
            with self._lock:
                del self._coming[flow_id]
            mine.set()

    def _known(self, flow_id: str) -> Plan | None:
        with self._lock:
            found = self._plans.get(flow_id)
            if found is not None:
                self._plans.move_to_end(flow_id)
            return found

    def _keep(self, flow_id: str, plan: Plan) -> Plan:
        with self._lock:
            self._plans[flow_id] = plan
            while len(self._plans) > self._size:
                self._plans.popitem(last=False)
            return plan

    def _read(self, flow_id: str) -> Plan:
        flow = self._flows.get_flow(flow_id)
        if flow is None or not flow.program:
            raise NotFound(f"the program {flow_id} is not in the store; was its run pruned?")
        return Plan(Program.from_json(flow.program))
