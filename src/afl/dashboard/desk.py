"""What the dashboard works on."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from afl import telemetry
from afl.clock import SYSTEM_CLOCK, Clock
from afl.dashboard.boards import Boards
from afl.errors import ConfigurationError
from afl.gateway.access import Visitor
from afl.gateway.requests import Limits
from afl.lang.program import Program
from afl.operations.catalog import Catalog
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import DEFAULT_TASK_LIST, PersistenceAPI
from afl.turns.api import TurnStore

#: Actions that are shown; all of them are in the log.
_REMEMBERED = 200


@dataclass(frozen=True)
class Asked:
    """A request, read."""

    visitor: Visitor
    #: Parts of the path.
    path: Mapping[str, str] = field(default_factory=dict)
    #: What the query gives; what was left out is not here.
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None


@dataclass(frozen=True)
class Action:
    """Something that somebody did, or tried to."""

    time: datetime
    who: str
    action: str
    subject: str
    #: `done`, or why not.
    outcome: str


class Desk:
    """The store, the engine and what else there is. Safe from any thread; blocks while they work.

    `open_turns` is called when turns are first asked for: not every store has some. `mailboxes` is
    the URL at which they are; None if there are none.
    """

    def __init__(
        self,
        store: PersistenceAPI,
        evaluator: Evaluator,
        *,
        open_turns: Callable[[], TurnStore] | None = None,
        mailboxes: str | None = None,
        programs: Sequence[Program] = (),
        handler_paths: Sequence[Path] = (),
        task_list: str = DEFAULT_TASK_LIST,
        limits: Limits | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.store = store
        self.evaluator = evaluator
        self.mailboxes = mailboxes
        self.catalog = Catalog(store, programs)
        self.handler_paths = tuple(handler_paths)
        self.task_list = task_list
        self.limits = limits or Limits()
        self.clock = clock
        self.boards = Boards(store)
        self._open_turns = open_turns
        self._turns: TurnStore | None = None
        self._lock = threading.Lock()
        self._actions: deque[Action] = deque(maxlen=_REMEMBERED)

    @property
    def turns(self) -> TurnStore | None:
        """None if this store has no place for them."""
        with self._lock:
            if self._turns is None and self._open_turns is not None:
                try:
                    self._turns = self._open_turns()
                except ConfigurationError:
                    self._open_turns = None
            return self._turns

    def close(self) -> None:
        """Close what was opened here; the store belongs to who gave it."""
        with self._lock:
            if self._turns is not None:
                self._turns.close()
            self._turns = None

    # What was done

    def note(self, visitor: Visitor, action: str, subject: str, outcome: str = "done") -> None:
        """Remember what somebody did, and tell it."""
        now = self.clock.now()
        telemetry.emit(
            telemetry.OperatorActed(
                at=now, caller=visitor.name, action=action, subject=subject, outcome=outcome
            )
        )
        self._actions.append(Action(now, visitor.name, action, subject, outcome))

    def actions(self) -> list[Action]:
        """The last ones of this process, newest first."""
        return list(reversed(self._actions))
