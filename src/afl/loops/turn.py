"""A turn that is going on: what the code that does it may ask and say."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from afl.agents.deadline import Deadline
from afl.errors import UsageError
from afl.turns.effects import UNDECLARED, Policy
from afl.turns.journal import Turn as JournaledTurn
from afl.turns.waits import REQUIRED


def _nothing() -> None:
    """For who has nobody to tell."""


@dataclass(frozen=True)
class Turn:
    """Safe from any thread. `current_turn()` finds it from anywhere in the code that does it."""

    #: Which delivery of its message this is, counted from 1.
    attempt: int = 1
    #: When it is given up; None if it may take for ever.
    deadline: Deadline | None = None
    #: Set when nobody wants the result any more.
    cancellation: threading.Event = field(default_factory=threading.Event)
    #: What its request and its loop bring along for tools.
    resources: Mapping[str, Any] = field(default_factory=dict)
    on_beat: Callable[[], object] = field(default=_nothing, repr=False)
    #: What it did so far, if its loop keeps turns.
    journal: JournaledTurn | None = field(default=None, repr=False)

    @property
    def is_cancelled(self) -> bool:
        return self.cancellation.is_set()

    def beat(self) -> None:
        """Give a sign of progress: a turn without one for too long is given up. Never waits."""
        self.on_beat()

    # What is kept, if the loop has `turns`

    def model(self, call: Callable[[], Any], *, name: str = "") -> Any:
        """The answer of a model, which must be JSON; `call` asks for it."""
        return self._kept().model(call, name=name)

    def stream(self, text: str) -> None:
        """Let whoever follows the turn read what a model says, before its answer is whole: within
        the call of `model`. Never waits. Raises UsageError elsewhere."""
        self._kept().stream(text)

    def tool(
        self,
        name: str,
        arguments: Any,
        call: Callable[[], Any],
        *,
        policy: Policy = UNDECLARED,
    ) -> Any:
        """Do something with an effect, once: what it returned, which must be JSON. Raises
        ToolFailed if it raises, or did before the turn was resumed."""
        return self._kept().tool(name, arguments, call, policy=policy)

    def remember(self, delta: Any) -> None:
        """Keep a change of what the agent remembers; once, however often the turn is resumed."""
        self._kept().remember(delta)

    def note(self, remark: Any) -> None:
        """Keep a remark for whoever looks at the turn."""
        self._kept().note(remark)

    def sleep(self, seconds: float) -> None:
        """Go on after this time, perhaps in another process: raises TurnSuspended here."""
        self._kept().sleep(seconds)

    def wait_for_input(
        self, question: Any, *, timeout_s: float | None = None, default: Any = REQUIRED
    ) -> Any:
        """A person's answer, perhaps in another process: raises TurnSuspended here.

        After `timeout_s` the answer is the default. Raises InputTimedOut if there is none.
        """
        return self._kept().wait_for_input(question, timeout_s=timeout_s, default=default)

    @property
    def suspend_requested(self) -> bool:
        """Whether the turn will be left at its next call: end what takes long before that."""
        return self.journal is not None and self.journal.suspend_requested

    def _kept(self) -> JournaledTurn:
        if self.journal is None:
            raise UsageError("this turn is not kept: give its loop a store, as turns=")
        return self.journal


_current: ContextVar[Turn | None] = ContextVar("afl_turn", default=None)


def current_turn() -> Turn:
    """The turn that the calling code is part of, a tool for example.

    Raises UsageError outside of all turns.
    """
    turn = _current.get()
    if turn is None:
        raise UsageError("there is no turn here: only what a loop calls is part of one")
    return turn


def inner_turn(
    deadline: Deadline | None, resources: Mapping[str, Any], on_beat: Callable[[], object]
) -> Turn:
    """A turn within the one of the calling code, if that is part of one: its signs of progress
    are those of the outer turn, too, and it ends with it."""
    outer = _current.get()
    if outer is None:
        return Turn(deadline=deadline, resources=resources, on_beat=on_beat)

    def beat() -> None:
        on_beat()
        outer.beat()

    return Turn(
        attempt=outer.attempt,
        deadline=deadline,
        cancellation=outer.cancellation,
        resources=resources,
        on_beat=beat,
    )


def is_current(turn: Turn) -> bool:
    """Whether the calling code is part of this very turn."""
    return _current.get() is turn


@contextmanager
def taking(turn: Turn) -> Iterator[Turn]:
    """Let `current_turn()` be this one."""
    token = _current.set(turn)
    try:
        yield turn
    finally:
        _current.reset(token)
