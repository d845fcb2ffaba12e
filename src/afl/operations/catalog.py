"""The workflows that can be called: those of given programs, and the newest ones of the store.

A workflow is known by its qualified name. Of several programs that have it, a given one counts
before those of the store, and of those the one that came last.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from afl.errors import AflError
from afl.lang.names import Declared
from afl.lang.program import Program
from afl.log import get_logger
from afl.runtime.entities import WorkflowDefinition
from afl.runtime.persistence import PersistenceAPI

_log = get_logger(__name__)

#: Workflows of the store that are looked at; older ones are called by their text.
_NEWEST = 100


@dataclass(frozen=True)
class Offer:
    """A workflow that can be called, with the program it is in."""

    program: Program
    workflow: Declared
    #: The program was handed in at the start, and is not only remembered by the store.
    is_given: bool

    @property
    def name(self) -> str:
        return self.workflow.qualified


class Catalog:
    """Asked again and again, so stored programs are read once. Safe from any thread."""

    def __init__(self, store: PersistenceAPI, programs: Sequence[Program] = ()) -> None:
        self._store = store
        self._given = {
            name: Offer(program, workflow, is_given=True)
            for program in reversed(programs)
            for name, workflow in program.workflows.items()
        }
        #: Programs of the store by their flows; None for what this afl cannot read.
        self._known: dict[str, Program | None] = {}
        self._lock = threading.Lock()

    def offers(self) -> dict[str, Offer]:
        """All of them, by their qualified names, in the order of the names."""
        found = dict(self._given)
        for each in self._store.get_all_workflows(_NEWEST):
            if each.name not in found:
                offer = self._stored(each)
                if offer is not None:
                    found[each.name] = offer
        return dict(sorted(found.items()))

    def _stored(self, workflow: WorkflowDefinition) -> Offer | None:
        program = self._program(workflow.flow_id)
        declared = program.workflows.get(workflow.name) if program is not None else None
        if program is None or declared is None:
            return None
        return Offer(program, declared, is_given=False)

    def _program(self, flow_id: str) -> Program | None:
        """A stored program never changes: its flow is named by what it is."""
        with self._lock:
            if flow_id in self._known:
                return self._known[flow_id]
        flow = self._store.get_flow(flow_id)
        program: Program | None = None
        if flow is not None and flow.program:
            try:
                program = Program.from_json(flow.program)
            except AflError as error:
                _log.warning("stored_program_not_offered", flow=flow_id, error=str(error))
        with self._lock:
            if len(self._known) >= _NEWEST:
                self._known.clear()
            self._known[flow_id] = program
        return program
